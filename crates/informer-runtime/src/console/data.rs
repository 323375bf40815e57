//! The types of the data of the console.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The state of all parts of a manager.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConsoleSnapshot {
    /// The version of the data, which is 1. Fields may be added to a version.
    pub version: u64,
    /// The [`ManagerStatus`](crate::ManagerStatus), such as `Running`.
    pub manager: String,
    /// The process.
    pub process: ProcessSnapshot,
    /// The informers, in the order in which they were created.
    pub informers: Vec<InformerSnapshot>,
    /// The work queues.
    pub queues: Vec<QueueSnapshot>,
    /// The controllers.
    pub controllers: Vec<ControllerSnapshot>,
    /// The elections and the members of shard groups.
    pub leases: Vec<LeaseSnapshot>,
    /// The requests of the client of the manager.
    pub client: ClientSnapshot,
    /// The numbers of parts that are not in the snapshot, because there are too many.
    pub omitted: OmittedParts,
    /// The actions of the console over HTTP; `None` if they are not allowed, or if the server has no
    /// authorization and does not listen on a loopback address.
    pub actions: Option<ActionsSnapshot>,
    /// True if the console over HTTP shows the cached objects. False by default, and if the server has no
    /// authorization and does not listen on a loopback address.
    pub shows_objects: bool,
}

/// The actions that users of the console may run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ActionsSnapshot {
    /// The value of the header `X-Informer-Token` that an action needs. It protects from pages of other
    /// sites, and grants no permission.
    pub token: String,
}

/// The process of a manager.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProcessSnapshot {
    /// The version of this library.
    pub library: String,
    /// The name of the program, see [`program_name`](informer_client::program_name).
    pub program: String,
    /// The host name, which is usually the name of the Pod; `None` on systems without `/proc`.
    pub host: Option<String>,
    /// The process id.
    pub pid: u32,
    /// The time since the console was added to the manager.
    pub uptime_seconds: f64,
    /// The number of tasks of the tokio runtime.
    pub tasks: usize,
    /// The number of worker threads of the tokio runtime.
    pub threads: usize,
    /// The resident memory; `None` on systems without `/proc`.
    pub resident_bytes: Option<u64>,
}

/// The state of an informer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct InformerSnapshot {
    /// The resource, the scope and the representation, such as `pods.v1 namespace=a form=Metadata`.
    pub name: String,
    /// A description of the source.
    pub what: String,
    /// True while the informer runs.
    pub running: bool,
    /// True once the initial list is in the cache.
    pub synced: bool,
    /// The phase of the reflector, such as `Watching`.
    pub phase: String,
    /// The resourceVersion up to which the cache follows the server.
    pub version: String,
    /// The time since the server sent this version.
    pub version_age_seconds: Option<f64>,
    /// The last error of a request.
    pub last_error: Option<String>,
    /// The number of failed requests since the last success.
    pub failures: u64,
    /// True if the last request failed with 404, because the server does not serve the kind: its CRD or
    /// APIService is missing, or the server does not serve this version.
    pub not_served: bool,
    /// The time until the next attempt, while the reflector backs off.
    pub next_attempt_seconds: Option<f64>,
    /// The number of list requests.
    pub lists: u64,
    /// The number of lists by reason, such as `first`.
    pub relists: BTreeMap<String, u64>,
    /// The number of watch events.
    pub events: u64,
    /// The number of watches that were opened.
    pub watches: u64,
    /// The number of resyncs.
    pub resyncs: u64,
    /// The number of lists that were older than the cache.
    pub stale_lists: u64,
    /// The number of times when the server lost its newest versions.
    pub rewound: u64,
    /// The number of cached objects.
    pub objects: u64,
    /// The memory of the cached objects in bytes.
    pub bytes: u64,
    /// The number of changes that were applied to the cache.
    pub changes: u64,
    /// The number of changes that wait for the cache.
    pub queued: u64,
    /// The number of objects that the server has now and that cannot be decoded.
    pub undecodable: u64,
    /// The number of objects that could not be decoded so far.
    pub undecodable_total: u64,
    /// The number of failed calls of index functions.
    pub index_failures: u64,
    /// The number of panics of handlers and of the functions of the informer.
    pub panics: u64,
    /// The panic after which the informer restarts.
    pub crash: Option<String>,
    /// The number of such panics.
    pub crashes: u64,
    /// The handlers.
    pub handlers: Vec<HandlerSnapshot>,
}

/// The state of a handler of an informer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct HandlerSnapshot {
    /// The name of the handler.
    pub name: String,
    /// True once the handler has received the initial list.
    pub synced: bool,
    /// The number of events that wait for the handler.
    pub depth: u64,
    /// The largest number of events that waited so far.
    pub depth_max: u64,
    /// The number of calls.
    pub calls: u64,
    /// The number of panics.
    pub panics: u64,
    /// The number of polls that blocked the thread of the runtime for too long.
    pub blocked: u64,
    /// The sum of the durations of the calls.
    pub seconds_total: f64,
    /// The numbers of calls by duration, shortest first, without empty buckets.
    pub latency: Vec<LatencyBucket>,
}

