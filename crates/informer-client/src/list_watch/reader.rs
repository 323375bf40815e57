//! The body of an answer as a stream of what is in it: one for lists and watches, in either encoding.
//!
//! A stream by hand and not of futures: what is at hand is handed out by a look into a queue, and nothing is moved but the item.
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

use super::reply::Answer;
use crate::client::{BodyError, ResponseBody};

/// What the bytes of a body become.
pub(super) trait Parts {
    type Part;

    /// Reads on in a frame: as much as others should wait for. `at` moves behind what was read.
    fn read(
        &mut self,
        frame: &[u8],
        at: &mut usize,
        parts: &mut VecDeque<Self::Part>,
    ) -> Result<(), SourceError>;

    /// The body is over.
    fn end(&mut self, parts: &mut VecDeque<Self::Part>) -> Result<(), SourceError>;

    /// What is attempted, for errors.
    fn attempt(&self) -> &str;

    /// What did not come for so long.
    fn silence(&self, idle_timeout: Duration) -> String;
}

/// The parts of one body, as they arrive.
pub(super) struct Reader<P: Parts> {
    body: ResponseBody,
    patience: Patience,
    parts: P,
    /// The network frame that is being read, empty before and after one, and how far.
    frame: Bytes,
    at: usize,
    ready: VecDeque<P::Part>,
    /// What ends the stream after the parts before it.
    failure: Option<SourceError>,
    ended: bool,
    /// So much was read at once that others are to get the thread before more is.
    pausing: bool,
}

impl<P: Parts> Reader<P> {
    pub(super) fn new(answer: Answer, idle_timeout: Duration, parts: P) -> Self {
        Self {
            body: answer.body,
            patience: Patience::new(idle_timeout),
            parts,
            frame: Bytes::new(),
            at: 0,
            ready: VecDeque::new(),
            failure: None,
            ended: false,
            pausing: false,
        }
    }

    /// Reads on: in the frame, and where that is used up, from the network.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SourceError>> {
        if self.frame.is_empty() {
            match ready!(self.poll_frame(context))? {
                Some(frame) => (self.frame, self.at) = (frame, 0),
                None => {
                    self.ended = true;
                    return Poll::Ready(self.parts.end(&mut self.ready));
                }
            }
        } else if std::mem::take(&mut self.pausing) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = self.parts.read(&self.frame, &mut self.at, &mut self.ready);
        if self.at == self.frame.len() {
            self.frame = Bytes::new();
        }
        self.pausing = !self.frame.is_empty();
        Poll::Ready(read)
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
            if let Some(failure) = self.failure.take() {
                self.ended = true;
                return Poll::Ready(Some(Err(failure)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            if let Err(error) = ready!(self.poll_read(context)) {
                self.failure = Some(error);
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
