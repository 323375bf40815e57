//! The lock of a queue, and how long to stand back where somebody else has it.
//!
//! A hold takes some 50 ns as long as the state is in the caches of the core that asks, and several times that when it
//! has to be fetched from another core. So where cores contend, the lock should stay with one of them for a while:
//! whoever finds it taken looks again after a pause, and after a longer one, in which the other gets on with what it
//! has in its caches. Last it sleeps until it is woken, which costs both sides more than any of the pauses.
//!
//! Who adds stands back longer than who works: so the work is done before it piles up, and a queue that stays short is
//! one that stays in the caches.

use std::hint::spin_loop;

use parking_lot::{Mutex, MutexGuard};

/// Turns of the pauses of a worker: of some 20 ns each, 0.1 to 6 us.
const WORKER: [u32; 3] = [4, 32, 256];

/// Turns of the pauses of who adds: 1 to 70 us. The first is short, for a queue whose lock is rarely taken.
const ADDER: [u32; 3] = [48, 384, 3072];

/// Begins a cache line of its own: the count of handles, which every hand-out touches without the lock, would else take
/// the line of the lock away from whoever holds it.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct QueueLock<T>(Mutex<T>);

impl<T> QueueLock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// For everybody but those who add.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.try_lock().unwrap_or_else(|| self.stand_back(&WORKER))
    }

    #[inline]
    pub(super) fn lock_to_add(&self) -> MutexGuard<'_, T> {
        self.0.try_lock().unwrap_or_else(|| self.stand_back(&ADDER))
    }

    #[cold]
    fn stand_back(&self, pauses: &[u32]) -> MutexGuard<'_, T> {
        for &turns in pauses {
            (0..turns).for_each(|_| spin_loop());
            // Looking first leaves the line of the lock where it is.
            if !self.0.is_locked()
                && let Some(guard) = self.0.try_lock()
            {
                return guard;
            }
        }
        self.0.lock()
    }
}

#[cfg(test)]
mod tests;
