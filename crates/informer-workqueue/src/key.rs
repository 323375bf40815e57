use std::hash::Hash;

/// A key of a queue. Implemented for all types that can be compared, hashed and cloned.
///
/// Eq and Clone run under the lock of the queue and should be cheap; Hash runs before that lock is taken. A
/// panic in Eq, Clone or Hash reaches the caller and leaves the queue usable: an add changes nothing, and a
/// key that cannot be cloned moves to the end of the queue.
pub trait QueueKey: Eq + Hash + Clone + Send + 'static {}

impl<K: Eq + Hash + Clone + Send + 'static> QueueKey for K {}
