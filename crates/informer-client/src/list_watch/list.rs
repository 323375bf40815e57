mod json;
mod protobuf;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use informer_cache::source::{
    ListEnd, ListPart, ListStream, Listed, SourceContext, SourceError, SourceErrorKind,
};

use super::ReadOptions;
use super::objects::{ObjectReader, Read};
use super::pieces::Pieces;
use super::reader::{Decoded, Decoder, Parts, Reader};
use super::response::{self, EncodedBody};
use crate::Representation;
use crate::object::{Encoding, Origin};
use crate::splitter::Slice;

/// The kind of a list in the response to a metadata-only list request. Servers without metadata-only
/// responses send complete objects with the ordinary list kind.
const METADATA_LIST_KIND: &str = "PartialObjectMetadataList";

pub(super) struct ListParts<O: informer_core::Object> {
    cutter: ListBodySplitter,
    decoder: ListDecoder<O>,
}

enum ListBodySplitter {
    Json(json::JsonList),
    Protobuf(protobuf::ProtobufList),
}

pub(super) struct ListDecoder<O: informer_core::Object> {
    attempt: Arc<str>,
    encoding: Encoding,
    objects: ObjectReader<O>,
    expected: Arc<Expected>,
    /// Whether any item of the list lacked its `kind`; the kind of the list itself must then match the
    /// requested kind. The flag is shared by all tasks that decode items of the list.
    untyped_items: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Expected {
    list_kind: String,
    api_version: String,
    metadata_only: bool,
}

enum ListProblem {
    /// The response body is not a valid list. Contains the problem.
    Protocol(String),
    OtherKind(String),
    /// The response body ended before the end of the list, after this number of objects.
    BrokeOff(u64),
}

pub(super) fn read<O: Representation>(
    attempt: String,
    response: EncodedBody,
    origin: Origin,
    options: &ReadOptions,
    context: SourceContext<O>,
) -> ListStream<O> {
    let objects =
        ObjectReader::new(origin, options.pruning.clone(), context).with_prefilter(options.prefilter.clone());
    let expected = Arc::new(Expected {
        list_kind: format!("{}List", objects.kind().kind()),
        api_version: objects.api_version().to_owned(),
        metadata_only: O::METADATA_ONLY,
    });
    let cutter = match response.encoding {
        Encoding::Json => ListBodySplitter::Json(json::JsonList::new(options.limits, Arc::clone(&expected))),
        Encoding::Protobuf => {
            ListBodySplitter::Protobuf(protobuf::ProtobufList::new(options.limits, Arc::clone(&expected)))
        }
    };
    let decoder = ListDecoder {
        attempt: attempt.into(),
        encoding: response.encoding,
        objects,
        expected,
        untyped_items: Arc::default(),
    };
    ListStream::new(Reader::new(response, options.list_idle_timeout, ListParts { cutter, decoder }))
}

impl<O: Representation> Parts for ListParts<O> {
    type Part = ListPart<O>;
    type Decoder = ListDecoder<O>;

    fn cut(&mut self, frame: &Bytes, at: &mut usize, pieces: &mut Pieces) -> Result<(), SourceError> {
        let cut = match &mut self.cutter {
            ListBodySplitter::Json(list) => list.cut(frame, at, pieces),
            ListBodySplitter::Protobuf(list) => list.cut(frame, at, pieces),
        };
        cut.map_err(|problem| failed(&self.decoder.attempt, problem))
    }

    fn decoder(&mut self) -> &mut ListDecoder<O> {
        &mut self.decoder
    }

    fn end(&mut self, parts: &mut VecDeque<ListPart<O>>) -> Result<(), SourceError> {
        let attempt = &*self.decoder.attempt;
        let end = match &mut self.cutter {
            ListBodySplitter::Json(list) => list.end(self.decoder.untyped_items.load(Ordering::Relaxed)),
            ListBodySplitter::Protobuf(list) => list.end(),
        };
        let CompletedList { end, items, max_buffered } = end.map_err(|problem| failed(attempt, problem))?;
        tracing::debug!(attempt, items, max_buffered, "the list is complete");
        parts.push_back(ListPart::End(end));
        Ok(())
    }

