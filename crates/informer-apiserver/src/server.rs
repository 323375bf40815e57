//! The server as a value: its parts, how it is built, and how programs write to it.
//!
//! # Lock order
//!
//! `allocating`, then `registry`, then `storage`; of the last two neither is held while the other parts are called, nor over an await. Watchers take
//! `storage` for reading and only to copy references.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use informer_core::{Gvr, ObjectKey};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::watch;

use crate::admission::HookCache;
use crate::auth::{Access, PolicyCache, Tokens, write_bootstrap_policy};
use crate::clock::{Clock, TokioClock};
use crate::error::ApiError;
use crate::expiry::Expiry;
use crate::faults::Faults;
use crate::http::ApiService;
use crate::kinds::{Kind, Registry, Resource, built_in};
use crate::list::FRESHNESS_WAIT;
use crate::requests::{RequestLog, RequestRecord, Verb};
use crate::select::Filter;
use crate::storage::{EventType, History, Storage, WireBytes, Wiring};
use crate::tls::ClientCa;
use crate::webhook::Webhooks;
use crate::write::{DeleteOptions, Scope, WriteMode};

/// Objects written under one lock by a bulk load: readers wait for at most one batch.
const LOAD_BATCH: usize = 512;

/// How long events stay after they were written last, as upstream.
const EVENT_TTL: Duration = Duration::from_secs(60 * 60);

/// What happens to a watcher that falls behind the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lagging {
    /// Its stream ends properly, and the watch that follows gets the 410: as upstream.
    #[default]
    Ended,
    /// It gets the 410 as its last event.
    Expired,
}

/// Everything that requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) storage: RwLock<Storage>,
    pub(crate) registry: RwLock<Registry>,
    /// The version of the last commit, for reads that wait for one.
    version: watch::Sender<u64>,
    pub(crate) faults: Faults,
    pub(crate) requests: RequestLog,
    pub(crate) lagging: Lagging,
    pub(crate) require_namespaces: bool,
    pub(crate) controllers: Controllers,
    pub(crate) access: Access,
    /// Discovery is answered in one piece to clients that ask for it.
    pub(crate) aggregated_discovery: bool,
    /// Large answers are compressed for clients that ask for it.
    pub(crate) compression: bool,
    pub(crate) policy: PolicyCache,
    /// How webhooks are reached.
    pub(crate) webhooks: Webhooks,
    pub(crate) hooks: HookCache,
    /// What the built-in kinds are made of.
    pub(crate) schema: informer_schema::Schema,
    /// How much protobuf is kept.
    wires: WireBytes,
    pub(crate) expiry: Expiry,
    /// Held by writes of services from the choice of addresses and ports until they are stored: no two choose the same.
    pub(crate) allocating: Mutex<()>,
    /// Namespaces and definitions that somebody is emptying right now.
    pub(crate) settling: Mutex<HashSet<String>>,
}

/// Which of the cluster's own controllers are played by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Controllers {
    /// Empties namespaces that are deleted, and lets them go. Without it they stay `Terminating`, as beside a real
    /// kube-apiserver without kube-controller-manager.
    pub namespaces: bool,
    /// Deletes what deleted owners leave behind, and does what `propagationPolicy` asks for.
    pub garbage: bool,
    /// Gives ClusterRoles with an `aggregationRule` the rules of the roles that they select.
    pub roles: bool,
}

impl Controllers {
    /// None of them, as in envtest.
    pub const NONE: Self = Self { namespaces: false, garbage: false, roles: false };
}

impl Default for Controllers {
    /// All of them.
    fn default() -> Self {
        Self { namespaces: true, garbage: true, roles: true }
    }
}

/// A Kubernetes API server inside this process. A clone is another handle to the same server.
///
/// It is reached in three ways that lead to the same state: by [`listen`](Self::listen) over HTTP, by
/// [`service`](Self::service) without a socket, and by its own methods. The methods write as an administrator with
/// direct access would: they keep `status`, need no namespace, and delete at once.
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
    pub(crate) shared: Arc<Shared>,
}

/// How a server is made; see [`ApiServer::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct ApiServerBuilder {
    clock: Option<Arc<dyn Clock>>,
    history: History,
    lagging: Lagging,
    require_namespaces: bool,
    first_version: u64,
    kinds: Vec<Kind>,
    controllers: Controllers,
    tokens: Tokens,
    client_ca: Option<ClientCa>,
    rbac: bool,
    aggregated_discovery: bool,
    compression: bool,
    event_ttl: Duration,
}

impl ApiServerBuilder {
    /// The clock; tokio's by default.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// How far back the history reaches.
    pub fn history(mut self, history: History) -> Self {
        self.history = history;
        self
    }

    /// What happens to watchers that fall behind it.
    pub fn lagging(mut self, lagging: Lagging) -> Self {
        self.lagging = lagging;
        self
    }

    /// Refuses objects in namespaces that do not exist, as upstream does. Off by default.
    pub fn require_namespaces(mut self, require: bool) -> Self {
        self.require_namespaces = require;
        self
    }

