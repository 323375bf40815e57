//! The controller of the demo. It counts the running pods of each ReplicaSet and the nodes that they use.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use informer::cache::{Event, EventHandler, SharedInformer, on_event};
use informer::client::Lazy;
use informer::workqueue::{WorkOutcome, WorkQueue};
use informer::{FieldPath, Object};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;

/// The name of the index of pods by the uid of their owner, with which a reconcile finds the pods of a
/// ReplicaSet.
pub(crate) const OWNER: &str = "owner";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) running: usize,
    pub(crate) nodes: usize,
}

/// The reconciler of the demo's controller, and its results: the usage of each ReplicaSet, by its uid.
#[derive(Debug, Clone)]
pub(crate) struct Reconciler {
    pods: SharedInformer<Lazy<Pod>>,
    usage: Arc<Mutex<HashMap<Box<str>, Usage>>>,
    reconciles: Arc<AtomicU64>,
    phase: FieldPath,
    node: FieldPath,
}

impl Reconciler {
    pub(crate) fn new(pods: SharedInformer<Lazy<Pod>>) -> Self {
        let path = |path: &str| path.parse().expect("the field paths of the demo are valid");
        Self {
            pods,
            usage: Arc::default(),
            reconciles: Arc::default(),
            phase: path("status.phase"),
            node: path("spec.nodeName"),
        }
    }

    pub(crate) fn handler(queue: WorkQueue<Box<str>>) -> impl EventHandler<Lazy<Pod>> {
        on_event(move |event: Event<Lazy<Pod>>| {
            if let Some(owner) = event.object().controller() {
                queue.add(owner.uid().into());
            }
        })
    }

    /// Counts the running pods of one ReplicaSet and the nodes that they use, from the cache. Never fails, so
    /// the queue never retries.
    pub(crate) async fn reconcile(self, owner: Box<str>) -> WorkOutcome {
        self.reconciles.fetch_add(1, Ordering::Relaxed);
        let pods = self.pods.by_index(OWNER, &owner).unwrap_or_default();
        let usage = usage(pods.iter().map(|pod| (pod.field(&self.phase), pod.field(&self.node))));
        match usage.running {
            0 => self.usage.lock().remove(&owner),
            _ => self.usage.lock().insert(owner, usage),
        };
        WorkOutcome::Done
    }

    pub(crate) fn reconciles(&self) -> u64 {
        self.reconciles.load(Ordering::Relaxed)
    }

    pub(crate) fn usage(&self) -> HashMap<Box<str>, Usage> {
        self.usage.lock().clone()
    }
}

pub(crate) fn usage<T: AsRef<str>>(pods: impl Iterator<Item = (Option<T>, Option<T>)>) -> Usage {
    let (mut running, mut nodes) = (0, HashSet::new());
    for (phase, node) in pods {
        if phase.is_some_and(|phase| phase.as_ref() == "Running") {
            running += 1;
            nodes.extend(node.map(|node| node.as_ref().to_owned()));
        }
    }
    Usage { running, nodes: nodes.len() }
}
