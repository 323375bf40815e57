//! The body of a list or watch response as a stream of decoded parts (objects and events), in JSON or
//! protobuf.
//!
//! The task that polls the stream receives frames from the network and splits them into objects. Decoding the
//! objects takes ten times as long as splitting. If there is a backlog, other tasks decode batches in
//! parallel while this task continues to split. Small batches are decoded in the polling task.
//!
//! The stream is implemented by hand instead of with an async block, because returning a buffered item is one
//! queue operation and moves only the item.
//!
//! # Shutdown
//!
//! Dropping the stream drops the body, which cancels the request.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http_body::Body;
use informer_cache::source::{SourceError, SourceErrorKind};
use tokio::time::{Instant, Sleep, sleep};

use super::offload::{Cancelled, Offload};
use super::pieces::Pieces;
use super::response::EncodedBody;
use crate::client::{BodyError, ResponseBody};

/// Splits the body of a response into objects, in one format. The [`Decoder`] of this type decodes the
/// objects, in the polling task or in other tasks.
pub(super) trait Parts {
    type Part: Send + 'static;
    type Decoder: Decoder<Part = Self::Part>;

    /// Splits the objects of `frame[*at..]` into `pieces`, until `pieces` is full or the frame is consumed.
    /// Advances `at` past the consumed bytes.
    fn cut(&mut self, frame: &Bytes, at: &mut usize, pieces: &mut Pieces) -> Result<(), SourceError>;

    fn decoder(&mut self) -> &mut Self::Decoder;

    /// Called after the end of the response body, once all of its objects are decoded. Adds the final parts
    /// of the stream, or returns an error if the body is incomplete.
    fn end(&mut self, parts: &mut VecDeque<Self::Part>) -> Result<(), SourceError>;

    fn attempt(&self) -> &str;

    /// Returns the error message for a response body that sent no data during the idle timeout.
    fn silence(&self, idle_timeout: Duration) -> String;
}

/// Decodes the objects of a response body. Clones decode batches in other tasks.
pub(super) trait Decoder: Clone + Send + 'static {
    type Part;

    /// Decodes a batch of objects, up to the first error that ends the stream.
    fn decode(&mut self, pieces: &Pieces) -> Decoded<Self::Part>;
}

pub(super) struct Decoded<P> {
    pub(super) parts: VecDeque<P>,
    /// The error that ends the stream after the caller has received `parts`; `None` if all objects of the
    /// batch were decoded.
    pub(super) failure: Option<SourceError>,
}

impl<P> Decoded<P> {
    fn failed(failure: SourceError) -> Self {
        Self { parts: VecDeque::new(), failure: Some(failure) }
    }
}

pub(super) struct Reader<P: Parts> {
    body: ResponseBody,
    idle: IdleTimeout,
    parts: P,
    /// The network frame that is being split, and the offset of its next byte. The frame is empty if all
    /// received bytes were split.
    frame: Bytes,
    at: usize,
    /// Objects that were split from the body and not yet passed to a decoder.
    pieces: Pieces,
    /// Batches that other tasks are decoding. In the order of the body, they come after the parts in `ready`
    /// and before `pieces`.
    offload: Offload<Decoded<P::Part>>,
    ready: VecDeque<P::Part>,
    stage: Stage,
    /// The error that ends the stream. It is returned after the parts in `ready`.
    failure: Option<SourceError>,
    /// Whether the polling task yields before it splits further objects, because it has just decoded a batch
    /// itself.
    pausing: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Reading,
    /// The end of the body was received. Other tasks may still be decoding some of its objects.
    Draining,
    /// No more data is read. Only the parts in `ready` and the failure remain to be returned.
    Over,
}