    /// The version that the server starts at: another one than 1 makes a server that seems to have been running.
    pub fn first_version(mut self, version: u64) -> Self {
        self.first_version = version.max(1);
        self
    }

    /// Which of the cluster's controllers the server plays; all by default.
    pub fn controllers(mut self, controllers: Controllers) -> Self {
        self.controllers = controllers;
        self
    }

    /// Asks for one of these bearer tokens; requests without are refused, or anonymous where [roles](Self::rbac)
    /// decide.
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = tokens;
        self
    }

    /// Takes certificates of these authorities for users, on [TLS](ApiServer::listen_tls): the common name is the user,
    /// the organizations are the groups. Requests without one need a token.
    pub fn client_ca(mut self, authorities: ClientCa) -> Self {
        self.client_ca = Some(authorities);
        self
    }

    /// Lets the stored roles and bindings decide who may do what, as `--authorization-mode=RBAC` does. Off by default:
    /// then everybody may do everything.
    pub fn rbac(mut self, rbac: bool) -> Self {
        self.rbac = rbac;
        self
    }

    /// Answers discovery in one piece to clients that ask for it, as servers since 1.26 do; by default it does.
    pub fn aggregated_discovery(mut self, aggregated: bool) -> Self {
        self.aggregated_discovery = aggregated;
        self
    }

    /// Compresses answers of more than 128 KiB for clients that ask for it, as upstream does; by default it does. Watches are not
    /// compressed. On loopback it costs more time than it saves.
    pub fn compression(mut self, compression: bool) -> Self {
        self.compression = compression;
        self
    }

    /// How long events stay after they were written last, as `--event-ttl`: one hour by default. [`Duration::MAX`] is for ever.
    pub fn event_ttl(mut self, ttl: Duration) -> Self {
        self.event_ttl = ttl;
        self
    }

    /// Serves another kind; the built-in ones are always there.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Makes the server, with the namespaces that every cluster has.
    pub fn build(self) -> ApiServer {
        let schema = informer_schema::Schema::builtin();
        let kinds: Vec<Kind> = built_in(&schema).chain(self.kinds).collect();
        let shared = Shared {
            clock: self.clock.unwrap_or_else(|| Arc::new(TokioClock::new())),
            storage: RwLock::new(Storage::new(self.first_version, self.history)),
            registry: RwLock::default(),
            version: watch::Sender::new(self.first_version),
            faults: Faults::default(),
            requests: RequestLog::default(),
            lagging: self.lagging,
            require_namespaces: self.require_namespaces,
            controllers: self.controllers,
            access: Access::new(self.tokens, self.client_ca, self.rbac),
            aggregated_discovery: self.aggregated_discovery,
            compression: self.compression,
            policy: PolicyCache::default(),
            webhooks: Webhooks::default(),
            hooks: HookCache::default(),
            schema,
            wires: WireBytes::default(),
            expiry: Expiry::new(self.event_ttl),
            allocating: Mutex::default(),
            settling: Mutex::default(),
        };
        let server = ApiServer { shared: Arc::new(shared) };
        for kind in kinds {
            server.register(kind);
        }
        let namespaces = Gvr::new("", "v1", "namespaces");
        for name in ["kube-system", "kube-public", "kube-node-lease", "default"] {
            let object = serde_json::json!({"metadata": {"name": name}});
            server.create(&namespaces, "", object).expect("the first objects of a new server are valid");
        }
        if self.rbac {
            write_bootstrap_policy(&server);
        }
        server
    }
}

