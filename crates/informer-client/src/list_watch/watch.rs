mod json;
mod protobuf;

use std::collections::VecDeque;
use std::time::Duration;

use informer_cache::source::{SourceError, SourceErrorKind, WatchEvent, WatchRequest, WatchStream};

use super::ReadOptions;
use super::objects::{ObjectReader, Read};
use super::reader::{Parts, Reader};
use super::reply::{self, Answer};
use crate::Representation;
use crate::represent::{Encoding, Origin};

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// How many events are read before others get their turn on the thread.
const BATCH_MAX: usize = 1000;

/// What the bytes of one watch become.
pub(super) struct WatchParts<O: informer_core::Object> {
    attempt: String,
    body: WatchBody<O>,
}

/// What the bytes become, by their encoding.
enum WatchBody<O: informer_core::Object> {
    Json(json::JsonWatch<O>),
    Protobuf(protobuf::ProtobufWatch<O>),
}

/// The events of a watch, as its body arrives.
pub(super) fn read<O: Representation>(
    attempt: String,
    answer: Answer,
    origin: Origin,
    options: &ReadOptions,
    request: WatchRequest<O>,
) -> WatchStream<O> {
    let objects = ObjectReader::new(origin, options.pruning.clone(), request.context);
    let body = match answer.encoding {
        Encoding::Json => WatchBody::Json(json::JsonWatch::new(options.limits, objects)),
        Encoding::Protobuf => WatchBody::Protobuf(protobuf::ProtobufWatch::new(options.limits, objects)),
    };
    let idle_timeout = request.timeout.saturating_add(options.watch_idle_margin);
    WatchStream::new(Reader::new(answer, idle_timeout, WatchParts { attempt, body }))
}

impl<O: Representation> Parts for WatchParts<O> {
    type Part = WatchEvent<O>;

    fn read(
        &mut self,
        frame: &[u8],
        at: &mut usize,
        events: &mut VecDeque<WatchEvent<O>>,
    ) -> Result<(), SourceError> {
        let read = match &mut self.body {
            WatchBody::Json(watch) => watch.read(frame, at, events),
            WatchBody::Protobuf(watch) => watch.read(frame, at, events),
        };
        read.map_err(|problem| reply::protocol(&self.attempt, problem))
    }

    fn end(&mut self, _: &mut VecDeque<WatchEvent<O>>) -> Result<(), SourceError> {
        if !self.body.may_end() {
            let text = format!("{}: the stream broke off within an event", self.attempt);
            return Err(SourceError::new(SourceErrorKind::Connection, text));
        }
        let buffered_max = self.body.buffered_max();
        tracing::debug!(attempt = self.attempt, buffered_max, "the server closed a watch");
        Ok(())
    }

    fn attempt(&self) -> &str {
        &self.attempt
    }

    fn silence(&self, idle_timeout: Duration) -> String {
        format!("neither event nor end for {idle_timeout:?}")
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
