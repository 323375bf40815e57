//! Drives the timeouts of a connection: reports reads, writes, requests and responses to its
//! [`ConnectionTimer`], and waits for the timeout.
//!
//! # Lock order
//!
//! The timer of a connection has a lock. It is held for one call of the timer, and never together with
//! another lock. The same holds for the lock of the streams.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::stream_executor::current_stream;
use crate::timer::{ConnectionTimer, TimeoutCheck, Timeouts};

/// Marks a response whose body may take any time, such as a watch. It is an extension of the response.
#[derive(Debug, Clone, Copy)]
pub struct LongRunning;

#[derive(Clone)]
pub(crate) struct ConnectionMonitor {
    clock: Arc<dyn Clock>,
    timer: Arc<Mutex<ConnectionTimer>>,
    /// The number of the next response.
    next: Arc<AtomicU64>,
    /// The tokens that reset the HTTP/2 streams of the long-running responses, by number.
    streams: Arc<Mutex<HashMap<u64, CancellationToken>>>,
}

impl ConnectionMonitor {
    pub(crate) fn new(timeouts: Timeouts, clock: Arc<dyn Clock>) -> Self {
        let timer = Arc::new(Mutex::new(ConnectionTimer::new(timeouts, clock.elapsed())));
        Self { clock, timer, next: Arc::default(), streams: Arc::default() }
    }

    /// Wraps the stream of a connection, in order to record reads and blocked writes.
    pub(crate) fn inspect<S>(&self, stream: S) -> MonitoredStream<S> {
        MonitoredStream { stream, monitor: self.clone(), blocked: false }
    }

    /// Marks a request as in flight until the returned guard is dropped.
    pub(crate) fn on_request(&self) -> InFlightGuard {
        self.timer.lock().on_request(self.clock.elapsed());
        InFlightGuard(self.clone())
    }

    /// Waits until a timeout of the connection expires. Returns true if the connection was idle.
    pub(crate) async fn timed_out(&self) -> bool {
        loop {
            let check = self.timer.lock().check_timeout(self.clock.elapsed());
            match check {
                TimeoutCheck::Pending(due) => self.clock.sleep_until(due).await,
                TimeoutCheck::Stalled(response) => self.reset_stream(response),
                TimeoutCheck::TimedOut => return false,
                TimeoutCheck::Idle => return true,
            }
        }
    }

    /// Resets the stream of a response whose client does not read.
    fn reset_stream(&self, response: u64) {
        let stream = self.streams.lock().remove(&response);
        // The task of the stream drops the response later, so the response no longer counts as stalled.
        self.timer.lock().on_part_accepted(response);
        if let Some(stream) = stream {
            stream.cancel();
        }
    }

    pub(crate) async fn sleep(&self, wait: Duration) {
        self.clock.sleep_until(self.clock.elapsed() + wait).await;
    }
}

pub(crate) struct InFlightGuard(ConnectionMonitor);

impl InFlightGuard {
    /// Records that the response body begins. It is in flight until the returned body is dropped.
    pub(crate) fn on_response<B>(self, body: B, long_running: bool) -> InFlightBody<B> {
        self.0.timer.lock().on_response(long_running, self.0.clock.elapsed());
        let number = long_running.then(|| self.0.next.fetch_add(1, Ordering::Relaxed));
        if let Some((number, stream)) = number.zip(current_stream()) {
            self.0.streams.lock().insert(number, stream);
        }
        InFlightBody { body, number, in_flight: self }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.timer.lock().on_response_end(self.0.clock.elapsed());
    }
}

/// A response body that is in flight until it is dropped.
pub(crate) struct InFlightBody<B> {
    body: B,
    /// The number of a long-running response.
    number: Option<u64>,
    in_flight: InFlightGuard,
}

impl<B> InFlightBody<B> {
    fn report(&self, report: impl FnOnce(&mut ConnectionTimer, u64, Duration)) {
        let ConnectionMonitor { clock, timer, .. } = &self.in_flight.0;
        if let Some(number) = self.number {
            report(&mut timer.lock(), number, clock.elapsed());
        }
    }
}

impl<B> Drop for InFlightBody<B> {
    fn drop(&mut self) {
        self.report(|timer, number, _| timer.on_part_accepted(number));
        if let Some(number) = self.number {
            self.in_flight.0.streams.lock().remove(&number);
        }
    }
}

impl<B: Body + Unpin> Body for InFlightBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        // hyper asks for another part only if it has room for it.
        self.report(|timer, number, _| timer.on_part_accepted(number));
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(_))) = &polled {
            self.report(ConnectionTimer::on_part);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The stream of a connection, which reports reads, blocked writes and flushes to the monitor.
///
/// For a response that is not long-running, a client that reads a byte from time to time does not extend its
/// timeout: only a flush ends it. hyper flushes after it has written all data of a response. For a
/// long-running response, each accepted write extends the timeout.
pub(crate) struct MonitoredStream<S> {
    stream: S,
    monitor: ConnectionMonitor,
    /// A write was blocked after the last flush. It saves a lock for each flush of a client that reads.
    blocked: bool,
}

impl<S> MonitoredStream<S> {
    fn check_blocked<T>(&mut self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_pending() {
            self.blocked = true;
            self.monitor.timer.lock().on_write_blocked(self.monitor.clock.elapsed());
        } else if self.blocked {
            self.monitor.timer.lock().on_progress(self.monitor.clock.elapsed());
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MonitoredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let bytes = &buffer.filled()[before..];
        // An empty read marks the end of the input and is not recorded.
        if !bytes.is_empty() {
            self.monitor.timer.lock().on_read(bytes, self.monitor.clock.elapsed());
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MonitoredStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_blocked(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() && self.blocked {
            self.blocked = false;
            self.monitor.timer.lock().on_flush(self.monitor.clock.elapsed());
        }
        self.check_blocked(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        self.check_blocked(ended)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.check_blocked(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
