//! One list as many: each namespace by itself, all at one exact version, several at a time.
//!
//! A server encodes a list on one of its threads. Lists at one exact version are parts of one state, so
//! together they are the list, and a watch goes on from that version.
//!
//! # Invariants
//!
//! 1. What is handed on is the state at one version, or ends in an error: the objects of all namespaces are
//!    as many as the server has counted at that version.
//! 2. A list that failed after it had begun is not split again: the kind is remembered, and the next list of
//!    it is whole.
//!
//! # Shutdown
//!
//! Dropping the stream ends the tasks that read, and with them their requests.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use informer_cache::source::{
    ListEnd, ListPart, ListRequest, ListStream, SourceContext, SourceError, SourceErrorKind, VersionMatch,
};
use informer_core::{Object, ResourceVersion};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::KubeListWatch;
use crate::{Metadata, Representation, ResourceKind};

/// How a list of all namespaces is split; see [`KubeListWatch::split_lists`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitLists {
    /// How many requests are under way at once. 4 by default: more than that, and a server queues them.
    pub requests: usize,
    /// How many objects a list must have to be split. 5000 by default, which one request brings in half a
    /// second.
    pub objects_min: u64,
}

impl Default for SplitLists {
    fn default() -> Self {
        Self { requests: 4, objects_min: 5000 }
    }
}

/// In more namespaces than these, requests cost more than they save.
const MAX_NAMESPACES: usize = 2000;

/// Parts that wait to be taken. One holds what a network frame brought; a few keep all tasks reading.
const MAX_PARTS: usize = 16;

type Part<O> = Result<ListPart<O>, SourceError>;

/// The list at a version, by namespaces.
struct Plan {
    version: ResourceVersion,
    objects: u64,
    namespaces: Vec<String>,
}

/// Splits a list; `None` where it is to be asked for whole: it is small, the server does not count, or
/// namespaces may not be listed.
pub(super) async fn list<O: Representation>(
    source: &KubeListWatch<O>,
    split: SplitLists,
    context: &SourceContext<O>,
) -> Option<ListStream<O>> {
    let plan = match plan(source, split).await {
        Ok(plan) => plan?,
        Err(error) => {
            tracing::debug!(error = %error, "a list is not split");
            return None;
        }
    };
    let (sender, receiver) = mpsc::channel(MAX_PARTS);
    let namespaces = Arc::new(Mutex::new(plan.namespaces.into_iter()));
    let mut tasks = JoinSet::new();
    for _ in 0..split.requests.max(1) {
        let (source, context, version) = (source.clone(), context.clone(), plan.version.clone());
        let (namespaces, sender) = (Arc::clone(&namespaces), sender.clone());
        tasks.spawn(async move {
            while let Some(namespace) = { namespaces.lock().next() } {
                let source = source.clone().namespace(namespace);
                if let Err(error) = read_one(&source, &version, &context, &sender).await {
                    // Nobody listens any more where this fails.
                    let _ = sender.send(Err(error)).await;
                    return;
                }
            }
        });
    }
    let reading = Reading {
        source: source.clone(),
        receiver,
        _tasks: tasks,
        version: plan.version,
        missing: plan.objects,
    };
    Some(ListStream::new(stream::unfold(Some(reading), |reading| async move { reading?.next().await })))
}

