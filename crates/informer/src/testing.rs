//! An API server inside the test, informers on it, and faults on demand.
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
//! The server is `informer-apiserver`, spoken to without a socket, so that tests run in paused time:
//! timeouts, backoffs and resyncs cost nothing.

mod environment;
mod error;
#[cfg(feature = "runtime")]
mod fake;

use std::fmt;

pub use environment::{TEST_SERVER_VARIABLE, TestEnvironment, TestServerKind};
pub use error::TestServerError;
#[cfg(feature = "runtime")]
pub use fake::{FakeClient, FakeClientBuilder};
pub use informer_apiserver::{
    ApiServer, ExtraField, ExtraFieldError, Fault, FaultAction, FaultBuilder, FaultMatch, FaultWhen, Faults,
    Kind, Listening, ManualClock, RequestRecord, SnapshotError, Verb,
};
pub use informer_cache::testing::{ScriptedServer, ScriptedSource, StaticSource, TestObject, object};
use informer_cache::{InformerRun, SharedInformer};
use informer_client::{Client, Lazy, SharedInformerFactory, StreamingLists};
use informer_core::{Gvr, ObjectKey};
use k8s_openapi::serde::{Serialize, de::DeserializeOwned};
use kube_core::Resource;
use serde_json::Value;

/// An API server inside the test process. Cheap to start; dropping it discards all objects.
///
/// Clones are handles of one server.
#[derive(Clone)]
pub struct TestServer {
    server: ApiServer,
    client: Client,
    factory: SharedInformerFactory,
}

