//! A work queue: deduplicated keys, delays, rate limits, priorities and fairness.
