//! A fake client for unit tests of reconcilers. It is the client of the runtime, connected to an embedded API
//! server.

use std::fmt;
use std::ops::Deref;

use informer_client::Lazy;
use informer_runtime::client::Intercept;
use informer_runtime::{Cache, CachedClient, KubeObject};
use informer_store::IndexFn;

use super::{ObjectParts, TestServer, TestServerError};

/// A [`CachedClient`](informer_runtime::CachedClient) of the runtime with its cache, on an embedded server.
///
/// The client is not a mock. Writes go to the embedded server, which checks versions, finalizers and status
/// like a real one. Reads come from a real cache, and a read after a write shows that write. As in
/// production, lists with a field selector need an index of that field. This type dereferences to the client.
///
/// ```
/// # use informer::testing::{FakeClient, pod};
/// # use k8s_openapi::api::core::v1::Pod;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = FakeClient::builder().object(&pod("default/web-0")).build().await?;
/// assert!(client.get::<Pod>("default/web-0").await?.is_some());
/// client.delete::<Pod>("default/web-0").await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct FakeClient {
    client: CachedClient,
    server: TestServer,
}

/// A configuration step that [`FakeClientBuilder::build`] applies to the new server or cache.
type Step<T> = Box<dyn FnOnce(&T) -> Result<(), TestServerError> + Send>;

/// A builder for a [`FakeClient`], with options for its server, initial objects, indexes and interceptors.
#[must_use = "a builder does nothing until `build` is called"]
pub struct FakeClientBuilder {
    server: Option<TestServer>,
    steps: Vec<Step<TestServer>>,
    indexes: Vec<Step<Cache>>,
    interceptors: Vec<Box<dyn FnOnce(CachedClient) -> CachedClient + Send>>,
}

impl FakeClient {
    /// Returns a builder for a fake client. Without further configuration, the client is connected to a new
    /// embedded server without objects.
    pub fn builder() -> FakeClientBuilder {
        FakeClientBuilder { server: None, steps: Vec::new(), indexes: Vec::new(), interceptors: Vec::new() }
    }

    /// Returns the embedded API server of the fake client. A test uses it to inject faults, to count
    /// requests, or to connect other clients.
    pub fn server(&self) -> &TestServer {
        &self.server
    }
}

impl Deref for FakeClient {
    type Target = CachedClient;

    fn deref(&self) -> &CachedClient {
        &self.client
    }
}

impl FakeClientBuilder {
    /// Connects the fake client to this embedded server and not to a new one, for example to a server that
    /// serves other kinds or already has objects.
    pub fn server(mut self, server: &TestServer) -> Self {
        self.server = Some(server.clone());
        self
    }

    /// Creates this object on the embedded server, including its status, before the client is built. An
    /// object with a deletion timestamp needs a finalizer.
    pub fn object<K: KubeObject>(mut self, object: &K) -> Self {
        let parts = ObjectParts::of(object);
        self.steps.push(Box::new(move |server| {
            let ObjectParts { gvr, namespace, value } = parts?;
            let created = server.server().create(&gvr, &namespace, value);
            created.map(drop).map_err(|error| TestServerError::of("create", &gvr, error))
        }));
        self
    }

    /// Adds an index of a field to the cache of the fake client, so that lists with a field selector can
    /// select objects by this field.
    pub fn index<K: KubeObject>(mut self, field: impl Into<String>, function: impl IndexFn<Lazy<K>>) -> Self {
        let field = field.into();
        self.indexes.push(Box::new(move |cache| {
            let added = cache.index_field::<K>(&field, function);
            added.map_err(|cause| TestServerError::environment(format!("index the field {field}"), cause))
        }));
        self
    }

    /// Adds an interceptor, which is called for the requests of the fake client before they reach the server.
    /// The interceptor that was added last is called first.
    pub fn intercept(mut self, interceptor: impl Intercept) -> Self {
        self.interceptors.push(Box::new(move |client| client.intercept(interceptor)));
        self
    }

    /// Starts an embedded server unless [`server`](Self::server) was called, creates the initial objects on
    /// it, and builds the client.
    ///
    /// # Errors
    ///
    /// Returns an error if an object is invalid, or a field is indexed twice.
    pub async fn build(self) -> Result<FakeClient, TestServerError> {
        let server = match self.server {
            Some(server) => server,
            None => TestServer::start().await,
        };
        self.steps.into_iter().try_for_each(|step| step(&server))?;
        let cache = Cache::new(server.client());
        self.indexes.into_iter().try_for_each(|index| index(&cache))?;
        cache.start();
        let client = self
            .interceptors
            .into_iter()
            .fold(CachedClient::new(&cache), |client, intercept| intercept(client));
        Ok(FakeClient { client, server })
    }
}

impl fmt::Debug for FakeClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeClientBuilder").field("objects", &self.steps.len()).finish_non_exhaustive()
    }
}
