//! The server as a value: how it is built, and what the embedding program can do with it.

mod bootstrap;
mod builder;
mod listen;
mod load;
mod objects;
mod snapshot;

use std::sync::Arc;
use std::time::Duration;

use informer_core::Gvr;
use tokio::sync::watch;

pub use builder::ApiServerBuilder;
pub use load::LoadError;
pub use objects::RawWriter;
pub use snapshot::{RestoreError, Snapshot, SnapshotError};

use crate::faults::Faults;
use crate::http::{ApiService, Frontend};
use crate::model::kinds::Kind;
use crate::registry::Resource;
use crate::requests::{RequestRecord, Verb};
use crate::webhook::Webhooks;

/// A Kubernetes API server inside this process. A clone is another handle to the same server.
///
/// It is reached in three ways that lead to the same state: by [`listen`](Self::listen) over HTTP, by
/// [`service`](Self::service) without a socket, and by its own methods. The methods default and validate objects as
/// requests do, but they keep `status`, do not need an existing namespace, and delete at once. They return after the
/// [controllers](Controllers) have finished the work that follows from the write; a request does not wait for that. Admission does not apply to
/// them: no webhook, policy, quota or admission plugin rejects or changes these objects, except that pods get their default
/// tolerations. [`raw`](Self::raw) also stores broken objects.
///
/// ```
/// use informer_apiserver::{ApiServer, Verb};
/// use informer_core::Gvr;
/// use serde_json::json;
///
/// let server = ApiServer::builder().build();
/// let maps = Gvr::new("", "v1", "configmaps");
/// server.create(&maps, "default", json!({"metadata": {"name": "settings"}, "data": {"a": "1"}}))?;
/// assert_eq!(server.get(&maps, "default", "settings")?["data"]["a"], "1");
/// assert_eq!(server.count_requests(Verb::Get, "configmaps"), 0, "only requests over HTTP are counted");
/// # Ok::<(), informer_apiserver::ApiError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ApiServer {
    pub(crate) shared: Arc<Frontend>,
}

impl ApiServer {
    /// Serves another kind from now on. One that is there under the same resource is replaced; its objects go.
    pub fn register(&self, kind: Kind) {
        let mut registry = self.shared.registry.write();
        // Events are one kind under two groups, autoscalers one in two versions.
        let core = match (kind.gvr.version.as_str(), kind.gvr.resource.as_str()) {
            _ if kind.is("events.k8s.io", "Event") => Some(Gvr::new("", "v1", "events")),
            ("v1", plural) if kind.is("autoscaling", "HorizontalPodAutoscaler") => {
                Some(Gvr::new("autoscaling", "v2", plural))
            }
            _ => None,
        };
        let core = core.map(|core| registry.get(&core));
        let resource = match core.flatten() {
            Some(core) => Resource {
                kind,
                table: core.table,
                changed: core.changed.clone(),
                stored_as: Some(Arc::new(core.kind.clone())),
                converter: None,
            },
            None => {
                let table = self.shared.storage.write().add_table();
                Resource { kind, table, changed: watch::Sender::default(), stored_as: None, converter: None }
            }
        };
        registry.add(resource);
    }

    /// Whether a group and version, as `apps/v1` or `v1`, are served.
    pub fn serves(&self, group_version: &str) -> bool {
        self.shared.registry.read().iter().any(|resource| resource.kind.api_version == group_version)
    }

    /// The server as a `tower::Service`, for clients in this process: no socket, and paused time works.
    pub fn service(&self) -> ApiService {
        ApiService::new(Arc::clone(&self.shared))
    }

    /// How webhooks are reached: of admission, by their stored configurations, and of conversion.
    pub fn webhooks(&self) -> &Webhooks {
        &self.shared.webhooks
    }

