use std::time::{Duration, Instant};

use informer_core::ResourceVersion;

use crate::HandlerState;
use crate::pump::PumpCounters;
use crate::reflector::ReflectorStatus;

/// Everything that there is to know about an informer at one moment. No object's content is in it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InformerState {
    /// The informer's name.
    pub name: String,
    /// What is listed and watched.
    pub what: String,
    /// True between start and stop.
    pub running: bool,
    /// True once the first list of the run is in the cache.
    pub synced: bool,
    /// What the reflector does, its last error, its requests by kind and reason.
    pub reflector: ReflectorStatus,
    /// Objects in the cache.
    pub objects: usize,
    /// The version of the last list, event or bookmark in the cache.
    pub version: ResourceVersion,
    /// Changes that were read from the source and wait for the pump.
    pub queue_depth: usize,
    /// What the pump has seen; among it the bytes held.
    pub counters: PumpCounters,
    /// Objects that could not be read.
    pub undecodable: usize,
    /// How many objects could not be read, over time.
    pub undecodable_total: u64,
    /// Index functions that failed on some object.
    pub index_failures: usize,
    /// Panics that were contained: of the source, of a hook of the reflector or of the metrics.
    pub panics: u64,
    /// The panic that ended the informer's own tasks, until the next first list is in the cache. Until then the informer is not
    /// [synced](Self::synced), and reads show the last state. The tasks are restarted after a wait.
    pub crash: Option<InformerCrash>,
    /// How often the informer's own tasks have panicked.
    pub crashes: u64,
    /// The handlers, in the order in which they came.
    pub handlers: Vec<HandlerState>,
}

/// A panic of an informer's own tasks: the one that writes the cache, or the one that reads the source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InformerCrash {
    /// The message of the panic.
    pub panic: String,
    /// When the tasks panicked, by the clock of the runtime.
    pub at: Instant,
    /// When the tasks are restarted.
    pub restart_at: Instant,
}

impl InformerState {
    /// How long ago the source last gave a new version: an event, a bookmark or a list. `None` before the first.
    pub fn version_age(&self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.reflector.last_version_at?))
    }
}
