use std::collections::VecDeque;

use informer_cache::source::{ListEnd, ListPart};
use informer_core::ResourceVersion;
use informer_schema::{ListPart as WirePart, ListSplitter};

use super::{Batch, Ended, ListProblem, METADATA_LIST_KIND};
use crate::list_watch::objects::ObjectReader;
use crate::{Limits, Representation};

/// How many bytes are cut before others get their turn on the thread: some hundred objects of the usual size.
const STEP_BYTES: usize = 1 << 20;

/// A list in protobuf.
pub(super) struct ProtobufList<O: informer_core::Object> {
    splitter: ListSplitter,
    limits: Limits,
    objects: ObjectReader<O>,
    expected: String,
    end: ListEnd,
    items: u64,
    /// How long the body is so far.
    bytes: u64,
    /// Whether the list has said what it is: before its items, as every server does.
    named: bool,
}

impl<O: Representation> ProtobufList<O> {
    pub(super) fn new(limits: Limits, objects: ObjectReader<O>) -> Self {
        Self {
            splitter: ListSplitter::new(limits.object_bytes),
            limits,
            expected: format!("{}List", objects.kind().kind()),
            objects,
            end: ListEnd { version: ResourceVersion::unset(), continue_token: None, remaining: None },
            items: 0,
            bytes: 0,
            named: false,
        }
    }

    pub(super) fn read(
        &mut self,
        frame: &[u8],
        at: &mut usize,
        parts: &mut VecDeque<ListPart<O>>,
    ) -> Result<(), ListProblem> {
        let rest = &frame[*at..];
        let step = &rest[..rest.len().min(STEP_BYTES)];
        *at += step.len();
        self.bytes += step.len() as u64;
        if self.bytes > self.limits.page_bytes {
            let limit = self.limits.page_bytes;
            return Err(ListProblem::Protocol(format!(
                "the list is over the limit of {limit} bytes (Limits::page_bytes)"
            )));
        }
        let (mut batch, mut problem) = (Batch::new(parts), None);
        let cut = self.splitter.push(step, |part| {
            if problem.is_some() {
                return;
            }
            problem = match part {
                WirePart::Names { api_version, kind } => {
                    self.named = true;
                    wrong_names(&self.objects, &self.expected, (api_version, kind))
                }
                WirePart::Metadata { resource_version, continue_token, remaining } => {
                    self.end = end(resource_version, continue_token, remaining);
                    None
                }
                WirePart::Item(_) if !self.named => {
                    Some("an item comes before the name of the list".to_owned())
                }
                WirePart::Item(message) => {
                    self.items += 1;
                    if batch.is_full() {
                        batch.flush();
                    }
                    batch.take(self.objects.read_message(message, true)).err()
                }
            };
        });
        batch.flush();
        match (problem, cut) {
            (Some(problem), _) => {
                Err(ListProblem::OtherKind(format!("expected a {}, but {problem}", self.expected)))
            }
            (None, Err(error)) => Err(ListProblem::Protocol(format!("{error}: {}", error.problem()))),
            (None, Ok(())) => Ok(()),
        }
    }

    pub(super) fn end(&mut self) -> Result<Ended, ListProblem> {
        if !self.splitter.is_complete() {
            return Err(ListProblem::BrokeOff(self.items));
        }
        Ok((self.end.clone(), self.items, self.splitter.buffered_max()))
    }
}

/// Why a list is not the one that was asked for. Group and version are compared, too: the wire does not tell kinds apart by
/// anything else.
fn wrong_names<O: Representation>(
    objects: &ObjectReader<O>,
    expected: &str,
    (api_version, kind): (&str, &str),
) -> Option<String> {
    let metadata = O::METADATA_ONLY && kind == METADATA_LIST_KIND;
    let right = metadata || (kind == expected && api_version == objects.api_version());
    (!right).then(|| format!("it is {kind} of {api_version}"))
}

fn end(version: &str, continue_token: &str, remaining: Option<i64>) -> ListEnd {
    ListEnd {
        version: ResourceVersion::from(version),
        continue_token: Some(continue_token.to_owned()).filter(|token| !token.is_empty()),
        remaining: remaining.and_then(|count| u64::try_from(count).ok()),
    }
}
