use std::borrow::Cow;
use std::ops::Range;

use informer_cache::source::ServerStatus;
use informer_core::ResourceVersion;

use super::{INITIAL_EVENTS_END, RawEvent};
use crate::header::RawHeader;
use crate::list_watch::objects::{ObjectReader, Read};
use crate::list_watch::response;
use crate::scan::{Cursor, ScanError, Span};
use crate::splitter::Slice;
use crate::{Representation, fields};

pub(super) struct JsonEvent<'a> {
    event_type: Cow<'a, str>,
    object: &'a str,
    /// The offset of the object in the JSON of the event. The offsets in `spans` are relative to the event.
    at: usize,
    spans: &'a [Span],
}

#[derive(Debug, thiserror::Error)]
pub(super) enum EventError {
    #[error("an event is not JSON: {0}")]
    Syntax(#[from] ScanError),
    #[error("an event is not UTF-8")]
    NotUtf8(#[from] std::str::Utf8Error),
    #[error("an event has no {0}")]
    Missing(&'static str),
    #[error("the type of an event is not a string")]
    Type,
}

impl<'a> JsonEvent<'a> {
    pub(super) fn parse(slice: Slice<'a>) -> Result<Self, EventError> {
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

impl RawEvent for JsonEvent<'_> {
    fn event_type(&self) -> &str {
        &self.event_type
    }

    fn read<O: Representation>(
        &self,
        objects: &mut ObjectReader<O>,
        may_be_known: bool,
    ) -> Result<Read<O>, String> {
        let cursor = Cursor::with_spans(self.object, self.spans, self.at);
        Ok(objects.read_text(self.object, cursor, may_be_known).read)
    }

    fn mark(&self) -> Result<(ResourceVersion, bool), String> {
        let mut raw = RawHeader::default();
        // A scan error is ignored, because only the resourceVersion is needed, and an object without a
        // readable one has an unset version.
        let _ = raw.scan(Cursor::new(self.object));
        let mark = fields::scalar(self.object, ["metadata", "annotations", INITIAL_EVENTS_END]);
        Ok((raw.version(), mark.as_deref() == Some("true")))
    }

    fn status<O: Representation>(&self, _: &ObjectReader<O>) -> Option<ServerStatus> {
        response::parse(self.object.as_bytes(), None)
    }
}