    /// The rules by which requests go wrong.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// The authenticated requests so far, the oldest first: at most the last 100,000, and at most 64 MiB of them.
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.shared.requests.all()
    }

    /// How often a verb was used on a resource.
    pub fn count_requests(&self, verb: Verb, resource: &str) -> usize {
        self.shared.requests.count(verb, resource)
    }

    /// The version of the last write.
    pub fn version(&self) -> u64 {
        self.shared.storage.read().version()
    }

    /// What the server keeps in memory. It looks at every object.
    pub fn usage(&self) -> Usage {
        let (objects, object_bytes, history_bytes) = self.shared.storage.read().usage();
        Usage { objects, object_bytes, history_bytes, protobuf_bytes: self.shared.wires.get() }
    }

    /// Moves the server's [clock](ApiServerBuilder::clock) ahead, as if so much time had passed: watches come to their bookmarks and
    /// deadlines, events and tokens expire, requests and connections come to their limits. The time of its clients is not moved.
    ///
    /// ```
    /// # use informer_apiserver::ApiServer;
    /// # use informer_core::Gvr;
    /// # use serde_json::json;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let events = Gvr::new("", "v1", "events");
    /// let server = ApiServer::builder().build();
    /// server.create(&events, "default", json!({"metadata": {"name": "started"}, "reason": "Started"}))?;
    /// server.advance(Duration::from_secs(60 * 60));
    /// assert!(server.list(&events, "default")?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn advance(&self, by: Duration) {
        self.shared.clock.advance(by);
        self.shared.expire();
    }

    /// Waits until the server's [controllers](Controllers) have finished the work that follows from earlier writes: dependents of deleted
    /// owners and contents of deleted namespaces are deleted, unless finalizers hold them.
    ///
    /// Requests do not wait for that, as with a real server; writes by the methods of this type do. It is cancel safe.
    ///
    /// ```
    /// # use informer_apiserver::ApiServer;
    /// # use informer_core::Gvr;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = ApiServer::builder().build();
    /// let namespaces = Gvr::new("", "v1", "namespaces");
    /// server.create(&namespaces, "", json!({"metadata": {"name": "shop"}}))?;
    /// // A client of the server deletes the namespace here: it is terminating at first.
    /// server.controllers_idle().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn controllers_idle(&self) {
        self.shared.run_controllers();
        self.shared.queues.idle().await;
    }

    /// Forgets the history up to now: watches and exact lists from before it get 410.
    pub fn compact(&self) {
        let mut storage = self.shared.storage.write();
        let version = storage.version();
        storage.compact(version);
    }

    /// Jumps ahead to a version, as after a restore that makes all versions new.
    pub fn skip_to(&self, version: u64) {
        self.shared.storage.write().skip_to(version);
        self.shared.announce_version();
    }

    /// Goes back to the state of an earlier version, versions included, as after a restore from a backup: the same
    /// versions will come again for other changes. Ends every watch.
    ///
    /// # Errors
    ///
    /// When the history does not reach back that far.
    pub fn rewind(&self, version: u64) -> Result<(), RewindError> {
        let mut storage = self.shared.storage.write();
        storage.rewind(version).map_err(|old| RewindError { version, floor: old.floor })?;
        drop(storage);
        self.shared.clear_version_caches();
        self.shared.announce_everything();
        Ok(())
    }

    /// Ends every open watch properly, as a restart of the server does.
    pub fn disconnect_watchers(&self) {
        self.shared.end_watches();
    }
}

/// What a server keeps in memory; see [`ApiServer::usage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Objects of all kinds.
    pub objects: usize,
    /// Their bytes as JSON.
    pub object_bytes: usize,
    /// What the [history](crate::History) may keep beside them, as its bounds count it.
    pub history_bytes: usize,
    /// Bytes of protobuf, of objects and of the history: each version is written when the first client asks for it, and kept.
    pub protobuf_bytes: usize,
}

/// The history does not reach back to a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot rewind to version {version}: the history begins at {floor}; keep a longer one")]
pub struct RewindError {
    version: u64,
    floor: u64,
}
