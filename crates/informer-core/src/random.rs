//! Random numbers that a simulation makes reproducible.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static STATE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Makes [`seeded`] return a reproducible sequence on the current thread until it is dropped.
#[derive(Debug)]
#[must_use = "the thread is seeded until the guard is dropped"]
pub struct SeededThread {
    previous: Option<u64>,
    not_send: PhantomData<*const ()>,
}

impl SeededThread {
    /// Seeds the current thread.
    pub fn new(seed: u64) -> Self {
        let previous = STATE.replace(Some(seed));
        Self { previous, not_send: PhantomData }
    }
}

impl Drop for SeededThread {
    fn drop(&mut self) {
        STATE.set(self.previous);
    }
}

/// Returns the next number of the sequence of a [seeded](SeededThread) thread; `None` on other threads.
///
/// Timers use it for their jitter, and the API server for generated names, so that a simulation of a whole
/// program is reproducible.
///
/// ```
/// use informer_core::random::{SeededThread, seeded};
///
/// assert_eq!(seeded(), None);
/// let numbers = |seed| {
///     let _seeded = SeededThread::new(seed);
///     [seeded(), seeded()]
/// };
/// assert_eq!(numbers(7), numbers(7));
/// assert_ne!(numbers(7), numbers(8));
/// ```
pub fn seeded() -> Option<u64> {
    let mut state = STATE.get()?;
    let number = next(&mut state);
    STATE.set(Some(state));
    Some(number)
}

/// Advances a SplitMix64 generator and returns its next number.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut number = *state;
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Converts a number of a sequence to a fraction from 0, inclusive, to 1, exclusive.
pub fn fraction(number: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit the mantissa")]
    let fraction = (number >> 11) as f64 / (1_u64 << 53) as f64;
    fraction
}
