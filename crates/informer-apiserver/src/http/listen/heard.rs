//! A connection that is watched while it is read, so that nobody is waited for without end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::patience::{Patience, Waiting};
use crate::clock::Clock;

/// What a connection waits for, told by its parts.
#[derive(Clone)]
pub(super) struct Watched {
    clock: Arc<dyn Clock>,
    waiting: Arc<Mutex<Waiting>>,
}

impl Watched {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let waiting = Arc::new(Mutex::new(Waiting::new(clock.elapsed())));
        Self { clock, waiting }
    }

    /// The head of a request is there: the answer is under way until what is returned is dropped.
    pub(super) fn asked(&self) -> UnderWay {
        self.waiting.lock().asked(self.clock.elapsed());
        UnderWay(self.clone())
    }

    pub(super) fn answered(&self, endless: bool) {
        self.waiting.lock().answered(endless, self.clock.elapsed());
    }

    pub(super) fn patience(&self) -> Patience {
        self.waiting.lock().patience(self.clock.elapsed())
    }

    /// Waits until the client has been waited for long enough: whether nothing was under way.
    pub(super) async fn over(&self) -> bool {
        loop {
            match self.patience() {
                Patience::Until(due) => self.clock.sleep_until(due).await,
                Patience::Over => return false,
                Patience::Idle => return true,
            }
        }
    }

    pub(super) async fn sleep(&self, wait: std::time::Duration) {
        self.clock.sleep_until(self.clock.elapsed() + wait).await;
    }
}

/// An answer under way; dropped with its body.
pub(in crate::http) struct UnderWay(Watched);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.waiting.lock().done(self.0.clock.elapsed());
    }
}

/// A connection whose bytes are noticed as they come.
pub(super) struct Heard<I> {
    pub(super) io: I,
    pub(super) watched: Watched,
}

impl<I: AsyncRead + Unpin> AsyncRead for Heard<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(context, buffer);
        if let Some(bytes) = buffer.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
            self.watched.waiting.lock().heard(bytes, self.watched.clock.elapsed());
        }
        polled
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Heard<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
