//! Runs writes from synchronous functions, which cannot await futures.

use futures_util::FutureExt;

/// Returns the outcome of a write by the embedding program or by one of the server's controllers.
///
/// A write suspends only while it waits for an admission or conversion webhook. Writes of the embedding
/// program and of controllers call no webhooks.
pub(crate) fn ready<T>(write: impl Future<Output = T>) -> T {
    write.now_or_never().expect("a write without webhooks never suspends")
}
