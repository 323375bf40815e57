//! An embedded API server for tests, with informers and fault injection.
//!
//! ```
//! # use informer::testing::{TestServer, list, pod, watch};
//! # use k8s_openapi::api::core::v1::Pod;
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::start().await;
//! let pods = server.informer::<Pod>().await;
//! server.faults().on(watch::<Pod>()).nth(1).expire();               // 410 on the first watch
//! server.create(&pod("default/web-0")).await?;
//! pods.wait_until(|p| p.contains("default/web-0")).await?;
//! assert_eq!(server.requests(list::<Pod>()).count(), 2);
//! # Ok(()) }
//! ```
//!
//! | a test of an operator | calls |
//! |---|---|
//! | installs the CRD of a type, or manifests | [`TestServer::install`], [`TestServer::load_yaml`] |
//! | runs a controller, or a whole manager | [`TestServer::run`], [`TestServer::run_manager`] |
//! | calls its webhooks | [`TestServer::webhooks`], [`TestServer::route_webhooks`] (feature `webhook`) |
//! | waits for a state | [`TestServer::eventually`], [`TestServer::consistently`] |
//! | makes requests fail, and counts them | [`TestServer::faults`], [`TestServer::requests`], [`request`] |
//!
//! The server is `informer-apiserver`. Clients call it without a socket, so tests can run in paused time:
//! timeouts, backoffs and resyncs take no real time.

mod environment;
mod error;
#[cfg(feature = "runtime")]
mod explore;
mod failures;
#[cfg(feature = "runtime")]
mod fake;
mod fields;
mod files;
mod golden;
mod install;
#[cfg(feature = "runtime")]
mod manager;
mod manifests;
mod matcher;
mod permissions;
pub mod request;
mod wait;
#[cfg(feature = "webhook")]
mod webhooks;

use std::fmt;

pub use environment::{TEST_SERVER_VARIABLE, TestEnvironment, TestServerKind};
pub use error::TestServerError;
#[cfg(feature = "runtime")]
pub use explore::{EXPLORE_VARIABLE, Explore, ExploreFailure, ExploreReport, ProgramWrite, World};
#[cfg(feature = "runtime")]
pub use fake::{FakeClient, FakeClientBuilder};
pub use golden::{GOLDEN_VARIABLE, Golden, GoldenError, assert_golden};
#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
pub use informer_apiserver::CertificateAuthority;
pub use informer_apiserver::{
    ApiServer, ApiServerBuilder, ExtraField, ExtraFieldError, Fault, FaultAction, FaultBuilder, FaultMatch,
    FaultScript, FaultWhen, Faults, KindDefinition, Listening, LoadError, ManualClock, ObjectChange,
    ParseScriptError, RequestRecord, SnapshotError, User, Verb,
};
pub use informer_cache::testing::{ScriptedServer, ScriptedSource, StaticSource, TestObject, object};
use informer_cache::{InformerRun, SharedInformer};
#[cfg(feature = "runtime")]
pub use informer_runtime::testing::{EventLog, RecordedEvent, TestContext, TestContextBuilder};
#[cfg(feature = "runtime")]
pub use manager::RunningManager;
pub use manifests::{ManifestState, Manifests, ManifestsError, ManifestsReport};
pub use matcher::{
    Absent, Expectation, Matcher, absent, exists, has_condition, has_field, has_finalizer, is_terminating,
    not, satisfies,
};
pub use permissions::{
    Permission, PermissionComparison, PermissionDifference, PermissionsError, PermissionsUsed, RoleRules,
};
pub use request::{list, watch};
pub use wait::WAIT_TIMEOUT;

use informer_client::{Client, Lazy, SharedInformerFactory, StaticResource, StreamingLists};
use informer_core::{Gvr, ObjectKey};
use k8s_openapi::serde::{Serialize, de::DeserializeOwned};
use kube_core::Resource;
use serde_json::Value;

use failures::Failures;

/// An API server in the test process. It starts quickly, stores objects in memory, and discards them when its
/// last clone is dropped.
///
/// Clones are handles of the same server.
#[derive(Clone)]
pub struct TestServer {
    server: ApiServer,
    client: Client,
    factory: SharedInformerFactory,
    wait_timeout: std::time::Duration,
    failures: Failures,
}

