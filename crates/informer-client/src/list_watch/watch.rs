mod json;
mod protobuf;

pub(super) use protobuf::other_kind;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use informer_cache::source::{
    ServerStatus, SourceError, SourceErrorKind, WatchEvent, WatchRequest, WatchStream,
};
use informer_core::ResourceVersion;

use super::ReadOptions;
use super::objects::{ObjectReader, Read, RejectedObject};
use super::pieces::Pieces;
use super::reader::{Decoded, Decoder, Parts, Reader};
use super::response::{self, EncodedBody};
use crate::Representation;
use crate::object::{Encoding, Origin};
use crate::splitter::frames::Frames;
use crate::splitter::lengths::Lengths;
use crate::splitter::{Slice, SplitError};

/// The annotation of the bookmark that marks the end of a streaming list's initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

pub(super) struct WatchParts<O: informer_core::Object> {
    cutter: WatchBodySplitter,
    decoder: WatchDecoder<O>,
}

pub(super) struct WatchDecoder<O: informer_core::Object> {
    attempt: Arc<str>,
    encoding: Encoding,
    objects: ObjectReader<O>,
    streams_a_list: bool,
}

enum WatchBodySplitter {
    Json(Frames),
    Protobuf(Lengths),
}

/// One received watch event, in JSON or protobuf. If one of its methods returns an error, the stream of
/// events ends.
trait RawEvent {
    fn event_type(&self) -> &str;

    /// Decodes the object of an ADDED, MODIFIED or DELETED event.
    fn read<O: Representation>(
        &self,
        objects: &mut ObjectReader<O>,
        may_be_known: bool,
    ) -> Result<Read<O>, String>;

    /// Returns the resourceVersion of a bookmark or of an event of unknown type, and whether the event is the
    /// bookmark that ends the initial events.
    fn mark(&self) -> Result<(ResourceVersion, bool), String>;

    fn status<O: Representation>(&self, objects: &ObjectReader<O>) -> Option<ServerStatus>;
}

pub(super) fn read<O: Representation>(
    attempt: String,
    response: EncodedBody,
    origin: Origin,
    options: &ReadOptions,
    request: WatchRequest<O>,
) -> WatchStream<O> {
    let streams_a_list = request.send_initial_events;
    let objects = ObjectReader::new(origin, options.pruning.clone(), request.context)
        .with_prefilter(options.prefilter.clone())
        .naming_rejected();
    let cutter = match response.encoding {
        Encoding::Json => WatchBodySplitter::Json(Frames::new(options.limits)),
        Encoding::Protobuf => WatchBodySplitter::Protobuf(Lengths::new(options.limits)),
    };
    let idle_timeout = request.timeout.saturating_add(options.watch_idle_margin);
    let encoding = response.encoding;
    let decoder = WatchDecoder { attempt: attempt.into(), encoding, objects, streams_a_list };
    WatchStream::new(Reader::new(response, idle_timeout, WatchParts { cutter, decoder }))
}

impl<O: Representation> Parts for WatchParts<O> {
    type Part = WatchEvent<O>;
    type Decoder = WatchDecoder<O>;

    fn cut(&mut self, frame: &Bytes, at: &mut usize, pieces: &mut Pieces) -> Result<(), SourceError> {
        while !pieces.is_full() {
            let event = self.cutter.next(frame, at);
            match event.map_err(|error| response::protocol(&self.decoder.attempt, error))? {
                Some(event) => pieces.push(frame, event),
                None => break,
            }
        }
        Ok(())
    }

    fn decoder(&mut self) -> &mut WatchDecoder<O> {
        &mut self.decoder
    }

    fn end(&mut self, _: &mut VecDeque<WatchEvent<O>>) -> Result<(), SourceError> {
        if !self.cutter.may_end() {
            let text = format!("{}: the response ended within an event", self.decoder.attempt);
            return Err(SourceError::new(SourceErrorKind::Connection, text));
        }
        let max_buffered = self.cutter.max_buffered();
        tracing::debug!(attempt = &*self.decoder.attempt, max_buffered, "the server closed a watch");
        Ok(())
    }

    fn attempt(&self) -> &str {
        &self.decoder.attempt
    }

    fn silence(&self, idle_timeout: Duration) -> String {
        format!("the watch was silent for {idle_timeout:?}")
    }
}

