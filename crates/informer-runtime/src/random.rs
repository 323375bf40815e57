//! Random numbers for the jitter of delays and for identities of processes. A simulation makes them
//! reproducible with [`SeededThread`](informer_core::random::SeededThread).

use informer_core::random::{fraction, seeded};
use uuid::Uuid;

/// Returns a random number from 0, inclusive, to 1, exclusive, by which a delay is varied.
pub(crate) fn jitter() -> f64 {
    seeded().map_or_else(rand::random, fraction)
}

pub(crate) fn uuid() -> Uuid {
    match seeded().zip(seeded()) {
        Some((high, low)) => Uuid::from_u64_pair(high, low),
        None => Uuid::new_v4(),
    }
}