/// A running informer of a [`TestServer`], as returned by [`TestServer::informer`]. It runs until its last
/// clone is dropped.
///
/// This type dereferences to the [`SharedInformer`], so its methods can be called directly.
#[derive(Debug, Clone)]
#[must_use = "the informer stops when it is dropped"]
pub struct RunningInformer<K: Send + Sync + 'static> {
    informer: SharedInformer<Lazy<K>>,
    run: InformerRun,
}

impl<K: Send + Sync + 'static> RunningInformer<K> {
    /// Stops the informer and waits until its tasks have ended.
    pub async fn stop(self) {
        self.run.stop().await;
    }
}

impl<K: Send + Sync + 'static> std::ops::Deref for RunningInformer<K> {
    type Target = SharedInformer<Lazy<K>>;

    fn deref(&self) -> &Self::Target {
        &self.informer
    }
}

impl TestServer {
    /// Starts a server that contains only the objects of a new cluster, which are its namespaces.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime with time enabled.
    #[expect(clippy::unused_async, reason = "async so that a later version can wait")]
    pub async fn start() -> Self {
        Self::of(ApiServer::builder().build())
    }

    /// Returns a test server that uses this API server, which the caller has configured with its own builder,
    /// for example with RBAC or other kinds.
    pub fn of(server: ApiServer) -> Self {
        let client = Client::from_service(server.service(), "default");
        let factory = SharedInformerFactory::new(client.clone()).streaming_lists(StreamingLists::Off);
        Self { server, client, factory, wait_timeout: WAIT_TIMEOUT, failures: Failures::new() }
    }

    /// Returns a client of the test server. The client calls the server without a socket.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns a client whose requests are those of a user. On a server with RBAC, an operator that is tested
    /// with this client needs the same roles as in a cluster. The client calls the server without a socket.
    ///
    /// ```
    /// # use informer::testing::{ApiServer, TestServer, User};
    /// # use informer::runtime::{Cache, CachedClient};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = TestServer::of(ApiServer::builder().rbac(true).build());
    /// let client = CachedClient::new(&Cache::new(server.client_as(User::new("alice"))));
    /// let error = client.live().get::<ConfigMap>("default/settings").await.unwrap_err();
    /// assert!(error.to_string().contains("forbidden"), "{error}");
    /// # Ok(()) }
    /// ```
    pub fn client_as(&self, user: User) -> Client {
        Client::from_service(self.server.service_as(user), "default")
    }

    /// Returns a `kube_client::Client` of the test server, for code that uses kube. The client calls the
    /// server without a socket.
    ///
    /// ```
    /// # use informer::testing::TestServer;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube_client::Api;
    /// use kube_client::api::PostParams;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = TestServer::start().await;
    /// let maps: Api<ConfigMap> = Api::namespaced(server.kube_client(), "default");
    /// let mut map = ConfigMap::default();
    /// map.metadata.name = Some("settings".to_owned());
    /// let made = maps.create(&PostParams::default(), &map).await?;
    /// assert_eq!(server.get::<ConfigMap>("default/settings").await?, made);
    /// # Ok(()) }
    /// ```
    pub fn kube_client(&self) -> kube_client::Client {
        kube_client::Client::new(self.server.service(), "default")
    }

    /// Listens on a free port of the loopback interface, for other programs and for clients with their own
    /// connections. [`Listening::kubeconfig`] returns a kubeconfig for it. Dropping the returned value closes
    /// the port.
    ///
    /// # Errors
    ///
    /// Returns an error if no port is free.
    pub async fn listen(&self) -> std::io::Result<Listening> {
        self.server.listen("127.0.0.1:0").await
    }

    /// Returns the underlying API server, which also has methods for the history of objects, the clock,
    /// kinds, objects that no real server would store, and TLS.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Starts an informer of a kind and waits until its first list is in the cache.
    ///
    /// The informer lists, then watches: streaming lists are off, so that tests can count requests. Create
    /// informers with another configuration from [`client`](Self::client).
    ///
    /// # Panics
    ///
    /// Panics if the informer does not sync within a minute. The message contains the reason.
    pub async fn informer<K>(&self) -> RunningInformer<K>
    where
        K: StaticResource + Send + Sync + 'static,
    {
        let informer = self.factory.informer::<K>();
        let run = informer.start();
        if let Err(error) = informer.wait_for_sync(std::time::Duration::from_secs(60)).await {
            panic!("start an informer of the test server: {error}");
        }
        RunningInformer { informer, run }
    }

