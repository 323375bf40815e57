//! The state of a controller in the console.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{ControllerState, ShardState};
use crate::causes::MAX_RUNNING;
use crate::client::writes::{WriteCounts, resource_name};
use crate::source::Source;
use crate::{Cache, EventSubject, ReconcileRequest, Request, ResourceKind};

/// The parts of a controller that only the console reads.
pub(super) struct ConsoleParts {
    /// The reconciled kind. Only a controller of [`Request`]s has one.
    pub(super) kind: Option<ResourceKind>,
    /// The writes of its client.
    pub(super) writes: Arc<WriteCounts>,
}

impl ConsoleParts {
    /// Returns a reference to the object of a key, with its uid if the cache has the object.
    pub(super) fn object(&self, cache: &Cache, key: &str) -> Option<EventSubject> {
        let kind = self.kind.as_ref()?;
        let request: Request = key.parse().ok()?;
        let gvk = kind.gvk();
        Some(cache.subject_of(gvk, key).unwrap_or_else(|| {
            let namespace = request.namespace().filter(|_| !kind.is_cluster_scoped()).unwrap_or_default();
            EventSubject::new(&gvk.api_version(), &gvk.kind, namespace, request.key.name())
        }))
    }
}

impl ControllerState {
    /// Returns the state as JSON. `running` are the running reconciles that are recorded. Of the others, only
    /// the requests and durations are shown.
    pub(super) fn page(&self, mut running: Vec<Value>) -> Value {
        let recorded: HashSet<&str> = running.iter().filter_map(|one| one["request"].as_str()).collect();
        let others = self.busy.iter().filter(|(request, _)| !recorded.contains(&**request));
        let page = |(request, duration): &(String, Duration)| json!({"request": request, "beganSecondsAgo": duration.as_secs_f64()});
        let others: Vec<Value> = others.take(MAX_RUNNING.saturating_sub(running.len())).map(page).collect();
        running.extend(others);
        let counts = &self.reconciles;
        json!({
            "name": self.name,
            "kind": self.kind,
            "phase": format!("{:?}", self.phase),
            "workers": self.workers,
            "active": counts.active,
            "results": {
                "success": counts.success,
                "error": counts.error,
                "requeue": counts.requeue,
                "requeue_after": counts.requeue_after,
            },
            "terminalErrors": counts.terminal_errors,
            "panics": counts.panics,
            "timeouts": counts.timeouts,
            "triggerPanics": self.trigger_panics,
            "sources": self.sources,
            "running": running,
            "shard": self.shard.as_ref().map(shard),
        })
    }
}

/// Returns the source of a controller as JSON. The resource is empty if the source is no kind.
pub(super) fn source<R: ReconcileRequest>(source: &dyn Source<R>) -> Value {
    let watched = source.watched();
    let role = watched.as_ref().map_or("source", |watched| watched.role.as_str());
    let resource = watched.as_ref().map(|watched| resource_name(&watched.kind));
    json!({
        "role": role,
        "source": source.name(),
        "resource": resource.unwrap_or_default(),
        "informers": watched.map(|watched| watched.informers).unwrap_or_default(),
    })
}

fn shard(state: &ShardState) -> Value {
    json!({
        "active": state.active,
        "members": state.members,
        "refused": state.refused,
        "remembered": state.remembered,
        "writesRefused": state.writes_refused,
    })
}
