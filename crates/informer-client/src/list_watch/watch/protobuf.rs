use std::collections::VecDeque;

use informer_cache::source::{ServerStatus, WatchEvent};
use informer_core::ResourceVersion;
use informer_schema::{Envelope, Scan, watch_event};

use super::{BATCH_MAX, INITIAL_EVENTS_END, happened};
use crate::list_watch::objects::{METADATA_KIND, ObjectReader, Read};
use crate::list_watch::reply;
use crate::splitter::lengths::Lengths;
use crate::{Limits, Representation};

/// A watch in protobuf: events with their length in front, each with its object in an envelope.
pub(super) struct ProtobufWatch<O: informer_core::Object> {
    events: Lengths,
    objects: ObjectReader<O>,
}

impl<O: Representation> ProtobufWatch<O> {
    pub(super) fn new(limits: Limits, objects: ObjectReader<O>) -> Self {
        Self { events: Lengths::new(limits), objects }
    }

    pub(super) fn read(
        &mut self,
        frame: &[u8],
        at: &mut usize,
        events: &mut VecDeque<WatchEvent<O>>,
    ) -> Result<(), String> {
        while events.len() < BATCH_MAX {
            let Some(event) = self.events.next(frame, at).map_err(|error| error.to_string())? else {
                return Ok(());
            };
            let (event_type, object) =
                watch_event(event).map_err(|_| "an event is not protobuf".to_owned())?;
            events.push_back(convert(event_type, object, &mut self.objects)?);
        }
        Ok(())
    }

    pub(super) fn may_end(&self) -> bool {
        self.events.may_end()
    }

    pub(super) fn buffered_max(&self) -> usize {
        self.events.buffered_max()
    }
}

/// Makes an event of what the server wrote; the error says why the stream cannot go on.
fn convert<O: Representation>(
    event_type: &str,
    object: &[u8],
    objects: &mut ObjectReader<O>,
) -> Result<WatchEvent<O>, String> {
    match event_type {
        "ADDED" | "MODIFIED" | "DELETED" => {}
        "BOOKMARK" => return bookmark(object),
        "ERROR" => {
            let unreadable =
                || ServerStatus { message: "an unreadable status".to_owned(), ..ServerStatus::default() };
            return Ok(WatchEvent::Error(reply::parse(object, objects.wire()).unwrap_or_else(unreadable)));
        }
        _ => {
            let version =
                Envelope::parse(object).map_or_else(|_| ResourceVersion::unset(), |it| version(it.raw));
            return Ok(WatchEvent::Unknown { event_type: event_type.to_owned(), version });
        }
    }
    let envelope =
        Envelope::parse(object).map_err(|error| format!("the object of an event: {}", error.problem()))?;
    let read = match other_kind(&envelope, objects) {
        Some(other) => Read::OtherKind(other),
        // A streaming list repeats what may be held already.
        None => objects.read_message(envelope.raw, event_type == "ADDED"),
    };
    happened(event_type, read)
}

fn other_kind<O: Representation>(envelope: &Envelope<'_>, objects: &ObjectReader<O>) -> Option<String> {
    let metadata = O::METADATA_ONLY && envelope.kind == METADATA_KIND;
    let right = envelope.kind == objects.kind().kind() && envelope.api_version == objects.api_version();
    (!metadata && !right).then(|| format!("{} of {}", envelope.kind, envelope.api_version))
}

/// A bookmark without a version says nothing, and breaks nothing; unless a list is to end there.
fn bookmark<O>(object: &[u8]) -> Result<WatchEvent<O>, String> {
    let envelope = Envelope::parse(object).map_err(|error| format!("a bookmark: {}", error.problem()))?;
    let (scan, _) = Scan::as_far_as_readable(envelope.raw);
    let annotations = scan.annotations().unwrap_or_default();
    let initial_events_end = annotations.contains(&(INITIAL_EVENTS_END, "true"));
    let version = ResourceVersion::from(scan.resource_version());
    if version.is_empty() && initial_events_end {
        return Err("the end mark of a streaming list has no resourceVersion".to_owned());
    }
    Ok(WatchEvent::Bookmark { version, initial_events_end })
}

/// The version of an object, as far as it can be read.
fn version(message: &[u8]) -> ResourceVersion {
    ResourceVersion::from(Scan::as_far_as_readable(message).0.resource_version())
}