    /// Advances the clock of the test server without waiting: its watches send their bookmarks and reach
    /// their timeouts, and its events and tokens expire. The time of informers and clients does not change.
    /// In tests with paused time, `tokio::time::advance` advances both.
    pub fn advance(&self, by: std::time::Duration) {
        self.server.advance(by);
    }

    /// Saves the complete state of the test server to a file: every object with its version and uid,
    /// including Secrets. [`restore`](Self::restore) reads this file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn save(&self, path: impl AsRef<std::path::Path>) -> Result<(), SnapshotError> {
        self.server.save(path)
    }

    /// Replaces the state of the test server with the one that [`save`](Self::save) has written to a file.
    /// Clients see the same as after a restart of kube-apiserver: open watches end, and watches and exact
    /// lists from earlier versions are rejected with 410.
    ///
    /// ```
    /// # use informer::testing::{TestServer, pod};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("informer-{}.json", std::process::id()));
    /// let server = TestServer::start().await;
    /// server.create(&pod("default/web-0")).await?;
    /// server.save(&path)?;
    ///
    /// let next = TestServer::start().await;
    /// next.restore(&path)?;
    /// let (old, new): (Pod, Pod) = (server.get("default/web-0").await?, next.get("default/web-0").await?);
    /// assert_eq!((old.metadata.uid, old.metadata.resource_version), (new.metadata.uid, new.metadata.resource_version));
    /// # std::fs::remove_file(path)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, is not a snapshot, or has objects of unknown kinds. The
    /// state is then unchanged.
    pub fn restore(&self, path: impl AsRef<std::path::Path>) -> Result<(), SnapshotError> {
        self.server.restore_from(path)
    }

    /// Returns the fault rules of the test server, with which a test makes requests fail. A new rule also
    /// applies to open watches, as if they had started after it was added.
    pub fn faults(&self) -> &Faults {
        self.server.faults()
    }

    /// Returns the requests that the server has received and that match `matching`, oldest first. The module
    /// [`request`] has matchers by kind and verb.
    pub fn requests(&self, matching: FaultMatch) -> impl Iterator<Item = RequestRecord> {
        self.server.requests().into_iter().filter(move |request| matching.matches(request))
    }

    /// Returns the permissions that the requests to this test server have needed so far. A test compares them
    /// with the role of the program under test.
    ///
    /// ```
    /// # use informer::testing::{ApiServer, TestServer, User};
    /// # use informer::runtime::{Cache, CachedClient};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use k8s_openapi::api::rbac::v1::{PolicyRule, Role};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = TestServer::start().await;
    /// let client = CachedClient::new(&Cache::new(server.client_as(User::new("operator"))));
    /// client.live().get::<ConfigMap>("default/settings").await?;
    ///
    /// let mut role = Role::default();
    /// role.metadata.name = Some("operator".to_owned());
    /// role.metadata.namespace = Some("default".to_owned());
    /// role.rules = Some(vec![PolicyRule {
    ///     api_groups: Some(vec![String::new()]),
    ///     resources: Some(vec!["configmaps".to_owned()]),
    ///     verbs: vec!["get".to_owned(), "delete".to_owned()],
    ///     ..PolicyRule::default()
    /// }]);
    /// let compared = server.permissions_used()?.compare(&role);
    /// assert_eq!(
    ///     compared.to_string(),
    ///     "Role default/operator, rule 1: granted and never used: delete configmaps in API group \"\""
    /// );
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the server has removed requests from its bounded log. Unused permissions would be
    /// unknown.
    pub fn permissions_used(&self) -> Result<PermissionsUsed, PermissionsError> {
        PermissionsUsed::of(&self.server.requests(), |_| true)
    }

    /// Returns the permissions that the requests of one authenticated user to this server have needed so far.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has removed requests from its bounded log. Unused permissions would be
    /// unknown.
    pub fn permissions_used_by(&self, user: &str) -> Result<PermissionsUsed, PermissionsError> {
        PermissionsUsed::of(&self.server.requests(), |request| request.user == user)
    }

    /// Creates an object on the test server, including its status, in the namespace of its metadata. It is
    /// defaulted and validated like an object in a request.
    ///
    /// Use [`ApiServer::raw`] for objects that a real server would not store.
    ///
    /// # Errors
    ///
    /// Returns the errors of a create request: the object exists or is invalid.
    #[expect(clippy::unused_async, reason = "async so that a later version can wait")]
    pub async fn create<K: StaticResource + Serialize>(&self, object: &K) -> Result<(), TestServerError> {
        let ObjectParts { gvr, namespace, value } = ObjectParts::of(object)?;
        self.server
            .create(&gvr, &namespace, value)
            .map(drop)
            .map_err(|error| TestServerError::of("create", &gvr, error))
    }

    /// Replaces an object on the test server, including its status. It is defaulted and validated like an
    /// object in a request.
    ///
    /// # Errors
    ///
    /// Returns the errors of an update request: the object does not exist, is invalid, or changes an
    /// immutable field.
    #[expect(clippy::unused_async, reason = "async so that a later version can wait")]
    pub async fn update<K: StaticResource + Serialize>(&self, object: &K) -> Result<(), TestServerError> {
        let ObjectParts { gvr, namespace, value } = ObjectParts::of(object)?;
        self.server
            .update(&gvr, &namespace, value)
            .map(drop)
            .map_err(|error| TestServerError::of("update", &gvr, error))
    }

    /// Deletes an object of kind `K` by its key: `NAMESPACE/NAME`, or `NAME` for a cluster-scoped kind.
    ///
    /// # Errors
    ///
    /// Returns an error if the key is invalid, or the object does not exist.
    #[expect(clippy::unused_async, reason = "async so that a later version can wait")]
    pub async fn delete<K: StaticResource>(&self, key: &str) -> Result<(), TestServerError> {
        let gvr = gvr::<K>();
        let key: ObjectKey = key.parse().map_err(|error| TestServerError::of("delete", &gvr, error))?;
        let deleted = self.server.delete(&gvr, key.namespace().unwrap_or_default(), key.name());
        deleted.map_err(|error| TestServerError::of("delete", &gvr, error))
    }

    /// Reads an object of kind `K` by its key: `NAMESPACE/NAME`, or `NAME` for a cluster-scoped kind.
    ///
    /// # Errors
    ///
    /// Returns an error if the key is invalid, the object does not exist, or it cannot be decoded as `K`.
    #[expect(clippy::unused_async, reason = "async so that a later version can wait")]
    pub async fn get<K: StaticResource + DeserializeOwned>(&self, key: &str) -> Result<K, TestServerError> {
        let gvr = gvr::<K>();
        let key: ObjectKey = key.parse().map_err(|error| TestServerError::of("read", &gvr, error))?;
        let object = self.server.get(&gvr, key.namespace().unwrap_or_default(), key.name());
        let object = object.map_err(|error| TestServerError::of("read", &gvr, error))?;
        serde_json::from_value(object).map_err(|error| TestServerError::of("decode", &gvr, error))
    }
}

