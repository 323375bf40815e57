//! Reads the data of the console. It is that of the debug pages, with a few additions.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{ConsoleEvent, ConsoleSnapshot, KeyHistory};
use crate::clock::now;
use crate::instrumentation::Instrumentation;

/// The maximum number of informers in a snapshot, and of queues, of controllers and of leases. A browser
/// reads a snapshot of this size each second without delay.
const MAX_SHOWN: usize = 2_000;

/// The maximum number of ended reconciles of one controller in an event.
const MAX_RECONCILES: usize = 500;

/// The maximum number of ended reconciles of all controllers in an event.
const MAX_ALL_RECONCILES: usize = 2_000;

/// Returns the status of the manager as a text.
pub(crate) type ManagerStatusText = Box<dyn Fn() -> String + Send + Sync>;

/// Reads the data of the console in the process of the manager.
///
/// Clones read the same manager. The data contains names, numbers and errors, and no objects. A
/// read takes the time of one pass over the informers, queues and controllers; nothing is computed without a
/// read. A read outside of a tokio runtime panics.
///
/// Controllers record their reconciles for five minutes after a read. Before the first read and later, they
/// record only failed ones, unless they [record causes](crate::ControllerOptions::record_causes) themselves.
#[derive(Clone)]
pub struct ConsoleData(Arc<DataSource>);

struct DataSource {
    instrumentation: Arc<Instrumentation>,
    status: ManagerStatusText,
    /// The address of the API server.
    server: String,
    created: Instant,
}

impl fmt::Debug for ConsoleData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleData").field("server", &self.0.server).finish_non_exhaustive()
    }
}

impl ConsoleData {
    /// From now on the controllers of the manager record their failed reconciles, and all of them while the
    /// data is read.
    pub(crate) fn new(
        instrumentation: Arc<Instrumentation>,
        status: ManagerStatusText,
        server: String,
    ) -> Self {
        instrumentation.console.reads.enable();
        Self(Arc::new(DataSource { instrumentation, status, server, created: now() }))
    }

    /// Returns the state of all parts of the manager.
    pub fn snapshot(&self) -> ConsoleSnapshot {
        typed(self.snapshot_page())
    }

    /// Returns the causes and reconciles of a key, such as `default/web`.
    pub fn history(&self, key: &str) -> KeyHistory {
        typed(self.history_page(key))
    }

    /// Returns a reader of events, which returns each ended reconcile once.
    pub fn events(&self) -> ConsoleEvents {
        ConsoleEvents { data: self.clone(), sent: None }
    }

    pub(super) fn instrumentation(&self) -> &Instrumentation {
        &self.0.instrumentation
    }

    pub(super) fn snapshot_page(&self) -> Value {
        self.0.snapshot(self.0.read())
    }

    pub(super) fn history_page(&self, key: &str) -> Value {
        let now = self.0.read();
        let histories = self.0.instrumentation.controllers().into_iter().filter_map(|controller| {
            let mut history = controller.history(key, now)?;
            history["controller"] = json!(controller.name());
            Some(history)
        });
        json!({"version": 1, "key": key, "controllers": histories.collect::<Vec<_>>()})
    }
}

/// Converts data that this module has rendered to its public type.
fn typed<T: DeserializeOwned>(page: Value) -> T {
    serde_json::from_value(page).expect("the public types describe the rendered data")
}

/// Returns snapshots with the reconciles that ended in between.
#[derive(Debug)]
pub struct ConsoleEvents {
    data: ConsoleData,
    /// The number of ended reconciles that were returned, by the run of their controller; `None` before the
    /// first event.
    sent: Option<HashMap<u64, u64>>,
}

impl ConsoleEvents {
    /// Returns the present state, and the reconciles that ended since the last call.
    pub fn next_event(&mut self) -> ConsoleEvent {
        typed(self.next_page())
    }

    pub(super) fn next_page(&mut self) -> Value {
        let source = &self.data.0;
        let now = source.read();
        let mut page = source.snapshot(now);
        let (reconciles, dropped) = source.new_reconciles(&mut self.sent, now);
        page["reconciles"] = reconciles;
        page["dropped"] = json!(dropped);
        page
    }
}

