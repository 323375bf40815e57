//! Workers in paused time.
