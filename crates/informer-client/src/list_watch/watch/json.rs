use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use informer_cache::source::{ServerStatus, WatchEvent};
use informer_core::ResourceVersion;

use super::{BATCH_MAX, INITIAL_EVENTS_END, happened};
use crate::header::RawHeader;
use crate::list_watch::objects::ObjectReader;
use crate::list_watch::reply;
use crate::scan::{Cursor, ScanError, Span};
use crate::splitter::Slice;
use crate::splitter::frames::Frames;
use crate::{Limits, Representation, fields};

/// A watch in JSON.
pub(super) struct JsonWatch<O: informer_core::Object> {
    frames: Frames,
    objects: ObjectReader<O>,
}

/// One event as it came.
struct Event<'a> {
    event_type: Cow<'a, str>,
    object: &'a str,
    /// Where the object begins in the event, and the containers of that.
    at: usize,
    spans: &'a [Span],
}

impl<O: Representation> JsonWatch<O> {
    pub(super) fn new(limits: Limits, objects: ObjectReader<O>) -> Self {
        Self { frames: Frames::new(limits), objects }
    }

    pub(super) fn read(
        &mut self,
        frame: &[u8],
        at: &mut usize,
        events: &mut VecDeque<WatchEvent<O>>,
    ) -> Result<(), String> {
        while events.len() < BATCH_MAX {
            let value = self.frames.next(frame, at).map_err(|error| error.to_string())?;
            let Some(value) = value else {
                *at = frame.len();
                return Ok(());
            };
            let event = Event::parse(value).map_err(|error| error.to_string())?;
            events.push_back(convert(&event, &mut self.objects)?);
        }
        Ok(())
    }

    pub(super) fn may_end(&self) -> bool {
        self.frames.may_end()
    }

    pub(super) fn buffered_max(&self) -> usize {
        self.frames.buffered_max()
    }
}

/// Makes an event of what the server wrote; the error says why the stream cannot go on.
fn convert<O: Representation>(
    event: &Event<'_>,
    objects: &mut ObjectReader<O>,
) -> Result<WatchEvent<O>, String> {
    let event_type = &*event.event_type;
    match event_type {
        "ADDED" | "MODIFIED" | "DELETED" => {}
        "BOOKMARK" => return bookmark(event.object),
        "ERROR" => {
            let unreadable =
                || ServerStatus { message: "an unreadable status".to_owned(), ..ServerStatus::default() };
            let status = reply::parse(event.object.as_bytes(), None);
            return Ok(WatchEvent::Error(status.unwrap_or_else(unreadable)));
        }
        _ => {
            return Ok(WatchEvent::Unknown {
                event_type: event_type.to_owned(),
                version: version(event.object),
            });
        }
    }
    // A streaming list repeats what may be held already.
    let cursor = Cursor::with_spans(event.object, event.spans, event.at);
    let read = objects.read_text(event.object, cursor, event_type == "ADDED").read;
    happened(event_type, read)
}

/// A bookmark without a version says nothing, and breaks nothing; unless a list is to end there.
fn bookmark<O>(object: &str) -> Result<WatchEvent<O>, String> {
    let version = version(object);
    let mark = fields::scalar(object, ["metadata", "annotations", INITIAL_EVENTS_END]);
    let initial_events_end = mark.as_deref() == Some("true");
    if version.is_empty() && initial_events_end {
        return Err("the end mark of a streaming list has no resourceVersion".to_owned());
    }
    Ok(WatchEvent::Bookmark { version, initial_events_end })
}

/// The version of an object, as far as it can be read.
fn version(object: &str) -> ResourceVersion {
    let mut raw = RawHeader::default();
    // What could be read before an error is all that is asked for.
    let _ = raw.scan(Cursor::new(object), false);
    raw.version()
}

/// Why a value is no event.
#[derive(Debug, thiserror::Error)]
enum EventError {
    #[error("an event is not JSON: {0}")]
    Syntax(#[from] ScanError),
    #[error("an event is not UTF-8")]
    NotUtf8(#[from] std::str::Utf8Error),
    #[error("an event has no {0}")]
    Missing(&'static str),
    #[error("the type of an event is not a string")]
    Type,
}

impl<'a> Event<'a> {
    fn parse(slice: Slice<'a>) -> Result<Self, EventError> {
        let text = std::str::from_utf8(slice.bytes)?;
        let (mut cursor, mut first) = (Cursor::with_spans(text, slice.spans, 0), true);
        let (mut event_type, mut object): (_, Option<Range<usize>>) = (None, None);
        cursor.object()?;
        while let Some(key) = cursor.member(&mut first)? {
            if key.is("type") {
                event_type = Some(cursor.string()?.decode().map_err(|_| EventError::Type)?);
            } else if key.is("object") {
                object = Some(cursor.skip()?);
            } else {
                cursor.skip()?;
            }
        }
        let object = object.ok_or(EventError::Missing("object"))?;
        let event_type = event_type.ok_or(EventError::Missing("type"))?;
        Ok(Self { event_type, object: &text[object.clone()], at: object.start, spans: slice.spans })
    }
}
