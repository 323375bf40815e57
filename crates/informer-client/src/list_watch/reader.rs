//! The body of a response as a stream of its decoded parts: for lists and watches, in both encodings.
//!
//! The task that polls the stream receives frames from the network and splits them into objects. Decoding the
//! objects is ten times the work: if there is a backlog, other tasks decode batches in parallel while this
//! task continues to split. Small batches are decoded here.
//!
//! The stream is implemented by hand instead of with an async block: returning a buffered item is one queue
//! operation and moves only the item.
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

/// Splits a body into objects. Its [`Decoder`] decodes them, here or in other tasks.
pub(super) trait Parts {
    type Part: Send + 'static;
    type Decoder: Decoder<Part = Self::Part>;

    /// Splits the frame until `pieces` is full or the frame is consumed. `at` is advanced past the consumed
    /// bytes.
    fn cut(&mut self, frame: &Bytes, at: &mut usize, pieces: &mut Pieces) -> Result<(), SourceError>;

    fn decoder(&mut self) -> &mut Self::Decoder;

    /// Called after the end of the body, when all of its pieces are decoded.
    fn end(&mut self, parts: &mut VecDeque<Self::Part>) -> Result<(), SourceError>;

    /// Describes the request, for error messages.
    fn attempt(&self) -> &str;

    /// Describes an idle timeout, for error messages.
    fn silence(&self, idle_timeout: Duration) -> String;
}

/// Decodes the objects of a body, in any task.
pub(super) trait Decoder: Clone + Send + 'static {
    type Part;

    /// Decodes the pieces, up to the first error that ends the stream.
    fn decode(&mut self, pieces: &Pieces) -> Decoded<Self::Part>;
}

pub(super) struct Decoded<P> {
    pub(super) parts: VecDeque<P>,
    /// An error that ends the stream after these parts.
    pub(super) failure: Option<SourceError>,
}

impl<P> Decoded<P> {
    fn failed(failure: SourceError) -> Self {
        Self { parts: VecDeque::new(), failure: Some(failure) }
    }
}

/// The parts of one body, as they arrive.
pub(super) struct Reader<P: Parts> {
    body: ResponseBody,
    idle: IdleTimeout,
    parts: P,
    /// The network frame that is being split, empty between frames, and the offset of the next byte.
    frame: Bytes,
    at: usize,
    /// Split objects that have not been given to a decoder.
    pieces: Pieces,
    /// Batches that other tasks decode: they come before `pieces` and after `ready`.
    offload: Offload<Decoded<P::Part>>,
    ready: VecDeque<P::Part>,
    stage: Stage,
    /// The error that ends the stream, returned after the ready parts.
    failure: Option<SourceError>,
    /// Whether to yield to other tasks before the next batch, because the last one was decoded here.
    pausing: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Reading,
    /// The body has ended; some of its pieces are still being decoded.
    Draining,
    /// Only the ready parts and the failure remain to be returned.
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

    /// Splits the current frame, or receives the next one.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.frame.is_empty() {
            match self.poll_frame(context) {
                // Decode buffered objects before returning `Pending`.
                Poll::Pending if self.pieces.is_empty() => return Poll::Pending,
                Poll::Pending => {
                    self.decode();
                    return Poll::Ready(());
                }
                Poll::Ready(Ok(Some(frame))) => (self.frame, self.at) = (frame, 0),
                Poll::Ready(Ok(None)) => {
                    self.decode();
                    // Unless the pieces decoded above ended the stream.
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

    /// Gives the pieces to a decoder: in another task if the batch is large enough or earlier batches are
    /// still in flight.
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
        // The failure precedes everything that was split after it.
        self.offload.abort();
        self.pieces.clear();
        self.frame = Bytes::new();
        (self.stage, self.failure) = (Stage::Over, Some(failure));
    }

    /// Stops reading. Earlier parts are still returned, then the first failure.
    fn fail(&mut self, failure: SourceError) {
        self.stage = Stage::Over;
        self.failure.get_or_insert(failure);
    }

    /// Ends the stream after all pieces are decoded.
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

    /// The lower bound is the number of ready parts.
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.ready.len(), None)
    }
}

/// The idle timeout of a body. The timer is reset when it fires, not for each frame.
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

    /// Returns ready if no frame arrived within the timeout.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.timer.as_mut().poll(context));
            // A deadline beyond the range of `Instant` never expires.
            let Some(end) = self.since.checked_add(self.timeout).filter(|end| *end > self.timer.deadline())
            else {
                return Poll::Ready(());
            };
            self.timer.as_mut().reset(end);
        }
    }
}
