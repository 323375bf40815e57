use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use informer_cache::source::{ServerStatus, SourceError, SourceErrorKind, WatchEvent, WatchRequest};
use informer_core::ResourceVersion;

use super::objects::{ObjectReader, Read};
use super::{ReadOptions, reply};
use crate::client::ResponseBody;
use crate::header::RawHeader;
use crate::scan::{Cursor, ScanError, Span};
use crate::splitter::Slice;
use crate::splitter::frames::Frames;
use crate::{Representation, ResourceKind, fields};

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// How many events are read before others get their turn on the thread.
const BATCH_MAX: usize = 1000;

/// Reads the body of one watch.
pub(super) struct WatchReader<O: informer_core::Object> {
    attempt: String,
    body: ResponseBody,
    idle_timeout: Duration,
    frames: Frames,
    objects: ObjectReader<O>,
    /// The network frame that is being read, empty before and after one, and how far.
    frame: Bytes,
    at: usize,
    events: VecDeque<WatchEvent<O>>,
    /// What ends the stream after the events before it.
    failure: Option<SourceError>,
    ended: bool,
}

/// One event as it came.
struct Event<'a> {
    event_type: Cow<'a, str>,
    object: &'a str,
    /// Where the object begins in the event, and the containers of that.
    at: usize,
    spans: &'a [Span],
}

impl<O: Representation> WatchReader<O> {
    pub(super) fn new(
        attempt: String,
        body: ResponseBody,
        kind: &ResourceKind,
        options: &ReadOptions,
        request: WatchRequest<O>,
    ) -> Self {
        Self {
            attempt,
            body,
            idle_timeout: request.timeout.saturating_add(options.watch_idle_margin),
            frames: Frames::new(options.limits),
            objects: ObjectReader::new(kind, options.pruning.clone(), request.context),
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
            let Ok(frame) = tokio::time::timeout(self.idle_timeout, self.body.next_frame()).await else {
                let text = format!("{}: neither event nor end for {:?}", self.attempt, self.idle_timeout);
                return Err(SourceError::new(SourceErrorKind::Timeout, text));
            };
            match frame.map_err(|error| error.into_source_error(&self.attempt))? {
                Some(frame) => (self.frame, self.at) = (frame, 0),
                None if self.frames.may_end() => {
                    let buffered_max = self.frames.buffered_max();
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
        while self.events.len() < BATCH_MAX {
            let value = self.frames.next(&self.frame, &mut self.at);
            let Some(value) = value.map_err(|error| reply::protocol(&self.attempt, error))? else {
                (self.frame, self.at) = (Bytes::new(), 0);
                return Ok(());
            };
            let event = Event::parse(value).map_err(|error| reply::protocol(&self.attempt, error))?;
            let event = convert(&event, &mut self.objects).map_err(|problem| {
                let text = format!("{}: {problem}", self.attempt);
                SourceError::new(SourceErrorKind::Protocol, text)
            })?;
            self.events.push_back(event);
        }
        Ok(())
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
            let status = reply::parse(event.object.as_bytes());
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