/// An informer that a [`TestServer`] has started. It runs until the last clone is dropped.
///
/// Dereferences to the [`SharedInformer`].
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
    /// A server with nothing but the namespaces of a new cluster.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with time enabled.
    #[expect(
        clippy::unused_async,
        reason = "starting a server may have to wait one day, and tests read alike"
    )]
    pub async fn start() -> Self {
        Self::of(ApiServer::builder().build())
    }

    /// A server that was configured by its own builder.
    pub fn of(server: ApiServer) -> Self {
        let client = Client::from_service(server.service(), "default");
        let factory = SharedInformerFactory::new(client.clone()).streaming_lists(StreamingLists::Off);
        Self { server, client, factory }
    }

    /// A client of the server, without a socket.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A `kube_client::Client` of the server, without a socket.
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

    /// Listens on a free port of the loopback device, for other programs and for clients with connections of
    /// their own:
    /// [`Listening::kubeconfig`] leads them here. It ends when what is returned is dropped.
    ///
    /// # Errors
    ///
    /// When there is no port left.
    pub async fn listen(&self) -> std::io::Result<Listening> {
        self.server.listen("127.0.0.1:0").await
    }

    /// The server itself: manifests, history, clock, kinds, TLS.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The informer of a kind, running, with its first list in the cache.
    ///
    /// It lists, then watches: streaming lists are off, so that requests count as they read. Make other
    /// informers with
    /// [`client`](Self::client).
    ///
    /// # Panics
    ///
    /// When it does not sync within a minute, with the reason.
    pub async fn informer<K>(&self) -> RunningInformer<K>
    where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        let informer = self.factory.informer::<K>();
        let run = informer.start();
        if let Err(error) = informer.wait_for_sync(std::time::Duration::from_secs(60)).await {
            panic!("the informer of a test server: {error}");
        }
        RunningInformer { informer, run }
    }

    /// Moves the server's clock ahead, as if so much time had passed: its watches come to their bookmarks and
    /// deadlines, events and tokens expire. The time of informers and clients is not moved; in paused time
    /// `tokio::time::advance` moves both.
    pub fn advance(&self, by: std::time::Duration) {
        self.server.advance(by);
    }

    /// Keeps the whole state in a file: every object with its version and uid, Secrets among them.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn save(&self, path: impl AsRef<std::path::Path>) -> Result<(), SnapshotError> {
        self.server.save(path)
    }

    /// Goes over to the state in a file, as a server does that is started again on its data: open watches
    /// end, and versions from before get 410.
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
    /// When the file cannot be read, is not a snapshot, or has objects of kinds that are not served; nothing
    /// has changed then.
    pub fn restore(&self, path: impl AsRef<std::path::Path>) -> Result<(), SnapshotError> {
        self.server.restore_from(path)
    }

    /// The rules by which requests go wrong. A rule also holds for the watches that are open when it is made,
    /// as if they began then.
    pub fn faults(&self) -> &Faults {
        self.server.faults()
    }

    /// The requests so far that match, the oldest first.
    pub fn requests(&self, matching: FaultMatch) -> impl Iterator<Item = RequestRecord> {
        self.server.requests().into_iter().filter(move |request| matching.matches(request))
    }

    /// Creates an object in the namespace of its metadata, status and all. It is defaulted and validated as
    /// that of a request is.
    ///
    /// An object that a real server would not store needs [`ApiServer::raw`].
    ///
    /// # Errors
    ///
    /// As for a request: the object exists or is invalid.
    #[expect(clippy::unused_async, reason = "a write may have to wait one day, and tests read alike")]
    pub async fn create<K: Resource<DynamicType = ()> + Serialize>(
        &self,
        object: &K,
    ) -> Result<(), TestServerError> {
        let (gvr, namespace, value) = parts(object)?;
        self.server
            .create(&gvr, &namespace, value)
            .map(drop)
            .map_err(|error| TestServerError::of("create", &gvr, error))
    }

    /// Replaces an object, status and all. It is defaulted and validated as that of a request is.
    ///
    /// # Errors
    ///
    /// As for a request: the object does not exist, is invalid, or changes an immutable field.
    #[expect(clippy::unused_async, reason = "a write may have to wait one day, and tests read alike")]
    pub async fn update<K: Resource<DynamicType = ()> + Serialize>(
        &self,
        object: &K,
    ) -> Result<(), TestServerError> {
        let (gvr, namespace, value) = parts(object)?;
        self.server
            .update(&gvr, &namespace, value)
            .map(drop)
            .map_err(|error| TestServerError::of("update", &gvr, error))
    }

    /// Deletes an object by its key.
    ///
    /// # Errors
    ///
    /// When the key cannot be read, or the object does not exist.
    #[expect(clippy::unused_async, reason = "a write may have to wait one day, and tests read alike")]
    pub async fn delete<K: Resource<DynamicType = ()>>(&self, key: &str) -> Result<(), TestServerError> {
        let gvr = gvr::<K>();
        let key: ObjectKey = key.parse().map_err(|error| TestServerError::of("delete", &gvr, error))?;
        let deleted = self.server.delete(&gvr, key.namespace().unwrap_or_default(), key.name());
        deleted.map_err(|error| TestServerError::of("delete", &gvr, error))
    }

    /// Reads an object by its key.
    ///
    /// # Errors
    ///
    /// When the key cannot be read, the object does not exist, or is not a `K`.
    #[expect(clippy::unused_async, reason = "a read may have to wait one day, and tests read alike")]
    pub async fn get<K: Resource<DynamicType = ()> + DeserializeOwned>(
        &self,
        key: &str,
    ) -> Result<K, TestServerError> {
        let gvr = gvr::<K>();
        let key: ObjectKey = key.parse().map_err(|error| TestServerError::of("read", &gvr, error))?;
        let object = self.server.get(&gvr, key.namespace().unwrap_or_default(), key.name());
        let object = object.map_err(|error| TestServerError::of("read", &gvr, error))?;
        serde_json::from_value(object).map_err(|error| TestServerError::of("decode", &gvr, error))
    }
}

fn parts<K: Resource<DynamicType = ()> + Serialize>(
    object: &K,
) -> Result<(Gvr, String, Value), TestServerError> {
    let gvr = gvr::<K>();
    let value = serde_json::to_value(object).map_err(|error| TestServerError::of("encode", &gvr, error))?;
    Ok((gvr, object.meta().namespace.clone().unwrap_or_default(), value))
}

fn gvr<K: Resource<DynamicType = ()>>() -> Gvr {
    Gvr::new(K::group(&()), K::version(&()), K::plural(&()))
}

/// Lists of a kind, for rules and for the requests that were made.
pub fn list<K: Resource<DynamicType = ()>>() -> FaultMatch {
    matching::<K>(Verb::List)
}

/// Watches of a kind, for rules and for the requests that were made.
pub fn watch<K: Resource<DynamicType = ()>>() -> FaultMatch {
    matching::<K>(Verb::Watch)
}

fn matching<K: Resource<DynamicType = ()>>(verb: Verb) -> FaultMatch {
    let mut matching = FaultMatch::verb(verb);
    matching.resource = Some(K::plural(&()).into_owned());
    matching.group = Some(K::group(&()).into_owned());
    matching
}

/// A pod with one container, for tests that need some pod.
///
/// # Panics
///
/// If the key is invalid.
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
