use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use informer_cache::source::{ListEnd, ListPart, Listed, SourceContext, SourceError, SourceErrorKind};
use informer_core::ResourceVersion;
use serde::Deserialize;

use super::ReadOptions;
use super::objects::{ObjectReader, Read};
use crate::client::ResponseBody;
use crate::splitter::list::{ListSplitter, Member, Part};
use crate::{Representation, ResourceKind};

/// How many objects are read before others get their turn on the thread: a frame from the network holds fewer, one from
/// a server in this process may hold a whole list.
const BATCH_MAX: usize = 1000;

/// The kind of a list of which the metadata alone was asked for. Servers that cannot do that send the whole list.
const METADATA_LIST_KIND: &str = "PartialObjectMetadataList";

/// Reads the body of one list.
pub(super) struct ListReader<O: informer_core::Object> {
    attempt: String,
    body: ResponseBody,
    idle_timeout: Duration,
    splitter: ListSplitter,
    objects: ObjectReader<O>,
    /// The network frame that is being read, empty before and after one, and how far.
    frame: Bytes,
    at: usize,
    expected: String,
    envelope: Envelope,
    parts: VecDeque<ListPart<O>>,
    ended: bool,
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

impl<O: Representation> ListReader<O> {
    pub(super) fn new(
        attempt: String,
        body: ResponseBody,
        kind: &ResourceKind,
        options: &ReadOptions,
        context: SourceContext<O>,
    ) -> Self {
        Self {
            attempt,
            body,
            idle_timeout: options.list_idle_timeout,
            splitter: ListSplitter::new(options.limits),
            objects: ObjectReader::new(kind, options.pruning.clone(), context),
            frame: Bytes::new(),
            at: 0,
            expected: format!("{}List", kind.kind()),
            envelope: Envelope::default(),
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
            let frame = tokio::time::timeout(self.idle_timeout, self.body.next_frame()).await;
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
        let mut items = Vec::new();
        while items.len() < BATCH_MAX {
            let part = self.splitter.next(&self.frame, &mut self.at);
            let part = part.map_err(|error| super::reply::protocol(&self.attempt, error))?;
            let item = match part {
                None => {
                    (self.frame, self.at) = (Bytes::new(), 0);
                    break;
                }
                Some(Part::Member(member, text)) => {
                    let read = self.envelope.read(member, text);
                    read.map_err(|error| super::reply::protocol(&self.attempt, error))?;
                    continue;
                }
                Some(Part::Item(item)) => item,
            };
            let object = self.objects.read(item, true);
            self.envelope.items += 1;
            self.envelope.untyped_items |= !object.has_kind;
            match object.read {
                Read::Fresh(object) => items.push(Listed::Fresh(object)),
                Read::Known(object) => items.push(Listed::Known(object)),
                Read::Undecodable(undecodable) => {
                    flush(&mut items, &mut self.parts);
                    self.parts.push_back(ListPart::Undecodable(undecodable));
                }
                Read::OtherKind(other) => return Err(self.other_kind(&format!("an item is {other}"))),
            }
        }
        flush(&mut items, &mut self.parts);
        Ok(())
    }

    /// The body is over.
    fn end(&mut self) -> Result<(), SourceError> {
        if !self.splitter.is_complete() {
            let text = format!(
                "{}: the answer broke off after {} objects; the list is repeated",
                self.attempt, self.envelope.items
            );
            return Err(SourceError::new(SourceErrorKind::Connection, text));
        }
        let kind = self.envelope.kind.as_deref().unwrap_or_default();
        // A custom resource may name its list as it likes; then its items say what they are.
        let named = kind.ends_with("List") || self.envelope.items > 0;
        let metadata = O::METADATA_ONLY && kind == METADATA_LIST_KIND;
        if kind != self.expected && !metadata && (self.envelope.untyped_items || !named) {
            return Err(self.other_kind(&format!("it is {kind:?}")));
        }
        let (items, buffered_max) = (self.envelope.items, self.splitter.buffered_max());
        tracing::debug!(attempt = self.attempt, items, buffered_max, "a list was read");
        let metadata = std::mem::take(&mut self.envelope.metadata);
        self.parts.push_back(ListPart::End(ListEnd {
            version: metadata.resource_version.map_or_else(ResourceVersion::unset, ResourceVersion::from),
            continue_token: metadata.continue_token.filter(|token| !token.is_empty()),
            remaining: metadata.remaining_item_count.and_then(|count| u64::try_from(count).ok()),
        }));
        self.ended = true;
        Ok(())
    }

    fn other_kind(&self, what: &str) -> SourceError {
        let text =
            format!("{}: expected a {}, but {what}; check group and kind", self.attempt, self.expected);
        SourceError::new(SourceErrorKind::Protocol, text)
    }
}

fn flush<O>(items: &mut Vec<Listed<O>>, parts: &mut VecDeque<ListPart<O>>) {
    if !items.is_empty() {
        parts.push_back(ListPart::Items(std::mem::take(items)));
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
