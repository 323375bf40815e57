//! Test environments, in which the same test runs on the embedded API server or on a real one.

use std::fmt;
use std::time::Duration;

use informer_client::{Call, CallError, Client, ResourceKind};
use informer_core::ObjectKey;
use serde_json::{Value, json};

use super::{TestServer, TestServerError};

/// The name of the environment variable that selects the API server of a [`TestEnvironment`]. The value
/// `embedded`, which is the default, selects the embedded server; `kubeconfig` selects the server of the
/// kubeconfig that `kubectl` would use.
pub const TEST_SERVER_VARIABLE: &str = "INFORMER_TEST_SERVER";

/// The timeout for a CRD to become established. Until then, the API server does not serve its custom
/// resources.
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval between two checks whether a CRD is established.
const ESTABLISHED_PERIOD: Duration = Duration::from_millis(100);

/// The kind of server on which a test runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TestServerKind {
    /// The test runs on an embedded API server in its own process.
    #[default]
    Embedded,
    /// The test runs on the API server of the kubeconfig that `kubectl` would use.
    Kubeconfig,
}

impl TestServerKind {
    /// Returns the kind of server that a value of the environment variable [`TEST_SERVER_VARIABLE`] selects.
    /// A missing or empty value selects the embedded server.
    ///
    /// # Errors
    ///
    /// Returns an error if the value is neither `embedded` nor `kubeconfig`.
    pub fn parse(value: Option<&str>) -> Result<Self, TestServerError> {
        match value {
            None | Some("" | "embedded") => Ok(Self::Embedded),
            Some("kubeconfig") => Ok(Self::Kubeconfig),
            Some(other) => {
                let problem = format!("{other:?} is neither `embedded` nor `kubeconfig`");
                Err(TestServerError::environment("choose the server", problem))
            }
        }
    }
}

/// An API server for tests, with a namespace for each test. The environment variable
/// [`INFORMER_TEST_SERVER`](TEST_SERVER_VARIABLE) selects an embedded server or a real one, so that the same
/// test can run on both.
///
/// Each environment creates a namespace with a generated name. On a real server the namespace exists until
/// [`stop`](Self::stop) deletes it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use informer::testing::TestEnvironment;
///
/// let environment = TestEnvironment::start().await?;
/// let factory = informer::cache::SharedInformerFactory::new(environment.client()).namespace(environment.namespace());
/// // ... the test ...
/// environment.stop().await?;
/// # Ok(()) }
/// ```
pub struct TestEnvironment {
    client: Client,
    embedded: Option<TestServer>,
    namespace: String,
}

impl TestEnvironment {
    /// Starts an embedded server or connects to a real one, as selected by the environment variable
    /// `INFORMER_TEST_SERVER`, and creates a namespace for the test.
    ///
    /// # Errors
    ///
    /// Returns an error if the value of the variable is unknown, or if the real server cannot be reached or
    /// rejects the namespace.
    pub async fn start() -> Result<Self, TestServerError> {
        let value = std::env::var(TEST_SERVER_VARIABLE).ok();
        Self::of(TestServerKind::parse(value.as_deref())?).await
    }

    /// Starts an environment on the given kind of server, like [`start`](Self::start) does on the kind that
    /// the environment variable selects.
    ///
    /// # Errors
    ///
    /// Returns an error if the real server cannot be reached, or rejects the namespace.
    pub async fn of(kind: TestServerKind) -> Result<Self, TestServerError> {
        let embedded = match kind {
            TestServerKind::Embedded => Some(TestServer::start().await),
            TestServerKind::Kubeconfig => None,
        };
        let client = match &embedded {
            Some(server) => server.client(),
            None => {
                let client = Client::try_default().await;
                client.map_err(|cause| TestServerError::environment("connect to the real server", cause))?
            }
        };
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "informer-test-"}});
        let created = client.call(Call::create(&namespaces(), None).body(body.to_string())).await;
        let created = created.map_err(|cause| TestServerError::environment("create a namespace", cause))?;
        let created: Value = serde_json::from_slice(&created)
            .map_err(|cause| TestServerError::environment("create a namespace", cause))?;
        let namespace = created["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(Self { client, embedded, namespace })
    }

    /// Returns a client of the server on which the test runs.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the namespace of this environment, in which the test creates its objects.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the embedded server, for faults and request counts. Returns `None` if the test runs on a real
    /// server, which supports neither.
    pub fn embedded(&self) -> Option<&TestServer> {
        self.embedded.as_ref()
    }

    /// Creates CRDs and waits until they are established. CRDs that exist are not changed.
    ///
    /// # Errors
    ///
    /// Returns an error if the server rejects a CRD, or does not establish it within 10 s.
    pub async fn install(&self, definitions: impl IntoIterator<Item = Value>) -> Result<(), TestServerError> {
        for definition in definitions {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let attempt = format!("install CRD {name}");
            let created =
                self.client.call(Call::create(&self::definitions(), None).body(definition.to_string())).await;
            match created {
                Err(error) if !error.is_already_exists() => {
                    return Err(TestServerError::environment(attempt, error));
                }
                _ => self.established(&attempt, &name).await?,
            }
        }
        Ok(())
    }

    async fn established(&self, attempt: &str, name: &str) -> Result<(), TestServerError> {
        let key = ObjectKey::cluster(name).map_err(|cause| TestServerError::environment(attempt, cause))?;
        let established = async {
            loop {
                let text = self.client.call(Call::get(&definitions(), &key)).await?;
                let definition: Value = serde_json::from_slice(&text).unwrap_or_default();
                let conditions = definition["status"]["conditions"].as_array();
                let holds =
                    |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
                if conditions.is_some_and(|conditions| conditions.iter().any(holds)) {
                    return Ok::<(), CallError>(());
                }
                tokio::time::sleep(ESTABLISHED_PERIOD).await;
            }
        };
        match tokio::time::timeout(ESTABLISHED_TIMEOUT, established).await {
            Ok(result) => result.map_err(|cause| TestServerError::environment(attempt, cause)),
            Err(_) => {
                let problem = format!("it is not established after {ESTABLISHED_TIMEOUT:?}");
                Err(TestServerError::environment(attempt, problem))
            }
        }
    }

    /// Deletes the namespace of this environment and its objects. An embedded server stops when its last
    /// handle is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the server rejects the request.
    pub async fn stop(self) -> Result<(), TestServerError> {
        let attempt = format!("delete the namespace {}", self.namespace);
        let key = ObjectKey::cluster(&self.namespace)
            .map_err(|cause| TestServerError::environment(attempt.clone(), cause))?;
        let deleted = self.client.call(Call::delete(&namespaces(), &key)).await;
        deleted.map(drop).map_err(|cause| TestServerError::environment(attempt, cause))
    }
}

fn namespaces() -> ResourceKind {
    ResourceKind::new("", "v1", "Namespace", "namespaces")
}

fn definitions() -> ResourceKind {
    ResourceKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
}

impl fmt::Debug for TestEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestEnvironment")
            .field("client", &self.client)
            .field("embedded", &self.embedded.is_some())
            .field("namespace", &self.namespace)
            .finish()
    }
}
