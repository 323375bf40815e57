use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Decides how a connection closes: once the flag is set, it ends with RST instead of FIN.
#[derive(Debug, Clone, Default)]
pub struct ResetFlag(Arc<AtomicBool>);

impl ResetFlag {
    /// Makes the connection end with RST, when it ends.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The stream of a connection: a TCP socket, or a pipe in tests.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Returns the first byte without consuming it, or `None` at the end of the stream.
    fn peek(&self) -> impl Future<Output = io::Result<Option<u8>>> + Send;

    /// Makes the connection end with RST when the stream is dropped.
    fn reset_on_drop(&self) -> io::Result<()>;
}

impl Transport for TcpStream {
    async fn peek(&self) -> io::Result<Option<u8>> {
        let mut first = [0];
        Ok((TcpStream::peek(self, &mut first).await? == 1).then_some(first[0]))
    }

    fn reset_on_drop(&self) -> io::Result<()> {
        self.set_zero_linger()
    }
}

/// A stream that sends RST instead of FIN when `reset` is set.
pub(crate) struct Socket<S: Transport> {
    pub(crate) stream: S,
    pub(crate) reset: ResetFlag,
}

impl<S: Transport> Drop for Socket<S> {
    fn drop(&mut self) {
        if self.reset.is_set()
            && let Err(error) = self.stream.reset_on_drop()
        {
            tracing::debug!(%error, "cannot set SO_LINGER; the connection is closed without a reset");
        }
    }
}

impl<S: Transport> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Transport> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // With `reset` set, the socket must not be shut down: a shutdown sends a FIN, which the client takes
        // for the normal end of the response.
        if self.reset.is_set() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
