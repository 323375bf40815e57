//! The histogram of the durations of a handler's calls.

use std::time::Duration;

/// The upper bounds of the buckets, about three per power of ten. Calls that take longer are in one more
/// bucket.
const BOUNDS: [Duration; 13] = [
    Duration::from_micros(10),
    Duration::from_micros(30),
    Duration::from_micros(100),
    Duration::from_micros(300),
    Duration::from_millis(1),
    Duration::from_millis(3),
    Duration::from_millis(10),
    Duration::from_millis(30),
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
];

/// A histogram of the durations of a handler's calls, from the delivery of an event until the handler has
/// returned or panicked. The buckets are the same for all handlers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandlerLatency {
    buckets: [u64; BOUNDS.len() + 1],
    total: Duration,
}

impl HandlerLatency {
    /// Returns the number of calls of each bucket that has any, shortest first, with the longest duration of
    /// the bucket; `None` for the last bucket, which has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        let bounds = BOUNDS.into_iter().map(Some).chain([None]);
        bounds.zip(self.buckets).filter(|(_, calls)| *calls > 0)
    }

    /// Returns the sum of the durations of all calls.
    pub fn total(&self) -> Duration {
        self.total
    }

    pub(super) fn record(&mut self, took: Duration) {
        let bucket = BOUNDS.iter().position(|bound| took <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[bucket] += 1;
        self.total = self.total.saturating_add(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_in_the_bucket_of_the_next_bound() {
        let mut latency = HandlerLatency::default();
        for micros in [0, 10, 11, 1_000, 1_001, 10_000_000, 10_000_001] {
            latency.record(Duration::from_micros(micros));
        }
        let buckets: Vec<_> = latency.buckets().collect();
        let at = |micros| Some(Duration::from_micros(micros));
        assert_eq!(
            buckets,
            [(at(10), 2), (at(30), 1), (at(1_000), 1), (at(3_000), 1), (at(10_000_000), 1), (None, 1)]
        );
        assert_eq!(latency.total(), Duration::from_micros(20_002_023));
    }
}