impl<P: Parts> Reader<P> {
    pub(super) fn new(response: EncodedBody, idle_timeout: Duration, parts: P) -> Self {
        Self {
            body: response.body,
            idle: IdleTimeout::new(idle_timeout),
            parts,
            frame: Bytes::new(),
            at: 0,
            pieces: Pieces::default(),
            offload: Offload::here(),
            ready: VecDeque::new(),
            stage: Stage::Reading,
            failure: None,
            pausing: false,
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.frame.is_empty() {
            match self.poll_frame(context) {
                // Decode the objects that were already received before the task waits for the next frame.
                Poll::Pending if self.pieces.is_empty() => return Poll::Pending,
                Poll::Pending => {
                    self.decode();
                    return Poll::Ready(());
                }
                Poll::Ready(Ok(Some(frame))) => (self.frame, self.at) = (frame, 0),
                Poll::Ready(Ok(None)) => {
                    self.decode();
                    // If this task decoded the last batch and decoding failed, the stream has ended.
                    // Otherwise it waits for the batches that other tasks decode.
                    if self.stage == Stage::Reading {
                        self.stage = Stage::Draining;
                    }
                    return Poll::Ready(());
                }
                Poll::Ready(Err(error)) => {
                    self.decode();
                    self.fail(error);
                    return Poll::Ready(());
                }
            }
        } else if std::mem::take(&mut self.pausing) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.cut();
        Poll::Ready(())
    }

    fn cut(&mut self) {
        let cut = self.parts.cut(&self.frame, &mut self.at, &mut self.pieces);
        if self.at == self.frame.len() {
            self.frame = Bytes::new();
        }
        if cut.is_err() || self.pieces.is_full() {
            self.decode();
        }
        if let Err(error) = cut {
            self.fail(error);
        }
    }

    /// Decodes the batch in `pieces`: in another task if the batch is large enough or earlier batches are
    /// still being decoded by other tasks, otherwise in this task.
    fn decode(&mut self) {
        if self.pieces.is_empty() {
            return;
        }
        let elsewhere = !self.offload.is_idle() || self.pieces.are_worth_a_task();
        if let Some(room) = self.offload.room().filter(|_| elsewhere) {
            let (mut decoder, pieces) = (self.parts.decoder().clone(), std::mem::take(&mut self.pieces));
            return room.begin(move || decoder.decode(&pieces));
        }
        debug_assert!(self.offload.is_idle(), "nothing is split while no task slot is free");
        let decoded = self.parts.decoder().decode(&self.pieces);
        self.pieces.clear();
        self.pausing = !self.frame.is_empty();
        self.take(decoded);
    }

    fn take(&mut self, decoded: Decoded<P::Part>) {
        self.ready.extend(decoded.parts);
        let Some(failure) = decoded.failure else { return };
        // The results of batches are processed in the order of the body. The stream ends with the error of
        // this batch, so all later batches are discarded.
        self.offload.abort();
        self.pieces.clear();
        self.frame = Bytes::new();
        (self.stage, self.failure) = (Stage::Over, Some(failure));
    }

    /// Stops reading the body. Parts that were received before are still returned, then the first failure.
    fn fail(&mut self, failure: SourceError) {
        self.stage = Stage::Over;
        self.failure.get_or_insert(failure);
    }

    fn end(&mut self) {
        self.stage = Stage::Over;
        if let Err(error) = self.parts.end(&mut self.ready) {
            self.fail(error);
        }
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, SourceError>> {
        loop {
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
                ready!(self.idle.poll_end(context));
                let text = format!("{}: {}", self.parts.attempt(), self.parts.silence(self.idle.timeout));
                return Poll::Ready(Err(SourceError::new(SourceErrorKind::Timeout, text)));
            };
            self.idle.renew();
            let failed = |error| BodyError::new(error).into_source_error(self.parts.attempt());
            match frame.transpose().map_err(failed)?.map(http_body::Frame::into_data) {
                None => return Poll::Ready(Ok(None)),
                Some(Ok(data)) if !data.is_empty() => return Poll::Ready(Ok(Some(data))),
                Some(_) => {}
            }
        }
    }
}

impl<P: Parts + Unpin> Stream for Reader<P>
where
    P::Part: Unpin,
{
    type Item = Result<P::Part, SourceError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(part)));
            }
            match self.offload.poll_next(context) {
                Poll::Ready(Some(Ok(decoded))) => {
                    self.take(decoded);
                    continue;
                }
                Poll::Ready(Some(Err(Cancelled))) => {
                    let text = format!("{}: the runtime is shutting down", self.parts.attempt());
                    self.take(Decoded::failed(SourceError::new(SourceErrorKind::Connection, text)));
                    continue;
                }
                Poll::Pending if self.stage != Stage::Reading || !self.offload.has_room() => {
                    return Poll::Pending;
                }
                Poll::Pending | Poll::Ready(None) => {}
            }
            match self.stage {
                Stage::Reading => ready!(self.poll_read(context)),
                Stage::Draining => self.end(),
                Stage::Over => return Poll::Ready(self.failure.take().map(Err)),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.ready.len(), None)
    }
}

/// The idle timeout of a response body. A received frame only records the time; the timer is reset when it
/// fires, which is cheaper than a reset for each frame.
struct IdleTimeout {
    timeout: Duration,
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl IdleTimeout {
    fn new(timeout: Duration) -> Self {
        Self { timeout, since: Instant::now(), timer: Box::pin(sleep(timeout)) }
    }

    fn renew(&mut self) {
        self.since = Instant::now();
    }

    /// Returns `Ready` if no frame arrived within the idle timeout.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.timer.as_mut().poll(context));
            // If the deadline is beyond the range of `Instant`, the timeout never expires.
            let Some(end) = self.since.checked_add(self.timeout).filter(|end| *end > self.timer.deadline())
            else {
                return Poll::Ready(());
            };
            self.timer.as_mut().reset(end);
        }
    }
}
