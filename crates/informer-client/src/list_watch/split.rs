//! Splits one list request into one request for each namespace, all at one exact resourceVersion, several in
//! parallel.
//!
//! A server encodes each list on a single thread. Lists at one exact version are parts of one state, so
//! together they are the complete list, and a watch continues from that version.
//!
//! # Invariants
//!
//! 1. The returned list is the state at one version. It ends in an error if the number of objects in all
//!    namespaces differs from the number that the server reported for that version.
//! 2. After a split list of a kind has failed, the client does not split lists of this kind again.
//!
//! # Shutdown
//!
//! Dropping the stream aborts the reading tasks, and with them their requests.

use std::sync::Arc;

use futures_util::future::BoxFuture;
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
    /// The number of parallel requests of a split list. The default is 4, because a server queues additional
    /// requests.
    pub requests: usize,
    /// The minimum number of objects for which a list is split. The default is 5000, which a server returns
    /// in half a second in a single request.
    pub objects_min: u64,
}

impl Default for SplitLists {
    fn default() -> Self {
        Self { requests: 4, objects_min: 5000 }
    }
}

/// The maximum number of namespaces for which a list is split. With more namespaces, the additional requests
/// cost more than splitting saves.
const MAX_NAMESPACES: usize = 2000;

/// The capacity of the channel from the tasks that read the lists of the namespaces. A part holds the objects
/// of one network frame, so a few parts keep all tasks reading.
const MAX_PARTS: usize = 16;

type NamespacePage<O> = Result<ListPart<O>, SourceError>;

struct Plan {
    version: ResourceVersion,
    objects: u64,
    namespaces: Vec<String>,
}

/// Splits a list into one request for each namespace. Returns `None` if the list must be a single request,
/// because it has few objects, the server does not report the number of objects, the objects have no
/// namespace, or there is only one namespace or too many. The same applies if a request of this function
/// fails, for example because the client may not list namespaces.
pub(super) async fn list<O: Representation>(
    source: &KubeListWatch<O>,
    split: SplitLists,
    context: &SourceContext<O>,
) -> Option<ListStream<O>> {
    let plan = match plan(source, split).await {
        Ok(plan) => plan?,
        Err(error) => {
            tracing::debug!(error = %error, "the list is not split");
            return None;
        }
    };
    let (sender, receiver) = mpsc::channel(MAX_PARTS);
    let namespaces = Arc::new(Mutex::new(plan.namespaces.into_iter()));
    let mut tasks = JoinSet::new();
    for _ in 0..split.requests.max(1) {
        let (source, context, version) = (source.clone(), context.clone(), plan.version.clone());
        let (namespaces, sender) = (Arc::clone(&namespaces), sender.clone());
        let read_namespaces: BoxFuture<'static, ()> = Box::pin(async move {
            while let Some(namespace) = { namespaces.lock().next() } {
                let source = source.clone().namespace(namespace);
                if let Err(error) = read_one(&source, &version, &context, &sender).await {
                    // Sending fails only if the stream of the list has been dropped; the error is then not
                    // needed.
                    let _ = sender.send(Err(error)).await;
                    return;
                }
            }
        });
        tasks.spawn(read_namespaces);
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

