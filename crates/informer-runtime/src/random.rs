//! Random numbers of timers and identities. A simulation makes them reproducible with
//! [`SeededThread`](informer_core::random::SeededThread).

use informer_core::random::{fraction, seeded};
use uuid::Uuid;

/// Returns a random number from 0, inclusive, to 1, exclusive.
pub(crate) fn jitter() -> f64 {
    seeded().map_or_else(rand::random, fraction)
}

pub(crate) fn uuid() -> Uuid {
    match seeded().zip(seeded()) {
        Some((high, low)) => Uuid::from_u64_pair(high, low),
        None => Uuid::new_v4(),
    }
}