/// The number of calls of a handler that took some time, from the delivery of an event until the handler has
/// returned. The bounds are the same for all handlers, about three per power of ten.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct LatencyBucket {
    /// The longest duration of a call in this bucket; `None` if it has no bound.
    pub up_to_seconds: Option<f64>,
    /// The number of calls that are in this bucket, and not in one of shorter durations.
    pub calls: u64,
}

impl HandlerSnapshot {
    /// Returns the bound of the bucket that contains a quantile of the durations, such as 0.99. Returns
    /// infinity for the bucket without a bound, and `None` without calls.
    pub fn latency_quantile(&self, quantile: f64) -> Option<f64> {
        let calls: u64 = self.latency.iter().map(|bucket| bucket.calls).sum();
        // At least one call counts, so that the quantile 0 is the bound of the shortest call.
        let rank = (calls as f64 * quantile).ceil().max(1.0);
        let mut counted = 0;
        let found = self.latency.iter().find(|bucket| {
            counted += bucket.calls;
            counted as f64 >= rank
        });
        found.map(|bucket| bucket.up_to_seconds.unwrap_or(f64::INFINITY))
    }
}

/// The state of a work queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct QueueSnapshot {
    /// The name of the queue, which is that of its controller.
    pub name: String,
    /// The number of keys that a worker can take.
    pub ready: u64,
    /// The number of keys that wait for a delay.
    pub waiting: u64,
    /// The number of keys that workers process.
    pub processing: u64,
    /// The sum of the times since the processed keys were taken.
    pub unfinished_seconds: f64,
    /// The time since the first of the processed keys was taken.
    pub longest_seconds: f64,
    /// The time since the oldest of the ready keys became ready.
    pub oldest_seconds: f64,
    /// The numbers of ready keys by priority and group.
    pub depths: Vec<QueueDepthSnapshot>,
    /// The number of ready keys that are not in `depths`.
    pub other_depths: u64,
    /// True if the order of the queue failed and FIFO replaced it.
    pub order_failed: bool,
    /// The number of added keys.
    pub added: u64,
    /// The number of retried keys.
    pub retries: u64,
    /// The number of keys that workers have taken.
    pub started: u64,
    /// The sum of the times that these keys were ready before.
    pub queued_seconds_total: f64,
    /// The number of processed keys.
    pub done: u64,
    /// The sum of the times that these keys were processed.
    pub worked_seconds_total: f64,
}

/// The number of ready keys of one priority and group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct QueueDepthSnapshot {
    /// The priority; `None` for a queue without priorities.
    pub priority: Option<i64>,
    /// The group; `None` for a queue without groups.
    pub group: Option<String>,
    /// The number of ready keys.
    pub ready: u64,
}

/// The state of a controller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ControllerSnapshot {
    /// The name of the controller.
    pub name: String,
    /// The reconciled kind; empty for a controller without one.
    pub kind: String,
    /// The [`ControllerPhase`](crate::ControllerPhase).
    pub phase: String,
    /// The number of workers.
    pub workers: u64,
    /// The number of workers that reconcile now.
    pub active: u64,
    /// The numbers of reconciles by result.
    pub results: ReconcileResults,
    /// The number of keys whose last reconcile failed, at most 10,000, with those that wait for their next
    /// attempt and those whose error is not retried; `None` if the program does not count them.
    pub failing: Option<u64>,
    /// The time for which the first of these keys has been failing; `None` without such a key.
    pub failing_seconds: Option<f64>,
    /// The number of errors that are not retried.
    pub terminal_errors: u64,
    /// The number of reconciles that panicked.
    pub panics: u64,
    /// The number of reconciles that timed out.
    pub timeouts: u64,
    /// The number of panics of event handlers and predicates.
    pub trigger_panics: u64,
    /// The names of the sources.
    pub sources: Vec<String>,
    /// The sources with the kinds that they watch, in the same order.
    pub watches: Vec<WatchSnapshot>,
    /// The writes that reconciles have requested with the client of their context.
    pub writes: Vec<WriteSnapshot>,
    /// Some of the running reconciles.
    pub running: Vec<ReconcileSnapshot>,
    /// The shard of a sharded controller.
    pub shard: Option<ShardSnapshot>,
}

/// A source of a controller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct WatchSnapshot {
    /// The relation to the reconciled kind: `for`, `owns` or `watches`, or `source` for a source that is no
    /// kind.
    pub role: String,
    /// The name of the source.
    pub source: String,
    /// The watched resource, such as `deployments.apps/v1`; empty for a source that does not watch a kind.
    pub resource: String,
    /// The names of the informers, one for each namespace of a cache with several; empty before the source
    /// has started, and for informers of several clusters.
    pub informers: Vec<String>,
}

