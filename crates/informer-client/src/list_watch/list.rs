mod json;
mod protobuf;

use std::collections::VecDeque;
use std::time::Duration;

use informer_cache::source::{
    ListEnd, ListPart, ListStream, Listed, SourceContext, SourceError, SourceErrorKind,
};

use super::ReadOptions;
use super::objects::{ObjectReader, Read};
use super::reader::{Parts, Reader};
use super::reply::{self, Answer};
use crate::Representation;
use crate::represent::{Encoding, Origin};

/// How many objects are read before others get their turn on the thread: a frame from the network holds fewer, one from
/// a server in this process may hold a whole list.
const BATCH_MAX: usize = 1000;

/// The kind of a list of which the metadata alone was asked for. Servers that cannot do that send the whole list.
const METADATA_LIST_KIND: &str = "PartialObjectMetadataList";

/// What the bytes of one list become.
pub(super) struct ListParts<O: informer_core::Object> {
    attempt: String,
    body: ListBody<O>,
}

/// What the bytes become, by their encoding.
enum ListBody<O: informer_core::Object> {
    Json(json::JsonList<O>),
    Protobuf(protobuf::ProtobufList<O>),
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

/// The objects of a list, as its body arrives.
pub(super) fn read<O: Representation>(
    attempt: String,
    answer: Answer,
    origin: Origin,
    options: &ReadOptions,
    context: SourceContext<O>,
) -> ListStream<O> {
    let objects = ObjectReader::new(origin, options.pruning.clone(), context);
    let body = match answer.encoding {
        Encoding::Json => ListBody::Json(json::JsonList::new(options.limits, objects)),
        Encoding::Protobuf => ListBody::Protobuf(protobuf::ProtobufList::new(options.limits, objects)),
    };
    ListStream::new(Reader::new(answer, options.list_idle_timeout, ListParts { attempt, body }))
}

impl<O: Representation> Parts for ListParts<O> {
    type Part = ListPart<O>;

    fn read(
        &mut self,
        frame: &[u8],
        at: &mut usize,
        parts: &mut VecDeque<ListPart<O>>,
    ) -> Result<(), SourceError> {
        let read = match &mut self.body {
            ListBody::Json(list) => list.read(frame, at, parts),
            ListBody::Protobuf(list) => list.read(frame, at, parts),
        };
        read.map_err(|problem| self.failed(problem))
    }

    fn end(&mut self, parts: &mut VecDeque<ListPart<O>>) -> Result<(), SourceError> {
        let end = match &mut self.body {
            ListBody::Json(list) => list.end(),
            ListBody::Protobuf(list) => list.end(),
        };
        let (end, items, buffered_max) = end.map_err(|problem| self.failed(problem))?;
        tracing::debug!(attempt = self.attempt, items, buffered_max, "a list was read");
        parts.push_back(ListPart::End(end));
        Ok(())
    }

    fn attempt(&self) -> &str {
        &self.attempt
    }

    fn silence(&self, idle_timeout: Duration) -> String {
        format!("the answer was silent for {idle_timeout:?}")
    }
}

impl<O: Representation> ListParts<O> {
    fn failed(&self, problem: ListProblem) -> SourceError {
        let attempt = &self.attempt;
        match problem {
            ListProblem::Protocol(problem) => reply::protocol(attempt, problem),
            ListProblem::OtherKind(what) => {
                reply::protocol(attempt, format_args!("{what}; check group and kind"))
            }
            ListProblem::BrokeOff(items) => {
                let text =
                    format!("{attempt}: the answer broke off after {items} objects; the list is repeated");
                SourceError::new(SourceErrorKind::Connection, text)
            }
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

    fn is_full(&self) -> bool {
        self.items.len() >= BATCH_MAX
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
