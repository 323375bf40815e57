//! The auditor: watches every kind through the independent client, and records each state of each object as
//! the history of the kind.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use informer_core::Gvr;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::cluster::Cluster;
use crate::raw::RawClient;
use crate::trace::Trace;

/// How long the auditor (which records the history of a kind) waits after its watch has ended, before it
/// lists again.
const RETRY: Duration = Duration::from_millis(1);

/// One state of an object, as the server reported it in a list or a watch event.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// Number of restores of the server before this state.
    pub(crate) epoch: u64,
    /// The simulated time at which the auditor received the state.
    pub(crate) at: Duration,
    pub(crate) version: u64,
    /// The key of the object, `namespace/name`.
    pub(crate) key: String,
    /// The object; `None` for a deletion.
    pub(crate) object: Option<Value>,
    /// True if the auditor missed no event between the previous recorded state of the object and this one.
    pub(crate) follows: bool,
}

/// A range of resource versions whose states the auditor may have missed, because it could not resume its
/// watch.
#[derive(Debug, Clone)]
pub(crate) struct Gap {
    pub(crate) epoch: u64,
    pub(crate) versions: RangeInclusive<u64>,
}

/// The recorded states of one kind, in the order of the server, and the gaps between them.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) states: Vec<State>,
    pub(crate) gaps: Vec<Gap>,
}

/// The history of one kind: its recorded states. A clone refers to the same record.
#[derive(Debug, Clone, Default)]
pub(crate) struct History(Arc<Mutex<Recorded>>);

impl History {
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Recorded) -> T) -> T {
        look(&self.0.lock())
    }

    /// Compares the last recorded states with the server's objects. Returns a difference if there is a state
    /// that the auditor's watch has not delivered yet.
    pub(crate) fn difference(&self, objects: &[Value]) -> Option<String> {
        let recorded = self.0.lock();
        let last: BTreeMap<&str, &State> =
            recorded.states.iter().map(|state| (state.key.as_str(), state)).collect();
        let last = last.into_values().filter(|state| state.object.is_some());
        let last: BTreeMap<String, u64> = last.map(|state| (state.key.clone(), state.version)).collect();
        let server: BTreeMap<String, u64> =
            objects.iter().map(|object| (key_of(object), version_of(object))).collect();
        (last != server).then(|| format!("the auditor has recorded {last:?}; the server has {server:?}"))
    }
}

#[derive(Debug)]
pub(crate) struct Auditor {
    history: History,
    task: JoinHandle<()>,
}

impl Auditor {
    pub(crate) fn start(cluster: &Cluster, gvr: Gvr, trace: &Trace) -> Self {
        let history = History::default();
        let follower = Follower {
            raw: RawClient::new(cluster, "auditor"),
            cluster: cluster.clone(),
            gvr,
            trace: trace.clone(),
            history: history.clone(),
            live: BTreeMap::new(),
            seen: 0,
            epoch: cluster.epoch(),
        };
        Self { history, task: tokio::spawn(follower.run()) }
    }

    pub(crate) fn history(&self) -> &History {
        &self.history
    }
}

impl Drop for Auditor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Follower {
    raw: RawClient,
    cluster: Cluster,
    gvr: Gvr,
    trace: Trace,
    history: History,
    live: BTreeMap<String, Value>,
    /// The resourceVersion up to which all states of the current `epoch` are recorded, except for those in
    /// gaps.
    seen: u64,
    epoch: u64,
}

impl Follower {
    async fn run(mut self) {
        loop {
            if let Ok((objects, version)) = self.raw.list(&self.gvr).await {
                self.take_list(objects, &version);
                self.follow(version).await;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Watches from a resourceVersion. When a watch ends, starts another one from the last received version,
    /// until the server rejects that version.
    async fn follow(&mut self, mut version: String) {
        let epoch = self.cluster.epoch();
        while self.cluster.epoch() == epoch {
            let mut events = RawClient::watch(self.raw.clone(), self.gvr.clone(), version.clone()).await;
            while let Some(event) = events.next().await {
                if event["type"] == "ERROR" || self.cluster.epoch() != epoch {
                    return;
                }
                let object = &event["object"];
                version = object["metadata"]["resourceVersion"].as_str().unwrap_or(&version).to_owned();
                self.seen = version.parse().unwrap_or(self.seen);
                self.take_event(&event);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    fn take_list(&mut self, objects: Vec<Value>, version: &str) {
        let listed = version.parse().unwrap_or_default();
        let epoch = self.cluster.epoch();
        let mut history = self.history.0.lock();
        // The watch may not have delivered all states that the server lost in a restore, so each restore
        // leaves a gap.
        for lost in self.epoch..epoch {
            history.gaps.push(Gap { epoch: lost, versions: self.seen..=u64::MAX });
            self.seen = 0;
        }
        history.gaps.push(Gap { epoch, versions: self.seen..=listed });
        drop(history);
        (self.seen, self.epoch) = (listed, epoch);
        let mut gone = std::mem::take(&mut self.live);
        for object in objects {
            let key = key_of(&object);
            if gone.remove(&key).as_ref() != Some(&object) {
                self.record(key.clone(), version_of(&object), Some(object.clone()), false);
            }
            self.live.insert(key, object);
        }
        for key in gone.into_keys() {
            self.record(key, version.parse().unwrap_or_default(), None, false);
        }
    }

    fn take_event(&mut self, event: &Value) {
        let (object, key) = (&event["object"], key_of(&event["object"]));
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => {
                self.live.insert(key.clone(), object.clone());
                self.record(key, version_of(object), Some(object.clone()), true);
            }
            Some("DELETED") => {
                self.live.remove(&key);
                self.record(key, version_of(object), None, true);
            }
            _ => {}
        }
    }

    fn record(&self, key: String, version: u64, object: Option<Value>, follows: bool) {
        let kind = if object.is_some() { "state" } else { "deleted" };
        self.trace.line(format_args!("  server: {} {key} {kind} @{version}", self.gvr.resource));
        let (epoch, at) = (self.cluster.epoch(), self.trace.elapsed());
        self.history.0.lock().states.push(State { epoch, at, version, key, object, follows });
    }
}

pub(crate) fn key_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

/// Returns the resourceVersion of an object as a number; 0 if the object has none.
pub(crate) fn version_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}
