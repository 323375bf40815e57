use std::collections::VecDeque;

use informer_cache::source::{ListEnd, ListPart};
use informer_core::ResourceVersion;
use serde::Deserialize;

use super::{Batch, Ended, ListProblem, METADATA_LIST_KIND};
use crate::list_watch::objects::ObjectReader;
use crate::splitter::list::{ListSplitter, Member, Part};
use crate::{Limits, Representation};

/// A list in JSON.
pub(super) struct JsonList<O: informer_core::Object> {
    splitter: ListSplitter,
    objects: ObjectReader<O>,
    expected: String,
    envelope: Envelope,
}

/// What stands around the items.
#[derive(Default)]
struct Envelope {
    kind: Option<String>,
    metadata: ListMetadata,
    items: u64,
    /// True where an item did not say its kind, so that the kind of the list must.
    untyped_items: bool,
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

impl<O: Representation> JsonList<O> {
    pub(super) fn new(limits: Limits, objects: ObjectReader<O>) -> Self {
        let expected = format!("{}List", objects.kind().kind());
        Self { splitter: ListSplitter::new(limits), objects, expected, envelope: Envelope::default() }
    }

    pub(super) fn read(
        &mut self,
        frame: &[u8],
        at: &mut usize,
        parts: &mut VecDeque<ListPart<O>>,
    ) -> Result<(), ListProblem> {
        let mut batch = Batch::new(parts);
        while !batch.is_full() {
            let part = self.splitter.next(frame, at);
            let item = match part.map_err(|error| ListProblem::Protocol(error.to_string()))? {
                None => {
                    *at = frame.len();
                    break;
                }
                Some(Part::Member(member, text)) => {
                    let read = self.envelope.read(member, text);
                    read.map_err(|error| ListProblem::Protocol(error.to_string()))?;
                    continue;
                }
                Some(Part::Item(item)) => item,
            };
            let object = self.objects.read(item, true);
            self.envelope.items += 1;
            self.envelope.untyped_items |= !object.has_kind;
            let taken = batch.take(object.read);
            taken.map_err(|other| self.other_kind(&format!("an item is {other}")))?;
        }
        batch.flush();
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<Ended, ListProblem> {
        if !self.splitter.is_complete() {
            return Err(ListProblem::BrokeOff(self.envelope.items));
        }
        let kind = self.envelope.kind.as_deref().unwrap_or_default();
        // A custom resource may name its list as it likes; then its items say what they are.
        let named = kind.ends_with("List") || self.envelope.items > 0;
        let metadata = O::METADATA_ONLY && kind == METADATA_LIST_KIND;
        if kind != self.expected && !metadata && (self.envelope.untyped_items || !named) {
            return Err(self.other_kind(&format!("it is {kind:?}")));
        }
        let metadata = std::mem::take(&mut self.envelope.metadata);
        let end = ListEnd {
            version: metadata.resource_version.map_or_else(ResourceVersion::unset, ResourceVersion::from),
            continue_token: metadata.continue_token.filter(|token| !token.is_empty()),
            remaining: metadata.remaining_item_count.and_then(|count| u64::try_from(count).ok()),
        };
        Ok((end, self.envelope.items, self.splitter.buffered_max()))
    }

    fn other_kind(&self, what: &str) -> ListProblem {
        ListProblem::OtherKind(format!("expected a {}, but {what}", self.expected))
    }
}

/// A member beside the items that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the list's {member} cannot be read: {problem}")]
struct EnvelopeError {
    member: &'static str,
    problem: &'static str,
}

impl Envelope {
    fn read(&mut self, member: Member, text: &[u8]) -> Result<(), EnvelopeError> {
        match member {
            Member::Kind => {
                let kind: Result<Option<String>, _> = serde_json::from_slice(text);
                self.kind =
                    kind.map_err(|_| EnvelopeError { member: "kind", problem: "it is not a string" })?;
            }
            Member::Metadata => {
                let metadata: Result<Option<ListMetadata>, _> = serde_json::from_slice(text);
                let problem =
                    "it needs resourceVersion and continue as strings, remainingItemCount as a number";
                let metadata = metadata.map_err(|_| EnvelopeError { member: "metadata", problem })?;
                self.metadata = metadata.unwrap_or_default();
            }
            Member::Items | Member::ApiVersion | Member::Other => {}
        }
        Ok(())
    }
}
