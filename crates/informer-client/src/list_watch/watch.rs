mod json;
mod protobuf;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use informer_cache::source::{SourceError, SourceErrorKind, WatchEvent, WatchRequest};

use super::ReadOptions;
use super::objects::{ObjectReader, Read};
use super::reply::{self, Answer};
use crate::Representation;
use crate::represent::{Encoding, Origin};

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// How many events are read before others get their turn on the thread.
const BATCH_MAX: usize = 1000;

/// Reads the body of one watch.
pub(super) struct WatchReader<O: informer_core::Object> {
    attempt: String,
    answer: Answer,
    idle_timeout: Duration,
    body: WatchBody<O>,
    /// The network frame that is being read, empty before and after one, and how far.
    frame: Bytes,
    at: usize,
    events: VecDeque<WatchEvent<O>>,
    /// What ends the stream after the events before it.
    failure: Option<SourceError>,
    ended: bool,
}

/// What the bytes become, by their encoding.
enum WatchBody<O: informer_core::Object> {
    Json(json::JsonWatch<O>),
    Protobuf(protobuf::ProtobufWatch<O>),
}

impl<O: Representation> WatchReader<O> {
    pub(super) fn new(
        attempt: String,
        answer: Answer,
        origin: Origin,
        options: &ReadOptions,
        request: WatchRequest<O>,
    ) -> Self {
        let objects = ObjectReader::new(origin, options.pruning.clone(), request.context);
        let body = match answer.encoding {
            Encoding::Json => WatchBody::Json(json::JsonWatch::new(options.limits, objects)),
            Encoding::Protobuf => WatchBody::Protobuf(protobuf::ProtobufWatch::new(options.limits, objects)),
        };
        Self {
            attempt,
            answer,
            idle_timeout: request.timeout.saturating_add(options.watch_idle_margin),
            body,
            frame: Bytes::new(),
            at: 0,
            events: VecDeque::new(),
            failure: None,
            ended: false,
        }
    }

    pub(super) fn into_stream(self) -> impl Stream<Item = Result<WatchEvent<O>, SourceError>> + Send {
        stream::try_unfold(self, |mut reader| async move {
            let event = reader.next().await?;
            Ok(event.map(|event| (event, reader)))
        })
    }

    async fn next(&mut self) -> Result<Option<WatchEvent<O>>, SourceError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if self.ended {
                return Ok(None);
            }
            if !self.frame.is_empty() {
                // Events before a broken one are told first.
                self.failure = self.read().err();
                if !self.frame.is_empty() {
                    tokio::task::yield_now().await;
                }
                continue;
            }
            let Ok(frame) = tokio::time::timeout(self.idle_timeout, self.answer.body.next_frame()).await
            else {
                let text = format!("{}: neither event nor end for {:?}", self.attempt, self.idle_timeout);
                return Err(SourceError::new(SourceErrorKind::Timeout, text));
            };
            match frame.map_err(|error| error.into_source_error(&self.attempt))? {
                Some(frame) => (self.frame, self.at) = (frame, 0),
                None if self.body.may_end() => {
                    let buffered_max = self.body.buffered_max();
                    tracing::debug!(attempt = self.attempt, buffered_max, "the server closed a watch");
                    self.ended = true;
                }
                None => {
                    let text = format!("{}: the stream broke off within an event", self.attempt);
                    return Err(SourceError::new(SourceErrorKind::Connection, text));
                }
            }
        }
    }

    /// Reads on in the frame.
    fn read(&mut self) -> Result<(), SourceError> {
        let (frame, at, events) = (&self.frame, &mut self.at, &mut self.events);
        let read = match &mut self.body {
            WatchBody::Json(watch) => watch.read(frame, at, events),
            WatchBody::Protobuf(watch) => watch.read(frame, at, events),
        };
        if self.at == self.frame.len() {
            (self.frame, self.at) = (Bytes::new(), 0);
        }
        read.map_err(|problem| reply::protocol(&self.attempt, problem))
    }
}

impl<O: Representation> WatchBody<O> {
    /// True where the body may end: between two events.
    fn may_end(&self) -> bool {
        match self {
            Self::Json(watch) => watch.may_end(),
            Self::Protobuf(watch) => watch.may_end(),
        }
    }

    /// The most bytes that were ever buffered at once.
    fn buffered_max(&self) -> usize {
        match self {
            Self::Json(watch) => watch.buffered_max(),
            Self::Protobuf(watch) => watch.buffered_max(),
        }
    }
}

/// The event of an object that was added, modified or deleted; the error says why the stream cannot go on.
fn happened<O>(event_type: &str, read: Read<O>) -> Result<WatchEvent<O>, String> {
    Ok(match (event_type, read) {
        ("ADDED", Read::Fresh(object) | Read::Known(object)) => WatchEvent::Added(object),
        ("MODIFIED", Read::Fresh(object) | Read::Known(object)) => WatchEvent::Modified(object),
        (_, Read::Fresh(object) | Read::Known(object)) => WatchEvent::Deleted(object),
        ("DELETED", Read::Undecodable(what)) => WatchEvent::DeletedUndecodable(what),
        (_, Read::Undecodable(what)) => WatchEvent::Undecodable(what),
        (_, Read::OtherKind(other)) => {
            return Err(format!("the object of an event is {other}; check group and kind"));
        }
    })
}