/// The writes of a controller with one verb and resource.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct WriteSnapshot {
    /// The verb, such as `patch`; `other` for the writes that are counted together.
    pub verb: String,
    /// The resource, such as `deployments.apps/v1`; empty for the writes that are counted together, because
    /// there are more than 64 combinations of verb, resource and subresource.
    pub resource: String,
    /// The subresource, such as `status`; empty for the object itself.
    pub subresource: String,
    /// The number of requests that have ended, including repeated ones. Dry runs are not counted, and neither
    /// is a request whose reconcile was cancelled while it ran.
    pub count: u64,
    /// The number of those requests that failed.
    pub failed: u64,
}

/// The numbers of ended reconciles by result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ReconcileResults {
    /// Reconciles that are done.
    pub success: u64,
    /// Reconciles that failed.
    pub error: u64,
    /// Reconciles that have requested another one with backoff.
    pub requeue: u64,
    /// Reconciles that have requested another one after a delay.
    pub requeue_after: u64,
}

/// The shard of a sharded controller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ShardSnapshot {
    /// True while this replica is a member of the group.
    pub active: bool,
    /// The number of members.
    pub members: u64,
    /// The number of keys that belong to other members.
    pub refused: u64,
    /// The number of keys of other members that are kept for a change of the members.
    pub remembered: u64,
    /// The number of writes that were refused because the key belongs to another member.
    pub writes_refused: u64,
}

/// A running or ended reconcile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReconcileSnapshot {
    /// A string that identifies the reconcile; empty for a running reconcile that is not recorded.
    pub id: String,
    /// The name of the controller; empty within a controller.
    pub controller: String,
    /// The reconciled request, such as the key of an object.
    pub request: String,
    /// The causes, oldest first.
    pub causes: Vec<String>,
    /// The number of further causes.
    pub omitted: u64,
    /// The time between the first cause and the start.
    pub waited_seconds: Option<f64>,
    /// The time since the start.
    pub began_seconds_ago: f64,
    /// The duration; `None` while the reconcile runs.
    pub seconds: Option<f64>,
    /// The result: `success`, `error`, `requeue` or `requeue_after`.
    pub result: Option<String>,
    /// The error.
    pub error: Option<String>,
}

/// An election or a member of a shard group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct LeaseSnapshot {
    /// `leader-election` or `shard`.
    pub kind: String,
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The identity of this process.
    pub identity: String,
    /// True while this process leads or is a member.
    pub active: bool,
    /// The identity of the holder.
    pub holder: Option<String>,
    /// The number of failed requests so far.
    pub failures: u64,
    /// The time for which all requests have failed; `None` if the last one succeeded.
    pub failing_seconds: Option<f64>,
    /// The error of the last request; `None` if it succeeded.
    pub last_error: Option<String>,
}

/// The requests of a client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientSnapshot {
    /// The host and port of the API server.
    pub server: String,
    /// The requests by verb and status code.
    pub requests: Vec<RequestTotals>,
}

/// The number of requests with one verb and status code.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct RequestTotals {
    /// The verb, such as `get`.
    pub verb: String,
    /// The status code; 0 for a request without a response.
    pub code: u16,
    /// The number of requests.
    pub count: u64,
    /// The sum of their durations.
    pub seconds: f64,
}

/// The numbers of parts that are not in a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct OmittedParts {
    /// Informers.
    pub informers: u64,
    /// Queues.
    pub queues: u64,
    /// Controllers.
    pub controllers: u64,
    /// Leases.
    pub leases: u64,
}

/// A snapshot, and the reconciles that ended after the last event of the same reader.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConsoleEvent {
    /// The snapshot.
    #[serde(flatten)]
    pub snapshot: ConsoleSnapshot,
    /// The newest ended reconciles, oldest first for each controller: at most 500 of a controller and
    /// 2,000 in total. The first event contains earlier ones.
    pub reconciles: Vec<ReconcileSnapshot>,
    /// The number of reconciles that ended after the last event and are not in `reconciles`.
    pub dropped: u64,
}

/// The causes and reconciles of one key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct KeyHistory {
    /// The version of the data, which is 1.
    pub version: u64,
    /// The key.
    pub key: String,
    /// The controllers that know the key.
    pub controllers: Vec<ControllerHistory>,
}

/// The causes and reconciles of one key in one controller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ControllerHistory {
    /// The name of the controller.
    pub controller: String,
    /// The causes for which the key is queued.
    pub queued: Option<QueuedCauses>,
    /// The running reconciles that have the key as request or as cause.
    pub running: Vec<ReconcileSnapshot>,
    /// The ended ones among the last 1,000 recorded reconciles, oldest first.
    pub reconciles: Vec<ReconcileSnapshot>,
}

/// The causes for which a key is queued.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct QueuedCauses {
    /// The time since the first cause.
    pub age_seconds: f64,
    /// The causes, oldest first.
    pub causes: Vec<String>,
    /// The number of further causes.
    pub omitted: u64,
}
