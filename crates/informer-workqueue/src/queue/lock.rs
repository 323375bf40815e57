//! The lock of a queue, with backoff under contention.
//!
//! Holding the lock takes some 50 ns while the state is in the caches of the current core, and several times
//! that when it must be fetched from another core. Under contention the lock should therefore stay with one
//! core for several operations. A caller that finds the lock taken retries after a short pause, then after
//! longer pauses, while the holder continues with its cached data. Finally the caller blocks, which costs the
//! caller and the holder more than any pause.
//!
//! Threads that add keys pause longer than workers. Keys are then processed before they pile up, and a short
//! queue stays in the caches.

use std::hint::spin_loop;

use parking_lot::{Mutex, MutexGuard};

/// Spin counts of the pauses of a worker that waits for the lock. A spin takes some 20 ns, so the pauses last
/// 0.1 to 6 us.
const WORKER: [u32; 3] = [4, 32, 256];

/// Spin counts of the pauses of a thread that waits for the lock to add a key: 1 to 70 us. The first pause is
/// short, for a queue with little contention.
const ADDER: [u32; 3] = [48, 384, 3072];

/// The lock, aligned to its own cache line. Otherwise the reference count of the queue's `Arc`, which every
/// hand-out changes without the lock, would invalidate the cache line of the lock for its holder.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct QueueLock<T>(Mutex<T>);

impl<T> QueueLock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Locks the state for any operation except adding a key.
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
            // Reads the state of the lock with a plain load before trying to take it, so that the cache line
            // stays with the thread that holds the lock.
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