impl DataSource {
    /// Makes the controllers record, and returns the current time. Called for each read.
    fn read(&self) -> Instant {
        let now = now();
        self.instrumentation.console.reads.note_read(now);
        now
    }

    /// Returns the state of all parts of the manager.
    fn snapshot(&self, now: Instant) -> Value {
        let shared = &self.instrumentation;
        let (informers, more_informers) = shared.informers(MAX_SHOWN, now);
        let (queues, more_queues) = shared.queues(MAX_SHOWN);
        let (leases, more_leases) = shared.leases(MAX_SHOWN, now);
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
            // The routes add the actions and whether objects are shown.
            "actions": null,
            "showsObjects": false,
        })
    }

    fn process(&self, now: Instant) -> Value {
        let runtime = tokio::runtime::Handle::current().metrics();
        json!({
            "library": env!("CARGO_PKG_VERSION"),
            "program": informer_client::program_name(),
            "host": host_name(),
            "pid": std::process::id(),
            "uptimeSeconds": now.saturating_duration_since(self.created).as_secs_f64(),
            "tasks": runtime.num_alive_tasks(),
            "threads": runtime.num_workers(),
            "residentBytes": resident_bytes(),
        })
    }

    /// Returns the newest reconciles that ended after those counted in `sent`, oldest first for each
    /// controller, and the number of others, which are dropped because there are more than the limit or
    /// because the controller has kept only newer ones. Updates `sent`. The reconciles before the first call
    /// do not count as dropped.
    fn new_reconciles(&self, sent: &mut Option<HashMap<u64, u64>>, now: Instant) -> (Value, u64) {
        let (mut new, mut dropped) = (Vec::new(), 0);
        let (mut runs, is_first) = (HashMap::new(), sent.is_none());
        let before = sent.take().unwrap_or_default();
        let controllers = self.instrumentation.controllers();
        let after = |run: u64| before.get(&run).copied().unwrap_or_default();
        let wanted = controllers.iter().map(|controller| {
            let after = after(controller.run());
            controller.kept_reconciles(after).min(MAX_RECONCILES)
        });
        let shares = fair_shares(&wanted.collect::<Vec<_>>(), MAX_ALL_RECONCILES);
        for (controller, max) in controllers.into_iter().zip(shares) {
            let after = after(controller.run());
            let (mut ended, total) = controller.reconciles(after, max, now);
            if !is_first {
                dropped += total.saturating_sub(after).saturating_sub(ended.len() as u64);
            }
            for reconcile in &mut ended {
                reconcile["controller"] = json!(controller.name());
            }
            new.append(&mut ended);
            runs.insert(controller.run(), total);
        }
        *sent = Some(runs);
        (new.into(), dropped)
    }
}

/// Divides a limit among controllers that want these numbers of reconciles. Max-min fair division: small
/// demands are met in full, and the rest is divided evenly among the others.
fn fair_shares(wanted: &[usize], limit: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&at| wanted[at]);
    let (mut shares, mut rest) = (vec![0; wanted.len()], limit);
    for (served, &at) in order.iter().enumerate() {
        shares[at] = wanted[at].min(rest / (wanted.len() - served));
        rest -= shares[at];
    }
    shares
}

/// Returns the host name; `None` if Linux does not provide it.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns the resident memory of the process; `None` if `/proc/self/status`, which Linux has, cannot be
/// read.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::fair_shares;

    #[test]
    fn flood_of_one_controller_leaves_room_for_the_others() {
        assert_eq!(fair_shares(&[500, 3, 0, 500], 1_000), [498, 3, 0, 499]);
        assert_eq!(fair_shares(&[500, 3], 1_000), [500, 3], "nothing is left out");
        assert_eq!(fair_shares(&[500; 5], 2_000), [400; 5]);
        assert_eq!(fair_shares(&[5, 5, 5], 2), [0, 1, 1]);
        assert_eq!(fair_shares(&[], 2), [0; 0]);
    }
}