impl ApiServer {
    /// A server to be configured.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder {
            clock: None,
            history: History::default(),
            lagging: Lagging::default(),
            require_namespaces: false,
            first_version: 1,
            kinds: Vec::new(),
            controllers: Controllers::default(),
            tokens: Tokens::default(),
            client_ca: None,
            rbac: false,
            aggregated_discovery: true,
            compression: true,
            event_ttl: EVENT_TTL,
        }
    }

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

    /// All requests so far, the oldest first (the last 100,000 of them).
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
    /// deadlines, events and tokens expire. The time of its clients is not moved.
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

    /// Creates an object; an empty namespace is for cluster-scoped kinds. Answers it as stored.
    ///
    /// # Errors
    ///
    /// What a client would get: the kind is not served, the object exists or is invalid.
    pub fn create(&self, gvr: &Gvr, namespace: &str, object: Value) -> Result<Value, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let scope = Scope::new(&resource, some(namespace));
        let written = self.shared.create(scope, object, WriteMode::Whole)?;
        Ok(written.value())
    }

    /// Replaces an object, status and all. With a `resourceVersion` in its metadata only that one.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create); also when it does not exist or was changed.
    pub fn update(&self, gvr: &Gvr, namespace: &str, object: Value) -> Result<Value, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let scope = Scope::new(&resource, some(namespace));
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let written = self.shared.update(scope, &name, object, WriteMode::Whole)?;
        Ok(written.value())
    }

    /// Deletes an object at once, without grace. One with finalizers stays until they are gone, as for any client.
    ///
    /// # Errors
    ///
    /// When the kind is not served or the object does not exist.
    pub fn delete(&self, gvr: &Gvr, namespace: &str, name: &str) -> Result<(), ApiError> {
        let resource = self.shared.resource(gvr)?;
        let scope = Scope::new(&resource, some(namespace));
        self.shared.delete(scope, name, &DeleteOptions::now()).map(drop)
    }

    /// One object. One that a webhook would have to convert is answered in the version that it is stored in.
    ///
    /// # Errors
    ///
    /// When the kind is not served or the object does not exist.
    pub fn get(&self, gvr: &Gvr, namespace: &str, name: &str) -> Result<Value, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let stored = self.shared.find(&resource, some(namespace), name)?;
        Ok(parse(resource.present(&stored, EventType::Modified).unwrap_or(stored).as_slice()))
    }

    /// All objects of a kind in a namespace, or in all of them where it is empty, in the order of their keys.
    ///
    /// # Errors
    ///
    /// When the kind is not served.
    pub fn list(&self, gvr: &Gvr, namespace: &str) -> Result<Vec<Value>, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let live = self.shared.storage.read().live(resource.table);
        let filter = Filter::namespace(some(namespace));
        Ok(live
            .iter()
            .filter(|stored| filter.matches(stored))
            .map(|stored| match resource.present(stored, EventType::Modified) {
                Some(shown) => parse(shown.as_slice()),
                None => parse(stored.as_slice()),
            })
            .collect())
    }

    /// Keys and versions of all objects of a kind, in the order of their keys: what a cache is compared with.
    ///
    /// # Errors
    ///
    /// When the kind is not served.
    pub fn versions(&self, gvr: &Gvr) -> Result<Vec<(ObjectKey, u64)>, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let live = self.shared.storage.read().live(resource.table);
        Ok(live.iter().map(|stored| (stored.key.clone(), stored.version)).collect())
    }

    /// Creates many objects of a kind, each in the namespace of its metadata; objects that exist are replaced.
    /// Answers how many. Watchers see every one of them.
    ///
    /// # Errors
    ///
    /// The first object that is invalid; those before it are written.
    pub fn load(&self, gvr: &Gvr, objects: impl IntoIterator<Item = Value>) -> Result<usize, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let (mut count, mut objects) = (0, objects.into_iter().peekable());
        while objects.peek().is_some() {
            let batch: Vec<Value> = objects.by_ref().take(LOAD_BATCH).collect();
            count += self.shared.load(&resource, batch)?;
        }
        Ok(count)
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
        self.shared.announce_everything();
        Ok(())
    }

    /// Ends every open watch properly, as a restart of the server does.
    pub fn disconnect_watchers(&self) {
        let mut storage = self.shared.storage.write();
        (0..storage.tables()).for_each(|table| storage.disconnect(table));
        drop(storage);
        self.shared.announce_all();
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
    /// What the [history](History) may keep beside them, as its bounds count it.
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

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

pub(crate) fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("stored objects are JSON that this server wrote")
}

impl Shared {
    /// What objects need to be written as protobuf.
    pub(crate) fn wiring(&self) -> Wiring<'_> {
        Wiring { schema: &self.schema, kept: &self.wires }
    }

    pub(crate) fn resource(&self, gvr: &Gvr) -> Result<Arc<Resource>, ApiError> {
        self.registry.read().get(gvr).ok_or_else(ApiError::unknown_resource)
    }

    /// Tells everyone who waits that a commit has happened.
    pub(crate) fn announce(&self, resource: &Resource) {
        resource.changed.send_replace(());
        self.announce_version();
    }

    fn announce_version(&self) {
        let version = self.storage.read().version();
        self.version.send_replace(version);
    }

    /// Tells everyone who waits that everything may be different.
    pub(crate) fn announce_everything(&self) {
        self.announce_version();
        self.announce_all();
    }

    fn announce_all(&self) {
        for resource in self.registry.read().iter() {
            resource.changed.send_replace(());
        }
    }

    /// Refuses a version that the server has not reached.
    pub(crate) fn has_reached(&self, wanted: u64) -> Result<(), ApiError> {
        let current = self.storage.read().version();
        if current >= wanted {
            return Ok(());
        }
        let mut error = ApiError::too_large(wanted, current);
        if let Some(details) = &mut error.details {
            details.retry_after_seconds = 0;
        }
        Err(error)
    }

    /// Waits until the server has reached a version, for at most [`FRESHNESS_WAIT`].
    pub(crate) async fn reach(&self, wanted: u64) -> Result<(), ApiError> {
        if self.storage.read().version() >= wanted {
            return Ok(());
        }
        let mut version = self.version.subscribe();
        let deadline = self.clock.elapsed() + FRESHNESS_WAIT;
        tokio::select! {
            reached = version.wait_for(|version| *version >= wanted) => {
                if reached.is_ok() {
                    return Ok(());
                }
            }
            () = self.clock.sleep_until(deadline) => {}
        }
        Err(ApiError::too_large(wanted, self.storage.read().version()))
    }
}
