mod json;
mod protobuf;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use informer_cache::source::{ListEnd, ListPart, Listed, SourceContext, SourceError, SourceErrorKind};

use super::ReadOptions;
use super::objects::{ObjectReader, Read};
use super::reply::{self, Answer};
use crate::Representation;
use crate::represent::{Encoding, Origin};

/// How many objects are read before others get their turn on the thread: a frame from the network holds fewer, one from
/// a server in this process may hold a whole list.
const BATCH_MAX: usize = 1000;

/// The kind of a list of which the metadata alone was asked for. Servers that cannot do that send the whole list.
const METADATA_LIST_KIND: &str = "PartialObjectMetadataList";

/// Reads the body of one list.
pub(super) struct ListReader<O: informer_core::Object> {
    attempt: String,
    answer: Answer,
    idle_timeout: Duration,
    body: ListBody<O>,
    /// The network frame that is being read, empty before and after one, and how far.
    frame: Bytes,
    at: usize,
    parts: VecDeque<ListPart<O>>,
    ended: bool,
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

impl<O: Representation> ListReader<O> {
    pub(super) fn new(
        attempt: String,
        answer: Answer,
        origin: Origin,
        options: &ReadOptions,
        context: SourceContext<O>,
    ) -> Self {
        let objects = ObjectReader::new(origin, options.pruning.clone(), context);
        let body = match answer.encoding {
            Encoding::Json => ListBody::Json(json::JsonList::new(options.limits, objects)),
            Encoding::Protobuf => ListBody::Protobuf(protobuf::ProtobufList::new(options.limits, objects)),
        };
        Self {
            attempt,
            answer,
            idle_timeout: options.list_idle_timeout,
            body,
            frame: Bytes::new(),
            at: 0,
            parts: VecDeque::new(),
            ended: false,
        }
    }

    pub(super) fn into_stream(self) -> impl Stream<Item = Result<ListPart<O>, SourceError>> + Send {
        stream::try_unfold(self, |mut reader| async move {
            let part = reader.next().await?;
            Ok(part.map(|part| (part, reader)))
        })
    }

    async fn next(&mut self) -> Result<Option<ListPart<O>>, SourceError> {
        loop {
            if let Some(part) = self.parts.pop_front() {
                return Ok(Some(part));
            }
            if self.ended {
                return Ok(None);
            }
            if !self.frame.is_empty() {
                self.read()?;
                if !self.frame.is_empty() {
                    tokio::task::yield_now().await;
                }
                continue;
            }
            let frame = tokio::time::timeout(self.idle_timeout, self.answer.body.next_frame()).await;
            let frame = frame.map_err(|_| {
                let text = format!("{}: the answer was silent for {:?}", self.attempt, self.idle_timeout);
                SourceError::new(SourceErrorKind::Timeout, text)
            })?;
            match frame.map_err(|error| error.into_source_error(&self.attempt))? {
                Some(frame) => (self.frame, self.at) = (frame, 0),
                None => self.end()?,
            }
        }
    }

    /// Reads on in the frame.
    fn read(&mut self) -> Result<(), SourceError> {
        let read = match &mut self.body {
            ListBody::Json(list) => list.read(&self.frame, &mut self.at, &mut self.parts),
            ListBody::Protobuf(list) => list.read(&self.frame, &mut self.at, &mut self.parts),
        };
        if self.at == self.frame.len() {
            (self.frame, self.at) = (Bytes::new(), 0);
        }
        read.map_err(|problem| self.failed(problem))
    }

    /// The body is over.
    fn end(&mut self) -> Result<(), SourceError> {
        let end = match &mut self.body {
            ListBody::Json(list) => list.end(),
            ListBody::Protobuf(list) => list.end(),
        };
        let (end, items, buffered_max) = end.map_err(|problem| self.failed(problem))?;
        tracing::debug!(attempt = self.attempt, items, buffered_max, "a list was read");
        self.parts.push_back(ListPart::End(end));
        self.ended = true;
        Ok(())
    }

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
