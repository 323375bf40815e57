//! The data of the console. It is that of the debug pages, with a few additions.

use std::collections::HashMap;
use std::time::Instant;

use serde_json::{Value, json};

use super::Console;

/// The maximum number of informers in a snapshot, and of queues, of controllers and of leases. A browser
/// reads a snapshot of this size each second without delay.
const MAX_SHOWN: usize = 2_000;

/// The maximum number of ended reconciles of one controller in an event.
const MAX_RECONCILES: usize = 500;

/// The maximum number of ended reconciles of all controllers in an event.
const MAX_ALL_RECONCILES: usize = 2_000;

impl Console {
    /// Returns the state of all parts of the manager.
    pub(super) fn snapshot(&self, now: Instant) -> Value {
        let shared = &self.instrumentation;
        let (informers, more_informers) = limited(shared.informers_page(now)["informers"].take());
        let (queues, more_queues) = limited(shared.queues_page()["queues"].take());
        let (leases, more_leases) = limited(shared.leases_page(now)["leases"].take());
        let all = shared.controllers();
        let controllers: Vec<Value> =
            all.iter().take(MAX_SHOWN).map(|controller| controller.state(now)).collect();
        json!({
            "version": 1,
            "manager": (self.status)(),
            "process": self.process(now),
            "informers": informers,
            "queues": queues,
            "controllers": controllers,
            "leases": leases,
            "client": {"server": self.server, "requests": shared.console.requests.page()},
            "omitted": {
                "informers": more_informers,
                "queues": more_queues,
                "controllers": all.len().saturating_sub(MAX_SHOWN),
                "leases": more_leases,
            },
        })
    }

    fn process(&self, now: Instant) -> Value {
        let runtime = tokio::runtime::Handle::current().metrics();
        json!({
            "library": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "uptimeSeconds": now.saturating_duration_since(self.created).as_secs_f64(),
            "tasks": runtime.num_alive_tasks(),
            "threads": runtime.num_workers(),
            "residentBytes": resident_bytes(),
        })
    }

    /// Returns the reconciles that ended after those counted in `sent`, oldest first for each controller.
    /// Updates `sent`.
    pub(super) fn new_reconciles(&self, sent: &mut HashMap<u64, u64>, now: Instant) -> Value {
        let mut new = Vec::new();
        let mut runs = HashMap::new();
        for controller in self.instrumentation.controllers() {
            let after = sent.get(&controller.run()).copied().unwrap_or_default();
            let max = MAX_RECONCILES.min(MAX_ALL_RECONCILES.saturating_sub(new.len()));
            let (mut ended, total) = controller.reconciles(after, max, now);
            for reconcile in &mut ended {
                reconcile["controller"] = json!(controller.name());
            }
            new.append(&mut ended);
            runs.insert(controller.run(), total);
        }
        *sent = runs;
        new.into()
    }
}

/// Returns the first [`MAX_SHOWN`] elements of a JSON array, and the number of the others.
fn limited(value: Value) -> (Value, usize) {
    let Value::Array(mut all) = value else { return (value, 0) };
    let omitted = all.len().saturating_sub(MAX_SHOWN);
    all.truncate(MAX_SHOWN);
    (all.into(), omitted)
}

/// Returns the resident memory of the process; `None` if `/proc/self/status`, which Linux has, cannot be
/// read.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
