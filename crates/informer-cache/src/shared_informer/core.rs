use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use informer_core::Object;
use informer_core::panics::panic_text;
use informer_store::Indexer;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, Notify, watch};

use super::registration::{Attached, Joining};
use super::run::Lifecycle;
use crate::any_object::AnyObject;
use crate::metrics::{InformerMetrics, ProbeTarget};
use crate::processor::SharedProcessor;
use crate::pump::{Pump, PumpCounters};
use crate::queue::InOrderQueue;
use crate::reflector::Reflector;
use crate::sync::Unsynced;
use crate::{InformerCrash, InformerState, UndecodableLog};

/// The state shared by the handles, the runs and the tasks of one informer.
pub(super) struct InformerCore<O: Object> {
    pub(super) name: String,
    /// The source's description of the listed objects.
    pub(super) what: String,
    pub(super) indexer: Indexer<O>,
    pub(super) undecodable: UndecodableLog,
    pub(super) reflector: Reflector<O>,
    pub(super) queue: Arc<InOrderQueue<O>>,
    /// The pump and the processor of the informer. A run of the informer holds this lock from its start to
    /// its end, so that only one run at a time writes the cache.
    pub(super) core: Arc<AsyncMutex<Core<O>>>,
    pub(super) lifecycle: Mutex<Lifecycle>,
    /// All handlers and streams of the informer that were not removed, in the order of registration.
    pub(super) attached: Mutex<Vec<Arc<dyn Attached<O>>>>,
    pub(super) joining: Mutex<Vec<Joining<O>>>,
    /// Wakes the pump's task, so that it adds and removes listeners, after a change of `joining` and after
    /// the listener of a handler was closed.
    pub(super) handlers_changed: Notify,
    pub(super) synced: watch::Sender<bool>,
    /// The number of batches that the pump has applied. Tasks that wait for a state of the cache subscribe to
    /// it.
    pub(super) applied: watch::Sender<u64>,
    pub(super) counters: Mutex<PumpCounters>,
    /// The resync period of handlers that do not set their own.
    pub(super) resync: Option<Duration>,
    pub(super) next_handler: AtomicU64,
    /// Number of panics of the `InformerMetrics` implementation. The reflector counts panics of the source
    /// and of hooks.
    pub(super) panics: AtomicU64,
    pub(super) crashes: Mutex<Crashes>,
    pub(super) metrics: Option<Arc<dyn InformerMetrics>>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Crashes {
    pub(super) total: u64,
    /// The last panic of one of the informer's tasks. It is reset when the first list of the restarted tasks
    /// is in the cache.
    pub(super) last: Option<InformerCrash>,
}

pub(super) struct Core<O: Object> {
    pub(super) pump: Pump<O>,
    pub(super) processor: SharedProcessor<O>,
}

impl<O: Object> ProbeTarget for InformerCore<O> {
    fn state(&self) -> InformerState {
        Self::state(self)
    }

    fn request_relist(&self) {
        self.reflector.handle().request_consistent_relist();
    }

    fn get(&self, key: &str) -> Option<AnyObject> {
        self.indexer.get(key).map(|object| object as AnyObject)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&dyn Object)) {
        for (_, object) in self.indexer.snapshot().iter() {
            visit(&**object);
        }
    }
}

impl<O: Object> InformerCore<O> {
    pub(super) fn state(&self) -> InformerState {
        let crashes = self.crashes.lock().clone();
        let handlers = self.attached.lock().iter().map(|attached| attached.listener().state()).collect();
        InformerState {
            name: self.name.clone(),
            what: self.what.clone(),
            running: self.lifecycle.lock().is_running(),
            synced: *self.synced.borrow(),
            reflector: self.reflector.handle().status(),
            objects: self.indexer.len(),
            version: self.indexer.resource_version(),
            queue_depth: self.queue.depth(),
            counters: self.counters.lock().clone(),
            undecodable: self.undecodable.len(),
            undecodable_total: self.undecodable.total(),
            index_failures: self.indexer.index_failures().len(),
            panics: self.panics.load(Ordering::Relaxed) + self.reflector.panics(),
            crash: crashes.last,
            crashes: crashes.total,
            handlers,
        }
    }

    /// Reports a processed batch to the metrics. The metrics are user code, so a panic in them is caught and
    /// does not end the pump.
    pub(super) fn report_processed(&self, changes: usize, took: Duration) {
        let Some(metrics) = &self.metrics else { return };
        let reported = catch_unwind(AssertUnwindSafe(|| metrics.processed(&self.name, changes, took)));
        if let Err(panic) = reported {
            self.panics.fetch_add(1, Ordering::Relaxed);
            let (informer, panic) = (&self.name, panic_text(&*panic));
            tracing::error!(
                informer,
                panic,
                "the metrics of an informer panicked; continuing with the next batch"
            );
        }
    }

    pub(super) fn unsynced(&self) -> Unsynced {
        let lifecycle = self.lifecycle.lock().word();
        let status = self.reflector.handle().status();
        let crash = self.crashes.lock().last.clone();
        let doing = match (lifecycle, &crash) {
            ("running", Some(_)) => "restarting after a panic of its own tasks".to_owned(),
            ("running", None) => crate::sync::doing(status.phase).to_owned(),
            (other, _) => other.to_owned(),
        };
        let error = crash.map(|crash| format!("panic: {}", crash.panic));
        let error = error.or_else(|| status.last_error.map(|error| error.to_string()));
        Unsynced::new(format!("informer {} ({})", self.name, self.what), doing, error)
    }
}