async fn read_one<O: Representation>(
    source: &KubeListWatch<O>,
    version: &ResourceVersion,
    context: &SourceContext<O>,
    parts: &mpsc::Sender<NamespacePage<O>>,
) -> Result<(), SourceError> {
    let mut list = source.list_whole(exactly(version, context.clone())).await?;
    while let Some(part) = list.next().await {
        match part? {
            ListPart::End(end) if end.version == *version && end.continue_token.is_none() => return Ok(()),
            ListPart::End(_) => {
                return Err(failed(source, "the list of a namespace has another version or is incomplete"));
            }
            part => {
                if parts.send(Ok(part)).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
    Err(failed(source, "the list of a namespace ended early"))
}

async fn plan<O: Representation>(
    source: &KubeListWatch<O>,
    split: SplitLists,
) -> Result<Option<Plan>, SourceError> {
    // Request the newest state, whatever version the caller requested: the newest state satisfies every
    // request without an upper version limit. The response to this request, which has a limit of one object,
    // includes the number of remaining objects.
    let unset = ResourceVersion::unset();
    let first = ListRequest { limit: Some(1), ..exactly(&unset, SourceContext::default()) };
    // The counted object must be decoded, because it shows whether the objects have a namespace.
    let mut counting = source.clone();
    counting.options.prefilter = None;
    let CompleteList { objects: found, received, end } = read_all(counting.list_whole(first).await?).await?;
    let namespaced = !found.is_empty() && found.iter().all(|object| object.key().namespace().is_some());
    let (Some(remaining), Some(_), true) = (end.remaining, end.version.as_u64(), namespaced) else {
        return Ok(None);
    };
    let objects = remaining + received;
    if objects < split.objects_min {
        return Ok(None);
    }
    let kind = ResourceKind::new("", "v1", "Namespace", "namespaces");
    let namespaces = KubeListWatch::<Metadata<serde_json::Value>>::of(source.client.clone(), kind);
    let listed = namespaces.list_whole(exactly(&end.version, SourceContext::default())).await?;
    let listed = read_all(listed).await?;
    let names = listed.objects.iter().map(|namespace| namespace.key().name().to_owned());
    let namespaces: Vec<_> = names.collect();
    let few = (2..=MAX_NAMESPACES).contains(&namespaces.len()) && listed.end.continue_token.is_none();
    Ok(few.then_some(Plan { version: end.version, objects, namespaces }))
}

/// Returns a request for a complete list at a version. The condition on the version is not sent if it is
/// unset.
fn exactly<O: Object>(version: &ResourceVersion, context: SourceContext<O>) -> ListRequest<O> {
    let (version, version_match) = (version.clone(), VersionMatch::Exact);
    ListRequest { version, version_match, limit: None, continue_token: None, context }
}

/// A list that was read completely.
struct CompleteList<O> {
    /// The decoded objects.
    objects: Vec<Arc<O>>,
    /// The number of received objects, including undecodable and rejected ones.
    received: u64,
    end: ListEnd,
}

async fn read_all<O: Object>(mut list: ListStream<O>) -> Result<CompleteList<O>, SourceError> {
    let (mut objects, mut received) = (Vec::new(), 0);
    while let Some(part) = list.next().await {
        let part = part?;
        received += count(&part);
        match part {
            ListPart::Items(items) => objects.extend(items.into_iter().map(|item| item.into_object())),
            ListPart::Undecodable(_) | ListPart::Rejected(_) => {}
            ListPart::End(end) => return Ok(CompleteList { objects, received, end }),
        }
    }
    Err(SourceError::new(SourceErrorKind::Connection, "a list ended early".to_owned()))
}

/// Returns the number of received objects in a part of a list.
fn count<O>(part: &ListPart<O>) -> u64 {
    match part {
        ListPart::Items(items) => items.len() as u64,
        ListPart::Undecodable(_) => 1,
        ListPart::Rejected(count) => *count as u64,
        ListPart::End(_) => 0,
    }
}

fn failed<O: Representation>(source: &KubeListWatch<O>, problem: &str) -> SourceError {
    let text = format!("{}: {problem}; the next list is not split", source.attempt("list by namespaces"));
    SourceError::new(SourceErrorKind::Connection, text)
}

/// Merges the lists of the namespaces into one list stream.
struct Reading<O: Representation> {
    source: KubeListWatch<O>,
    receiver: mpsc::Receiver<NamespacePage<O>>,
    /// The tasks that read the lists of the namespaces. Dropping the set aborts them.
    _tasks: JoinSet<()>,
    version: ResourceVersion,
    /// The number of objects that the server reported, minus the number of objects received so far. If it is
    /// not 0 at the end, the list fails.
    missing: u64,
}

impl<O: Representation> Reading<O> {
    async fn next(mut self) -> Option<(NamespacePage<O>, Option<Self>)> {
        match self.receiver.recv().await {
            Some(Ok(part)) => {
                match self.missing.checked_sub(count(&part)) {
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

    fn give_up(self, problem: &str) -> Option<(NamespacePage<O>, Option<Self>)> {
        self.source.client.remember_whole_lists(self.source.kind.gvr());
        Some((Err(failed(&self.source, problem)), None))
    }
}
