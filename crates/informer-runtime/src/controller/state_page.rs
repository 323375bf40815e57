//! The state of a controller in the console.

use serde_json::{Value, json};

use super::{ControllerState, ShardState};
use crate::causes::MAX_RUNNING;

impl ControllerState {
    /// Returns the state as JSON. `running` are the running reconciles with their causes; without them, only
    /// their requests and durations are shown.
    pub(super) fn page(&self, running: Option<Vec<Value>>) -> Value {
        let busy = || {
            let one = |(request, duration): &(String, std::time::Duration)| json!({"request": request, "beganSecondsAgo": duration.as_secs_f64()});
            self.busy.iter().take(MAX_RUNNING).map(one).collect()
        };
        let running: Vec<Value> = running.unwrap_or_else(busy);
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

fn shard(state: &ShardState) -> Value {
    json!({
        "active": state.active,
        "members": state.members,
        "refused": state.refused,
        "remembered": state.remembered,
        "writesRefused": state.writes_refused,
    })
}
