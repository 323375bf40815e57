use std::sync::Arc;

use bytes::Bytes;
use informer_cache::source::ListEnd;
use informer_core::ResourceVersion;
use serde::Deserialize;

use super::{CompletedList, Expected, ListProblem, METADATA_LIST_KIND};
use crate::Limits;
use crate::list_watch::pieces::Pieces;
use crate::splitter::list::{ListElement, ListMember, ListSplitter};

pub(super) struct JsonList {
    splitter: ListSplitter,
    expected: Arc<Expected>,
    envelope: Envelope,
}

/// The members of a JSON list other than `items`.
#[derive(Default)]
struct Envelope {
    kind: Option<String>,
    metadata: ListMetadata,
    items: u64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    #[serde(default)]
    resource_version: Option<String>,
    #[serde(default, rename = "continue")]
    continue_token: Option<String>,
    #[serde(default)]
    remaining_item_count: Option<i64>,
}

impl JsonList {
    pub(super) fn new(limits: Limits, expected: Arc<Expected>) -> Self {
        Self { splitter: ListSplitter::new(limits), expected, envelope: Envelope::default() }
    }

    pub(super) fn cut(
        &mut self,
        frame: &Bytes,
        at: &mut usize,
        pieces: &mut Pieces,
    ) -> Result<(), ListProblem> {
        while !pieces.is_full() {
            let part = self.splitter.next(frame, at);
            match part.map_err(|error| ListProblem::Protocol(error.to_string()))? {
                None => {
                    *at = frame.len();
                    break;
                }
                Some(ListElement::Member(member, text)) => {
                    let read = self.envelope.read(member, text);
                    read.map_err(|error| ListProblem::Protocol(error.to_string()))?;
                }
                Some(ListElement::Item(item)) => {
                    self.envelope.items += 1;
                    pieces.push(frame, item);
                }
            }
        }
        Ok(())
    }

    /// Validates the end of the list and the kind in it, and returns the metadata of the list.
    /// `untyped_items` is true if any item lacked its `kind`; the kind of the list must then be the requested
    /// one.
    pub(super) fn end(&mut self, untyped_items: bool) -> Result<CompletedList, ListProblem> {
        if !self.splitter.is_complete() {
            return Err(ListProblem::BrokeOff(self.envelope.items));
        }
        let kind = self.envelope.kind.as_deref().unwrap_or_default();
        // The list of a custom resource may have any `kind`. The kind of such a list is accepted, and the
        // kinds of its items are validated instead.
        let named = kind.ends_with("List") || self.envelope.items > 0;
        let expected = &self.expected;
        let metadata = expected.metadata_only && kind == METADATA_LIST_KIND;
        if kind != expected.list_kind && !metadata && (untyped_items || !named) {
            let expected = &expected.list_kind;
            return Err(ListProblem::OtherKind(format!("expected a {expected}, but it is {kind:?}")));
        }
        let metadata = std::mem::take(&mut self.envelope.metadata);
        let end = ListEnd {
            version: metadata.resource_version.map_or_else(ResourceVersion::unset, ResourceVersion::from),
            continue_token: metadata.continue_token.filter(|token| !token.is_empty()),
            remaining: metadata.remaining_item_count.and_then(|count| u64::try_from(count).ok()),
        };
        Ok(CompletedList { end, items: self.envelope.items, max_buffered: self.splitter.max_buffered() })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the list's {member} is invalid: {problem}")]
struct EnvelopeError {
    member: &'static str,
    problem: &'static str,
}

impl Envelope {
    fn read(&mut self, member: ListMember, text: &[u8]) -> Result<(), EnvelopeError> {
        match member {
            ListMember::Kind => {
                let kind: Result<Option<String>, _> = serde_json::from_slice(text);
                self.kind =
                    kind.map_err(|_| EnvelopeError { member: "kind", problem: "it is not a string" })?;
            }
            ListMember::Metadata => {
                let metadata: Result<Option<ListMetadata>, _> = serde_json::from_slice(text);
                let problem =
                    "it needs resourceVersion and continue as strings, remainingItemCount as a number";
                let metadata = metadata.map_err(|_| EnvelopeError { member: "metadata", problem })?;
                self.metadata = metadata.unwrap_or_default();
            }
            ListMember::Items | ListMember::ApiVersion | ListMember::Other => {}
        }
        Ok(())
    }
}
