use std::sync::Arc;

use bytes::Bytes;
use informer_cache::source::ListEnd;
use informer_core::ResourceVersion;
use informer_schema::{ListSegment, ListSplitter};

use super::{CompletedList, Expected, ListProblem, METADATA_LIST_KIND};
use crate::Limits;
use crate::list_watch::pieces::{BATCH_BYTES, Pieces};
use crate::splitter::Slice;

pub(super) struct ProtobufList {
    splitter: ListSplitter,
    limits: Limits,
    expected: Arc<Expected>,
    end: ListEnd,
    items: u64,
    /// The number of bytes of the response body received so far.
    bytes: u64,
    /// Whether the list's TypeMeta was received. Every API server sends the TypeMeta before the items, so an
    /// item without a preceding TypeMeta is an error.
    named: bool,
}

impl ProtobufList {
    pub(super) fn new(limits: Limits, expected: Arc<Expected>) -> Self {
        Self {
            splitter: ListSplitter::new(limits.object_bytes),
            limits,
            expected,
            end: ListEnd { version: ResourceVersion::unset(), continue_token: None, remaining: None },
            items: 0,
            bytes: 0,
            named: false,
        }
    }

    pub(super) fn cut(
        &mut self,
        frame: &Bytes,
        at: &mut usize,
        pieces: &mut Pieces,
    ) -> Result<(), ListProblem> {
        let rest = &frame[*at..];
        let step = &rest[..rest.len().min(BATCH_BYTES)];
        *at += step.len();
        self.bytes += step.len() as u64;
        if self.bytes > self.limits.page_bytes {
            let limit = self.limits.page_bytes;
            return Err(ListProblem::Protocol(format!(
                "the list is over the limit of {limit} bytes (Limits::page_bytes)"
            )));
        }
        let mut problem = None;
        let (expected, named, items, end) =
            (&*self.expected, &mut self.named, &mut self.items, &mut self.end);
        let cut = self.splitter.push(step, |part| {
            if problem.is_some() {
                return;
            }
            match part {
                ListSegment::TypeMeta { api_version, kind } => {
                    *named = true;
                    problem = expected.wrong_names(api_version, kind);
                }
                ListSegment::Metadata { resource_version, continue_token, remaining } => {
                    *end = list_end(resource_version, continue_token, remaining);
                }
                ListSegment::Item(_) if !*named => {
                    problem = Some("an item precedes the TypeMeta of the list".to_owned());
                }
                ListSegment::Item(message) => {
                    *items += 1;
                    pieces.push(frame, Slice { bytes: message, spans: &[] });
                }
            }
        });
        match (problem, cut) {
            (Some(problem), _) => {
                let expected = &self.expected.list_kind;
                Err(ListProblem::OtherKind(format!("expected a {expected}, but {problem}")))
            }
            (None, Err(error)) => Err(ListProblem::Protocol(format!("{error}: {}", error.problem()))),
            (None, Ok(())) => Ok(()),
        }
    }

    pub(super) fn end(&mut self) -> Result<CompletedList, ListProblem> {
        if !self.splitter.is_complete() {
            return Err(ListProblem::BrokeOff(self.items));
        }
        Ok(CompletedList {
            end: self.end.clone(),
            items: self.items,
            max_buffered: self.splitter.max_buffered(),
        })
    }
}

impl Expected {
    /// Returns the difference between the kind of a received list and the requested kind, or `None` if they
    /// are equal. Group and version are compared, too, because protobuf items do not contain their kind.
    fn wrong_names(&self, api_version: &str, kind: &str) -> Option<String> {
        let metadata = self.metadata_only && kind == METADATA_LIST_KIND;
        let right = metadata || (kind == self.list_kind && api_version == self.api_version);
        (!right).then(|| format!("it is {kind} of {api_version}"))
    }
}

fn list_end(version: &str, continue_token: &str, remaining: Option<i64>) -> ListEnd {
    ListEnd {
        version: ResourceVersion::from(version),
        continue_token: Some(continue_token.to_owned()).filter(|token| !token.is_empty()),
        remaining: remaining.and_then(|count| u64::try_from(count).ok()),
    }
}
