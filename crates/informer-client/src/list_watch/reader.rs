//! The body of an answer as a stream of what is in it: one for lists and watches, in either encoding.
//!
//! This task takes frames from the network and cuts them into objects. Reading those is ten times the work;
//! where there is a backlog, batches of them are read by other tasks, side by side, while this one cuts on.
//! What arrives alone is read here.
//!
//! A stream by hand and not of futures: what is at hand is handed out by a look into a queue, and nothing is
//! moved but the item.
//!
//! # Shutdown
//!
//! Dropping the stream drops the body, which ends the request.

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
use super::reply::Answer;
use crate::client::{BodyError, ResponseBody};

/// What cuts a body into its objects. They are read by its [`Decoder`], here or in other tasks.
pub(super) trait Parts {
    type Part: Send + 'static;
    type Decoder: Decoder<Part = Self::Part>;

    /// Cuts on in a frame, until the pieces are full or the frame is used up. `at` moves behind what was cut.
    fn cut(&mut self, frame: &Bytes, at: &mut usize, pieces: &mut Pieces) -> Result<(), SourceError>;

    /// What reads the pieces.
    fn decoder(&mut self) -> &mut Self::Decoder;

    /// Returns the body is over, and all of its pieces are read.
    fn end(&mut self, parts: &mut VecDeque<Self::Part>) -> Result<(), SourceError>;

    /// What is attempted, for errors.
    fn attempt(&self) -> &str;

    /// What did not come for so long.
    fn silence(&self, idle_timeout: Duration) -> String;
}

/// What reads the objects of a body, in any task.
pub(super) trait Decoder: Clone + Send + 'static {
    type Part;

    /// Reads the pieces, up to one that ends the body.
    fn decode(&mut self, pieces: &Pieces) -> Decoded<Self::Part>;
}

/// What pieces became.
pub(super) struct Decoded<P> {
    pub(super) parts: VecDeque<P>,
    /// Why nothing of the body counts behind these parts.
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
    patience: Patience,
    parts: P,
    /// The network frame that is being cut, empty before and after one, and how far.
    frame: Bytes,
    at: usize,
    /// What is cut and not yet given to a decoder.
    pieces: Pieces,
    /// What other tasks decode: before the pieces, behind what is ready.
    offload: Offload<Decoded<P::Part>>,
    ready: VecDeque<P::Part>,
    stage: Stage,
    /// What ends the stream after the parts before it.
    failure: Option<SourceError>,
    /// So much was read at once that others are to get the thread before more is.
    pausing: bool,
}

/// How far a body is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Reading,
    /// The body is over, some of its pieces are still read.
    Draining,
    /// Nothing comes but what is ready, and the failure.
    Over,
}

impl<P: Parts> Reader<P> {
    pub(super) fn new(answer: Answer, idle_timeout: Duration, parts: P) -> Self {
        Self {
            body: answer.body,
            patience: Patience::new(idle_timeout),
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

    /// Cuts on: in the frame, and where that is used up, in what the network brings.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.frame.is_empty() {
            match self.poll_frame(context) {
                // What is at hand is not kept waiting for what is not.
                Poll::Pending if self.pieces.is_empty() => return Poll::Pending,
                Poll::Pending => {
                    self.decode();
                    return Poll::Ready(());
                }
                Poll::Ready(Ok(Some(frame))) => (self.frame, self.at) = (frame, 0),
                Poll::Ready(Ok(None)) => {
                    self.decode();
                    // Unless what was decoded just now ended it.
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

    /// Gives the pieces to a decoder: in another task where that is worth it, or where others are before
    /// them.
    fn decode(&mut self) {
        if self.pieces.is_empty() {
            return;
        }
        let elsewhere = !self.offload.is_idle() || self.pieces.are_worth_a_task();
        if let Some(room) = self.offload.room().filter(|_| elsewhere) {
            let (mut decoder, pieces) = (self.parts.decoder().clone(), std::mem::take(&mut self.pieces));
            return room.begin(move || decoder.decode(&pieces));
        }
        debug_assert!(self.offload.is_idle(), "nothing is cut while there is no room");
        let decoded = self.parts.decoder().decode(&self.pieces);
        self.pieces.clear();
        self.pausing = !self.frame.is_empty();
        self.take(decoded);
    }

    fn take(&mut self, decoded: Decoded<P::Part>) {
        self.ready.extend(decoded.parts);
        let Some(failure) = decoded.failure else { return };
        // It stands before whatever was cut behind it.
        self.offload.abort();
        self.pieces.clear();
        self.frame = Bytes::new();
        (self.stage, self.failure) = (Stage::Over, Some(failure));
    }

    /// Nothing is read any more; what was read before is handed out, and then the first failure.
    fn fail(&mut self, failure: SourceError) {
        self.stage = Stage::Over;
        self.failure.get_or_insert(failure);
    }

    /// All that was cut is decoded.
    fn end(&mut self) {
        self.stage = Stage::Over;
        if let Err(error) = self.parts.end(&mut self.ready) {
            self.fail(error);
        }
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, SourceError>> {
        loop {
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
                ready!(self.patience.poll_end(context));
                let text = format!("{}: {}", self.parts.attempt(), self.parts.silence(self.patience.timeout));
                return Poll::Ready(Err(SourceError::new(SourceErrorKind::Timeout, text)));
            };
            self.patience.renew();
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
                    let text = format!("{}: the runtime shuts down", self.parts.attempt());
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

    /// What is at hand.
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.ready.len(), None)
    }
}

/// How long a body may be silent. Its timer is set where it runs out, not whenever something comes.
struct Patience {
    timeout: Duration,
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Patience {
    fn new(timeout: Duration) -> Self {
        Self { timeout, since: Instant::now(), timer: Box::pin(sleep(timeout)) }
    }

    fn renew(&mut self) {
        self.since = Instant::now();
    }

    /// Ready where nothing came for so long.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.timer.as_mut().poll(context));
            // A timeout that has no end in the calendar has not run out.
            let Some(end) = self.since.checked_add(self.timeout).filter(|end| *end > self.timer.deadline())
            else {
                return Poll::Ready(());
            };
            self.timer.as_mut().reset(end);
        }
    }
}
