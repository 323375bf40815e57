//! The public API of the embedded server.

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
pub use objects::{ObjectChange, RawWriter};
pub use snapshot::{RestoreError, Snapshot, SnapshotError};

use crate::faults::Faults;
use crate::http::{ApiService, Frontend};
use crate::model::kinds::KindDefinition;
use crate::model::user::User;
use crate::registry::Resource;
use crate::registry::storage::StorageUsage;
use crate::requests::{RequestRecord, Verb};
use crate::webhook::Webhooks;

/// An embedded Kubernetes API server. Clones are handles to the same server.
///
/// There are three ways to access the same state:
///
/// - HTTP requests over a socket: [`listen`](Self::listen) and [`listen_tls`](Self::listen_tls);
/// - HTTP requests without a socket: [`service`](Self::service);
/// - methods of this type, for the test itself.
///
/// The methods default and validate objects like requests, with these differences:
///
/// - They write `status`, do not require the namespace to exist, and delete without a grace period.
/// - They return after the [controllers](crate::Controllers) have finished the work that the write causes. A
///   request does not wait for the controllers.
/// - The methods skip admission: no webhook, policy, quota or admission plugin rejects or changes the object.
///   Only the default tolerations are added to pods.
///
/// [`raw`](Self::raw) also stores invalid objects.
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
    /// Registers a kind. Replaces the kind with the same resource and deletes its objects.
    pub fn register(&self, kind: KindDefinition) {
        let mut registry = self.shared.registry.write();
        // The kinds Event and HorizontalPodAutoscaler have two API versions that share one table.
        let core =
            kind.descriptor.stored_as.map(|(group, version)| Gvr::new(group, version, &kind.gvr.resource));
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

    /// Returns true if the server has a group version, for example `apps/v1` or `v1`.
    pub fn serves(&self, group_version: &str) -> bool {
        self.shared.registry.read().iter().any(|resource| resource.kind.api_version == group_version)
    }

    /// Returns the server as a `tower::Service`, for clients in this process. The service needs no socket and
    /// works with paused time.
    pub fn service(&self) -> ApiService {
        ApiService::new(Arc::clone(&self.shared))
    }

    /// Returns the [service](Self::service) for one user: all requests are authenticated as this user. With
    /// [RBAC](ApiServerBuilder::rbac), the server allows only what the roles of the user grant.
    ///
    /// ```
    /// use informer_apiserver::{ApiServer, User};
    ///
    /// let server = ApiServer::builder().rbac(true).build();
    /// let service = server.service_as(User::new("alice").groups(["developers"]));
    /// # drop(service);
    /// ```
    pub fn service_as(&self, user: User) -> ApiService {
        self.service().with_user(user)
    }

    /// Returns the network routes to admission and conversion webhooks.
    pub fn webhooks(&self) -> &Webhooks {
        &self.shared.webhooks
    }

    /// Returns the fault rules.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Returns the logged requests, oldest first.
    ///
    /// The log contains authenticated requests only. It keeps at most the last 100,000 requests and 64 MiB.
    /// If the [number](RequestRecord::number) of the first one is greater than 1, earlier ones were removed.
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.shared.requests.all()
    }

    /// Returns the number of logged requests with this verb and plural resource name.
    pub fn count_requests(&self, verb: Verb, resource: &str) -> usize {
        self.shared.requests.count(verb, resource)
    }

    /// Returns the resourceVersion of the last write.
    pub fn version(&self) -> u64 {
        self.shared.storage.read().version()
    }

    /// Returns a receiver of the resourceVersion of the last write, which is notified after each write. A
    /// test can wait for a condition without polling, and without a watch request that faults could affect.
    ///
    /// ```
    /// # use informer_apiserver::ApiServer;
    /// # use informer_core::Gvr;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = ApiServer::builder().build();
    /// let (mut version, maps) = (server.watch_version(), Gvr::new("", "v1", "configmaps"));
    /// server.create(&maps, "default", json!({"metadata": {"name": "settings"}}))?;
    /// version.changed().await?;
    /// assert_eq!(*version.borrow(), server.version());
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch_version(&self) -> watch::Receiver<u64> {
        self.shared.version.subscribe()
    }

    /// Returns the memory usage of the stored objects. This call takes time proportional to the number of
    /// objects.
    pub fn usage(&self) -> Usage {
        let StorageUsage { objects, object_bytes, history_bytes } = self.shared.storage.read().usage();
        Usage { objects, object_bytes, history_bytes, protobuf_bytes: self.shared.wires.get() }
    }

    /// Moves the server's [clock](ApiServerBuilder::clock) forward, as if `by` had passed.
    ///
    /// Watches send bookmarks and reach their deadlines, Events and tokens expire, and requests and
    /// connections time out. The clocks of clients do not change.
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
        self.shared.advance(by);
    }

    /// Waits until the [controllers](crate::Controllers) have finished the work that earlier writes caused.
    /// They delete the dependents of deleted owners and the contents of deleted namespaces, except for
    /// objects with finalizers.
    ///
    /// Requests do not wait for the controllers, as in a real cluster. Writes by the methods of this type do
    /// wait. Cancel safe.
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
    /// // A client deletes the namespace here. It is terminating until the controllers have finished.
    /// server.controllers_idle().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn controllers_idle(&self) {
        self.shared.run_controllers();
        self.shared.queues.idle().await;
    }

    /// Discards the event history, like an etcd compaction. Watches and exact lists from an earlier version
    /// get 410.
    pub fn compact(&self) {
        self.shared.compact();
    }

    /// Increases the resourceVersion to `version`, as a restore with `etcdutl snapshot restore
    /// --bump-revision` does.
    pub fn skip_to(&self, version: u64) {
        self.shared.storage.write().skip_to(version);
        self.shared.announce_version();
    }

    /// Restores the objects at an earlier resourceVersion, and this resourceVersion itself, as a restore from
    /// a backup does.
    ///
    /// Later resourceVersions will be used a second time, for other changes. All watches end.
    ///
    /// # Errors
    ///
    /// Returns an error if the version is older than the history.
    pub fn rewind(&self, version: u64) -> Result<(), RewindError> {
        self.shared.rewind(version).map_err(|old| RewindError { version, floor: old.floor })
    }

    /// Ends all open watches normally, as a graceful restart of the server does.
    pub fn disconnect_watchers(&self) {
        self.shared.end_watches();
    }
}

/// The memory usage of a server; see [`ApiServer::usage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// The number of stored objects of all kinds.
    pub objects: usize,
    /// The size in bytes of the stored objects as JSON.
    pub object_bytes: usize,
    /// The size in bytes of the event history, as counted for the limits of [`History`](crate::History).
    pub history_bytes: usize,
    /// The size in bytes of the cached protobuf encodings of objects and history. A state of an object is
    /// encoded when the first client requests it.
    pub protobuf_bytes: usize,
}

/// The error of [`ApiServer::rewind`]: the requested resourceVersion is older than the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot rewind to version {version}: the history begins at {floor}; increase its limits")]
pub struct RewindError {
    version: u64,
    floor: u64,
}