impl<O: informer_core::Object> Clone for WatchDecoder<O> {
    fn clone(&self) -> Self {
        let (attempt, encoding) = (Arc::clone(&self.attempt), self.encoding);
        Self { attempt, encoding, objects: self.objects.clone(), streams_a_list: self.streams_a_list }
    }
}

impl<O: Representation> Decoder for WatchDecoder<O> {
    type Part = WatchEvent<O>;

    fn decode(&mut self, pieces: &Pieces) -> Decoded<WatchEvent<O>> {
        let (mut parts, mut failure) = (VecDeque::new(), None);
        for event in pieces.iter() {
            match self.event(event) {
                Ok(event) => parts.push_back(event),
                Err(problem) => {
                    failure = Some(response::protocol(&self.attempt, problem));
                    break;
                }
            }
        }
        Decoded { parts, failure }
    }
}

impl<O: Representation> WatchDecoder<O> {
    fn event(&mut self, event: Slice<'_>) -> Result<WatchEvent<O>, String> {
        match self.encoding {
            Encoding::Json => {
                let event = json::JsonEvent::parse(event).map_err(|error| error.to_string())?;
                convert(&event, &mut self.objects, self.streams_a_list)
            }
            Encoding::Protobuf => {
                convert(&protobuf::ProtobufEvent::parse(event.bytes)?, &mut self.objects, self.streams_a_list)
            }
        }
    }
}

impl WatchBodySplitter {
    /// Returns the next watch event whose last byte is in `frame[*at..]`; `None` once the frame is consumed.
    fn next<'a>(&'a mut self, frame: &'a [u8], at: &mut usize) -> Result<Option<Slice<'a>>, SplitError> {
        match self {
            Self::Json(frames) => {
                let event = frames.next(frame, at)?;
                if event.is_none() {
                    *at = frame.len();
                }
                Ok(event)
            }
            Self::Protobuf(lengths) => Ok(lengths.next(frame, at)?.map(|bytes| Slice { bytes, spans: &[] })),
        }
    }

    /// Returns true if the body may end after the bytes consumed so far: no event is incomplete.
    fn may_end(&self) -> bool {
        match self {
            Self::Json(frames) => frames.may_end(),
            Self::Protobuf(lengths) => lengths.may_end(),
        }
    }

    fn max_buffered(&self) -> usize {
        match self {
            Self::Json(frames) => frames.max_buffered(),
            Self::Protobuf(lengths) => lengths.max_buffered(),
        }
    }
}

/// Converts a watch event of the server. If the event is part of a streaming list, its object may already be
/// cached and is then not decoded again.
fn convert<O: Representation>(
    event: &impl RawEvent,
    objects: &mut ObjectReader<O>,
    streams_a_list: bool,
) -> Result<WatchEvent<O>, String> {
    match event.event_type() {
        event_type @ ("ADDED" | "MODIFIED" | "DELETED") => {
            happened(event_type, event.read(objects, streams_a_list && event_type == "ADDED")?)
        }
        "BOOKMARK" => {
            let (version, initial_events_end) = event.mark()?;
            // The bookmark that ends the initial events must have a resourceVersion, because the watch is
            // resumed from it. Other bookmarks without a resourceVersion have no effect.
            if version.is_empty() && initial_events_end {
                return Err("the bookmark that ends the initial events has no resourceVersion".to_owned());
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

fn happened<O>(event_type: &str, read: Read<O>) -> Result<WatchEvent<O>, String> {
    Ok(match (event_type, read) {
        ("ADDED", Read::Known(object)) => WatchEvent::Known(object),
        ("ADDED", Read::Fresh(object)) => WatchEvent::Added(object),
        ("MODIFIED", Read::Fresh(object) | Read::Known(object)) => WatchEvent::Modified(object),
        (_, Read::Fresh(object) | Read::Known(object)) => WatchEvent::Deleted(object),
        ("DELETED", Read::Undecodable(what)) => WatchEvent::DeletedUndecodable(what),
        (_, Read::Undecodable(what)) => WatchEvent::Undecodable(what),
        (_, Read::Rejected(Some(RejectedObject { key, version }))) => WatchEvent::Rejected { key, version },
        (_, Read::Rejected(None)) => return Err("a rejected object of an event has no key".to_owned()),
        (_, Read::OtherKind(other)) => {
            return Err(format!("the object of an event is {other}; check group and kind"));
        }
    })
}
