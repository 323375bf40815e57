//! Runs the tasks of HTTP/2 streams, so that a stream can be reset without its connection.
//!
//! hyper does not poll the body of a response while its client does not read, so the body cannot end the
//! stream. Dropping the task of the stream does: h2 then sends `RST_STREAM`.
//!
//! # Shutdown
//!
//! The task of a stream ends with its connection.

use std::future::Future;

use hyper::rt::Executor;
use tokio_util::sync::CancellationToken;

tokio::task_local! {
    /// Resets the stream whose task runs.
    static RESET: CancellationToken;
}

/// Runs the task of each HTTP/2 stream until it ends or is reset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamExecutor;

impl<F> Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let reset = CancellationToken::new();
        let task = RESET.scope(reset.clone(), async move {
            tokio::select! {
                biased;
                () = reset.cancelled() => tracing::debug!("reset a stream that its client does not read"),
                _ = stream => {}
            }
        });
        tokio::spawn(task);
    }
}

/// Returns the token that resets the stream whose task runs; `None` over HTTP/1.1.
pub(crate) fn current_stream() -> Option<CancellationToken> {
    RESET.try_with(Clone::clone).ok()
}
