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
use super::reply::{self, Answer};
use crate::Representation;
use crate::object::{Encoding, Origin};
use crate::splitter::Slice;

/// The kind of a list of which the metadata alone was asked for. Servers that cannot do that send the whole
/// list.
const METADATA_LIST_KIND: &str = "PartialObjectMetadataList";

/// What cuts one list.
pub(super) struct ListParts<O: informer_core::Object> {
    cutter: Cutter,
    decoder: ListDecoder<O>,
}

/// What cuts the body into its items, by its encoding.
enum Cutter {
    Json(json::JsonList),
    Protobuf(protobuf::ProtobufList),
}

/// What reads the items of a list.
pub(super) struct ListDecoder<O: informer_core::Object> {
    attempt: Arc<str>,
    encoding: Encoding,
    objects: ObjectReader<O>,
    expected: Arc<Expected>,
    /// Whether an item did not say its kind, so that the kind of the list must; of all tasks that read items
    /// of it.
    untyped_items: Arc<AtomicBool>,
}

/// What the list is to be.
#[derive(Debug)]
struct Expected {
    list_kind: String,
    api_version: String,
    metadata_only: bool,
}

/// Why a body is no list of the kind.
enum ListProblem {
    /// What came is not what the protocol allows.
    Protocol(String),
    /// It is a list of something else.
    OtherKind(String),
    /// It ended too early, after so many objects.
    BrokeOff(u64),
}

/// Returns the objects of a list, as its body arrives.
pub(super) fn read<O: Representation>(
    attempt: String,
    answer: Answer,
    origin: Origin,
    options: &ReadOptions,
    context: SourceContext<O>,
) -> ListStream<O> {
    let objects = ObjectReader::new(origin, options.pruning.clone(), context);
    let expected = Arc::new(Expected {
        list_kind: format!("{}List", objects.kind().kind()),
        api_version: objects.api_version().to_owned(),
        metadata_only: O::METADATA_ONLY,
    });
    let cutter = match answer.encoding {
        Encoding::Json => Cutter::Json(json::JsonList::new(options.limits, Arc::clone(&expected))),
        Encoding::Protobuf => {
            Cutter::Protobuf(protobuf::ProtobufList::new(options.limits, Arc::clone(&expected)))
        }
    };
    let decoder = ListDecoder {
        attempt: attempt.into(),
        encoding: answer.encoding,
        objects,
        expected,
        untyped_items: Arc::default(),
    };
    ListStream::new(Reader::new(answer, options.list_idle_timeout, ListParts { cutter, decoder }))
}

impl<O: Representation> Parts for ListParts<O> {
    type Part = ListPart<O>;
    type Decoder = ListDecoder<O>;

    fn cut(&mut self, frame: &Bytes, at: &mut usize, pieces: &mut Pieces) -> Result<(), SourceError> {
        let cut = match &mut self.cutter {
            Cutter::Json(list) => list.cut(frame, at, pieces),
            Cutter::Protobuf(list) => list.cut(frame, at, pieces),
        };
        cut.map_err(|problem| failed(&self.decoder.attempt, problem))
    }

    fn decoder(&mut self) -> &mut ListDecoder<O> {
        &mut self.decoder
    }

    fn end(&mut self, parts: &mut VecDeque<ListPart<O>>) -> Result<(), SourceError> {
        let attempt = &*self.decoder.attempt;
        let end = match &mut self.cutter {
            Cutter::Json(list) => list.end(self.decoder.untyped_items.load(Ordering::Relaxed)),
            Cutter::Protobuf(list) => list.end(),
        };
        let (end, items, max_buffered) = end.map_err(|problem| failed(attempt, problem))?;
        tracing::debug!(attempt, items, max_buffered, "a list was read");
        parts.push_back(ListPart::End(end));
        Ok(())
    }

    fn attempt(&self) -> &str {
        &self.decoder.attempt
    }

    fn silence(&self, idle_timeout: Duration) -> String {
        format!("the answer was silent for {idle_timeout:?}")
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
            // Seen where the list ends: the tasks that read its items have ended then.
            self.untyped_items.store(true, Ordering::Relaxed);
        }
        object.read
    }
}

fn failed(attempt: &str, problem: ListProblem) -> SourceError {
    match problem {
        ListProblem::Protocol(problem) => reply::protocol(attempt, problem),
        ListProblem::OtherKind(what) => {
            reply::protocol(attempt, format_args!("{what}; check group and kind"))
        }
        ListProblem::BrokeOff(items) => {
            let text = format!("{attempt}: the answer broke off after {items} objects; the list is repeated");
            SourceError::new(SourceErrorKind::Connection, text)
        }
    }
}

/// What a list ends with, how many objects it had, and the most bytes that were buffered.
type Ended = (ListEnd, u64, usize);

/// Objects on their way to the parts of a list.
struct Batch<'p, O> {
    items: Vec<Listed<O>>,
    parts: &'p mut VecDeque<ListPart<O>>,
}

impl<'p, O> Batch<'p, O> {
    fn new(parts: &'p mut VecDeque<ListPart<O>>) -> Self {
        Self { items: Vec::new(), parts }
    }

    /// Takes an object; the error says which other kind it is of.
    fn take(&mut self, read: Read<O>) -> Result<(), String> {
        match read {
            Read::Fresh(object) => self.items.push(Listed::Fresh(object)),
            Read::Known(object) => self.items.push(Listed::Known(object)),
            Read::Undecodable(undecodable) => {
                self.flush();
                self.parts.push_back(ListPart::Undecodable(undecodable));
            }
            Read::OtherKind(other) => return Err(other),
        }
        Ok(())
    }

    fn flush(&mut self) {
        if !self.items.is_empty() {
            self.parts.push_back(ListPart::Items(std::mem::take(&mut self.items)));
        }
    }
}