    fn attempt(&self) -> &str {
        &self.decoder.attempt
    }

    fn silence(&self, idle_timeout: Duration) -> String {
        format!("the response was silent for {idle_timeout:?}")
    }
}

impl<O: informer_core::Object> Clone for ListDecoder<O> {
    fn clone(&self) -> Self {
        Self {
            attempt: Arc::clone(&self.attempt),
            encoding: self.encoding,
            objects: self.objects.clone(),
            expected: Arc::clone(&self.expected),
            untyped_items: Arc::clone(&self.untyped_items),
        }
    }
}

impl<O: Representation> Decoder for ListDecoder<O> {
    type Part = ListPart<O>;

    fn decode(&mut self, pieces: &Pieces) -> Decoded<ListPart<O>> {
        let mut parts = VecDeque::new();
        let mut batch = Batch::new(&mut parts);
        let problem = pieces.iter().find_map(|item| batch.take(self.object(item)).err());
        batch.flush();
        let failure = problem.map(|other| {
            let expected = &self.expected.list_kind;
            let problem = ListProblem::OtherKind(format!("expected a {expected}, but an item is {other}"));
            failed(&self.attempt, problem)
        });
        Decoded { parts, failure }
    }
}

impl<O: Representation> ListDecoder<O> {
    fn object(&mut self, item: Slice<'_>) -> Read<O> {
        if self.encoding == Encoding::Protobuf {
            return self.objects.read_message(item.bytes, true);
        }
        let object = self.objects.read(item, true);
        if !object.has_kind {
            // `untyped_items` is read at the end of the list, after all decoding tasks have finished, so
            // relaxed ordering is sufficient.
            self.untyped_items.store(true, Ordering::Relaxed);
        }
        object.read
    }
}

fn failed(attempt: &str, problem: ListProblem) -> SourceError {
    match problem {
        ListProblem::Protocol(problem) => response::protocol(attempt, problem),
        ListProblem::OtherKind(what) => {
            response::protocol(attempt, format_args!("{what}; check group and kind"))
        }
        ListProblem::BrokeOff(items) => {
            let text =
                format!("{attempt}: the response was cut off after {items} objects; the list is repeated");
            SourceError::new(SourceErrorKind::Connection, text)
        }
    }
}

/// A list whose body was read completely.
struct CompletedList {
    end: ListEnd,
    /// The number of objects in the list.
    items: u64,
    /// The maximum number of bytes of unfinished values that were buffered at once.
    max_buffered: usize,
}

/// Collects decoded objects of a list, to return many of them as one part of the list stream.
struct Batch<'p, O> {
    items: Vec<Listed<O>>,
    rejected: usize,
    parts: &'p mut VecDeque<ListPart<O>>,
}

impl<'p, O> Batch<'p, O> {
    fn new(parts: &'p mut VecDeque<ListPart<O>>) -> Self {
        Self { items: Vec::new(), rejected: 0, parts }
    }

    /// Adds a decoded object to the batch. If the object has another kind than the list, returns an error
    /// that names the kind of the object.
    fn take(&mut self, read: Read<O>) -> Result<(), String> {
        match read {
            Read::Fresh(object) => self.items.push(Listed::Fresh(object)),
            Read::Known(object) => self.items.push(Listed::Known(object)),
            Read::Undecodable(undecodable) => {
                self.flush();
                self.parts.push_back(ListPart::Undecodable(undecodable));
            }
            Read::Rejected(_) => self.rejected += 1,
            Read::OtherKind(other) => return Err(other),
        }
        Ok(())
    }

    fn flush(&mut self) {
        if !self.items.is_empty() {
            self.parts.push_back(ListPart::Items(std::mem::take(&mut self.items)));
        }
        if self.rejected > 0 {
            self.parts.push_back(ListPart::Rejected(std::mem::take(&mut self.rejected)));
        }
    }
}