/// An object in the form in which the embedded server stores it: its resource, its namespace and its JSON.
struct ObjectParts {
    gvr: Gvr,
    namespace: String,
    value: Value,
}

impl ObjectParts {
    fn of<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Result<Self, TestServerError> {
        let gvr = gvr::<K>();
        let value =
            serde_json::to_value(object).map_err(|error| TestServerError::of("encode", &gvr, error))?;
        Ok(Self { gvr, namespace: object.meta().namespace.clone().unwrap_or_default(), value })
    }
}

fn gvr<K: Resource<DynamicType = ()>>() -> Gvr {
    Gvr::new(K::group(&()), K::version(&()), K::plural(&()))
}

/// Returns a Pod with one container, for tests in which the content of the Pod does not matter. The key is
/// `NAMESPACE/NAME`.
///
/// # Panics
///
/// Panics if the key is invalid.
#[track_caller]
pub fn pod(key: &str) -> k8s_openapi::api::core::v1::Pod {
    let key: ObjectKey = key.parse().unwrap_or_else(|error| panic!("{error}"));
    let pod = serde_json::json!({
        "metadata": {"name": key.name(), "namespace": key.namespace().unwrap_or("default")},
        "spec": {"containers": [{"name": "main", "image": "registry.example.com/main:1"}]},
    });
    serde_json::from_value(pod).expect("the fields are those of a pod")
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer").field("version", &self.server.version()).finish_non_exhaustive()
    }
}
