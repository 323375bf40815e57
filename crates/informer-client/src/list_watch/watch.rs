mod json;
mod protobuf;

use std::collections::VecDeque;
use std::time::Duration;

use informer_cache::source::{
    ServerStatus, SourceError, SourceErrorKind, WatchEvent, WatchRequest, WatchStream,
};
use informer_core::ResourceVersion;

use super::ReadOptions;
use super::objects::{ObjectReader, Read};
use super::reader::{Parts, Reader};
use super::reply::{self, Answer};
use crate::Representation;
use crate::represent::{Encoding, Origin};
use crate::splitter::frames::Frames;
use crate::splitter::lengths::Lengths;

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// How many events are read before others get their turn on the thread.
const BATCH_MAX: usize = 1000;

/// What the bytes of one watch become.
pub(super) struct WatchParts<O: informer_core::Object> {
    attempt: String,
    cutter: Cutter,
    objects: ObjectReader<O>,
}

/// What cuts the body into events, by its encoding.
enum Cutter {
    Json(Frames),
    Protobuf(Lengths),
}

/// One event as it came, whatever its encoding. Errors say why the stream cannot go on.
trait RawEvent {
    fn event_type(&self) -> &str;

    /// Reads the object, of an event that brings one.
    fn read<O: Representation>(
        &self,
        objects: &mut ObjectReader<O>,
        may_be_known: bool,
    ) -> Result<Read<O>, String>;

    /// The version of the object, as far as it can be read, and whether it says that the initial events end here.
    fn mark(&self) -> Result<(ResourceVersion, bool), String>;

    /// The status that the object is, of an error.
    fn status<O: Representation>(&self, objects: &ObjectReader<O>) -> Option<ServerStatus>;
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
    let cutter = match answer.encoding {
        Encoding::Json => Cutter::Json(Frames::new(options.limits)),
        Encoding::Protobuf => Cutter::Protobuf(Lengths::new(options.limits)),
    };
    let idle_timeout = request.timeout.saturating_add(options.watch_idle_margin);
    WatchStream::new(Reader::new(answer, idle_timeout, WatchParts { attempt, cutter, objects }))
}

impl<O: Representation> Parts for WatchParts<O> {
    type Part = WatchEvent<O>;

    fn read(
        &mut self,
        frame: &[u8],
        at: &mut usize,
        events: &mut VecDeque<WatchEvent<O>>,
    ) -> Result<(), SourceError> {
        while events.len() < BATCH_MAX {
            match self.next(frame, at).map_err(|problem| reply::protocol(&self.attempt, problem))? {
                Some(event) => events.push_back(event),
                None => break,
            }
        }
        Ok(())
    }

    fn end(&mut self, _: &mut VecDeque<WatchEvent<O>>) -> Result<(), SourceError> {
        if !self.cutter.may_end() {
            let text = format!("{}: the stream broke off within an event", self.attempt);
            return Err(SourceError::new(SourceErrorKind::Connection, text));
        }
        let buffered_max = self.cutter.buffered_max();
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

impl<O: Representation> WatchParts<O> {
    /// The next event; `None` where the frame is used up. The error says why the stream cannot go on.
    fn next(&mut self, frame: &[u8], at: &mut usize) -> Result<Option<WatchEvent<O>>, String> {
        match &mut self.cutter {
            Cutter::Json(frames) => {
                let Some(value) = frames.next(frame, at).map_err(|error| error.to_string())? else {
                    *at = frame.len();
                    return Ok(None);
                };
                let event = json::Event::parse(value).map_err(|error| error.to_string())?;
                convert(&event, &mut self.objects).map(Some)
            }
            Cutter::Protobuf(lengths) => {
                let Some(bytes) = lengths.next(frame, at).map_err(|error| error.to_string())? else {
                    return Ok(None);
                };
                convert(&protobuf::Event::parse(bytes)?, &mut self.objects).map(Some)
            }
        }
    }
}

impl Cutter {
    /// True where the body may end: between two events.
    fn may_end(&self) -> bool {
        match self {
            Self::Json(frames) => frames.may_end(),
            Self::Protobuf(lengths) => lengths.may_end(),
        }
    }

    /// The most bytes that were ever buffered at once.
    fn buffered_max(&self) -> usize {
        match self {
            Self::Json(frames) => frames.buffered_max(),
            Self::Protobuf(lengths) => lengths.buffered_max(),
        }
    }
}

/// Makes an event of what the server wrote.
fn convert<O: Representation>(
    event: &impl RawEvent,
    objects: &mut ObjectReader<O>,
) -> Result<WatchEvent<O>, String> {
    match event.event_type() {
        // A streaming list repeats what may be held already.
        event_type @ ("ADDED" | "MODIFIED" | "DELETED") => {
            happened(event_type, event.read(objects, event_type == "ADDED")?)
        }
        "BOOKMARK" => {
            let (version, initial_events_end) = event.mark()?;
            // A bookmark without a version says nothing, and breaks nothing; unless a list is to end there.
            if version.is_empty() && initial_events_end {
                return Err("the end mark of a streaming list has no resourceVersion".to_owned());
            }
            Ok(WatchEvent::Bookmark { version, initial_events_end })
        }
        "ERROR" => {
            let unreadable =
                || ServerStatus { message: "an unreadable status".to_owned(), ..ServerStatus::default() };
            Ok(WatchEvent::Error(event.status(objects).unwrap_or_else(unreadable)))
        }
        event_type => {
            let version = event.mark().map_or_else(|_| ResourceVersion::unset(), |(version, _)| version);
            Ok(WatchEvent::Unknown { event_type: event_type.to_owned(), version })
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
