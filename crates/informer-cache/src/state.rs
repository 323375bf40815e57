use std::time::{Duration, Instant};

use informer_core::ResourceVersion;

use crate::HandlerState;
use crate::pump::PumpCounters;
use crate::reflector::ReflectorStatus;

/// The state of an informer at one moment. It does not contain the content of objects.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InformerState {
    /// The name of the informer.
    pub name: String,
    /// A description of the listed and watched objects, for example `pods in namespace default`.
    pub what: String,
    /// True from the start of the informer until its stop.
    pub running: bool,
    /// True once the cache contains the first list of the informer's current run.
    pub synced: bool,
    /// The status of the informer's reflector: its phase, its last error, and its requests by kind and
    /// reason.
    pub reflector: ReflectorStatus,
    /// Number of objects in the informer's cache.
    pub objects: usize,
    /// The resourceVersion of the last list, event or bookmark in the cache.
    pub version: ResourceVersion,
    /// Number of changes that were read from the source and not processed by the pump yet.
    pub queue_depth: usize,
    /// The counters of the pump, including the bytes of the cached objects.
    pub counters: PumpCounters,
    /// Number of objects whose current state could not be decoded.
    pub undecodable: usize,
    /// Number of received object states that could not be decoded, since the informer was created. Unlike
    /// [`undecodable`](Self::undecodable), it never decreases.
    pub undecodable_total: u64,
    /// Number of index functions that failed for some object.
    pub index_failures: usize,
    /// Number of panics of the source, of the reflector's hooks, and of the metrics. All these panics were
    /// caught, and the informer continued.
    pub panics: u64,
    /// The panic that ended the informer's own tasks. It is reset when the cache contains the first list of
    /// the restarted tasks. Until then the informer is not [synced](Self::synced), and reads return the last
    /// state. The tasks are restarted after a backoff.
    pub crash: Option<InformerCrash>,
    /// How often the informer's own tasks have panicked.
    pub crashes: u64,
    /// The states of the informer's handlers, in the order of registration.
    pub handlers: Vec<HandlerState>,
}

/// A panic of one of the informer's own tasks: the writer of the cache or the reader of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InformerCrash {
    /// The message of the panic.
    pub panic: String,
    /// The time of the panic, by the clock of the tokio runtime.
    pub at: Instant,
    /// The time at which the informer restarts its own tasks after this panic, by the clock of the tokio
    /// runtime.
    pub restart_at: Instant,
}

impl InformerState {
    /// Returns the time since the source last reported a new resourceVersion by an event, a bookmark or a
    /// list. Returns `None` before the first such version.
    pub fn version_age(&self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.reflector.last_version_at?))
    }
}