/// Reads one namespace.
async fn read_one<O: Representation>(
    source: &KubeListWatch<O>,
    version: &ResourceVersion,
    context: &SourceContext<O>,
    parts: &mpsc::Sender<Part<O>>,
) -> Result<(), SourceError> {
    let mut list = source.list_whole(exactly(version, context.clone())).await?;
    while let Some(part) = list.next().await {
        match part? {
            ListPart::End(end) if end.version == *version && end.continue_token.is_none() => return Ok(()),
            ListPart::End(_) => {
                return Err(failed(source, "a namespace came at another version, or not whole"));
            }
            part => {
                if parts.send(Ok(part)).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
    Err(failed(source, "a namespace broke off"))
}

/// What is to be read, if the list is worth it.
async fn plan<O: Representation>(
    source: &KubeListWatch<O>,
    split: SplitLists,
) -> Result<Option<Plan>, SourceError> {
    // The newest state, whatever was asked for: nothing older was seen than that. One object says how many
    // there are.
    let first = ListRequest {
        limit: Some(1),
        version_match: VersionMatch::Unset,
        ..exactly(&ResourceVersion::unset(), SourceContext::default())
    };
    let (found, end) = read_all(source.list_whole(first).await?).await?;
    let namespaced = found.iter().all(|object| object.key().namespace().is_some());
    let (Some(remaining), Some(_), true) = (end.remaining, end.version.as_u64(), namespaced) else {
        return Ok(None);
    };
    let objects = remaining + found.len() as u64;
    if objects < split.objects_min {
        return Ok(None);
    }
    let kind = ResourceKind::new("", "v1", "Namespace", "namespaces");
    let namespaces = KubeListWatch::<Metadata<serde_json::Value>>::of(source.client.clone(), kind);
    let listed = namespaces.list_whole(exactly(&end.version, SourceContext::default())).await?;
    let (namespaces, listed) = read_all(listed).await?;
    let namespaces: Vec<_> = namespaces.iter().map(|namespace| namespace.key().name().to_owned()).collect();
    let few = (2..=MAX_NAMESPACES).contains(&namespaces.len()) && listed.continue_token.is_none();
    Ok(few.then_some(Plan { version: end.version, objects, namespaces }))
}

/// Returns a request for the state at a version.
fn exactly<O: Object>(version: &ResourceVersion, context: SourceContext<O>) -> ListRequest<O> {
    let (version, version_match) = (version.clone(), VersionMatch::Exact);
    ListRequest { version, version_match, limit: None, continue_token: None, context }
}

async fn read_all<O: Object>(mut list: ListStream<O>) -> Result<(Vec<Arc<O>>, ListEnd), SourceError> {
    let mut objects = Vec::new();
    while let Some(part) = list.next().await {
        match part? {
            ListPart::Items(items) => objects.extend(items.into_iter().map(|item| item.into_object())),
            ListPart::Undecodable(_) => {}
            ListPart::End(end) => return Ok((objects, end)),
        }
    }
    Err(SourceError::new(SourceErrorKind::Connection, "a list broke off before its end".to_owned()))
}

fn failed<O: Representation>(source: &KubeListWatch<O>, problem: &str) -> SourceError {
    let text = format!("{}: {problem}; the next list is not split", source.attempt("list by namespaces"));
    SourceError::new(SourceErrorKind::Connection, text)
}

/// The namespaces on their way into one list.
struct Reading<O: Representation> {
    source: KubeListWatch<O>,
    receiver: mpsc::Receiver<Part<O>>,
    /// Dropped, they end.
    _tasks: JoinSet<()>,
    version: ResourceVersion,
    /// Objects that the server has counted and that did not come yet.
    missing: u64,
}

impl<O: Representation> Reading<O> {
    async fn next(mut self) -> Option<(Part<O>, Option<Self>)> {
        match self.receiver.recv().await {
            Some(Ok(part)) => {
                let objects = match &part {
                    ListPart::Items(items) => items.len() as u64,
                    ListPart::Undecodable(_) => 1,
                    ListPart::End(_) => 0,
                };
                match self.missing.checked_sub(objects) {
                    Some(missing) => self.missing = missing,
                    None => return self.give_up("there are more objects than the server counted"),
                }
                Some((Ok(part), Some(self)))
            }
            Some(Err(error)) => {
                self.source.client.remember_whole_lists(self.source.kind.gvr());
                Some((Err(error), None))
            }
            None if self.missing == 0 => {
                let end = ListEnd { version: self.version, ..ListEnd::default() };
                Some((Ok(ListPart::End(end)), None))
            }
            None => self.give_up("there are fewer objects in its namespaces than the server counted"),
        }
    }

    fn give_up(self, problem: &str) -> Option<(Part<O>, Option<Self>)> {
        self.source.client.remember_whole_lists(self.source.kind.gvr());
        Some((Err(failed(&self.source, problem)), None))
    }
}
