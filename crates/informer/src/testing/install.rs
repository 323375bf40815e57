//! Manifests and CRDs of a [`TestServer`].

use std::path::Path;

use informer_apiserver::LoadError;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;
use serde_json::Value;

use super::error::Problem;
use super::{ObjectParts, TestServer, TestServerError};

impl TestServer {
    /// Loads a manifest file, or all `.yaml`, `.yml` and `.json` files of a directory in the order of their
    /// names. Returns the number of objects. Custom resources can be read and written as soon as this method
    /// has loaded their CRD.
    ///
    /// A file may contain several documents. Namespaced objects without a namespace are created in `default`.
    /// Existing objects are replaced. Objects are defaulted and validated like those in requests, but no
    /// admission webhook reviews them.
    ///
    /// ```
    /// # use informer::testing::TestServer;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let path = std::env::temp_dir().join(format!("informer-load-{}.yaml", std::process::id()));
    /// # std::fs::write(&path, "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}")?;
    /// let server = TestServer::start().await;
    /// assert_eq!(server.load_yaml(&path)?, 1);
    /// server.get::<ConfigMap>("default/settings").await?;
    /// # std::fs::remove_file(path)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of the first invalid file or document. Documents before the invalid one stay loaded.
    pub fn load_yaml(&self, path: impl AsRef<Path>) -> Result<usize, LoadError> {
        self.server.load_yaml(path)
    }

    /// Installs the CRD of a custom kind, which the derive `CustomResource` generates from the type. After
    /// this method, the CRD is established and the server serves the kind. An existing CRD is replaced.
    ///
    /// The derive generates a schema if the type derives `schemars::JsonSchema`, with the feature `schema` of
    /// this crate. Load the CRD of a type with `schema = "disabled"` by [`load_yaml`](Self::load_yaml), and a
    /// CRD with several versions by [`create`](Self::create).
    ///
    /// ```
    /// # #[cfg(feature = "schema")]
    /// # mod example {
    /// use informer::CustomResource;
    /// use informer::testing::{TestServer, exists};
    /// use schemars::JsonSchema;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    /// #[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
    /// # #[kube(crates(kube_core = "informer::kube_core", k8s_openapi = "informer::k8s_openapi"))]
    /// struct WebsiteSpec {
    ///     image: String,
    /// }
    ///
    /// # pub async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = TestServer::start().await;
    /// server.install::<Website>().await?;
    /// let mut shop = Website::new("shop", WebsiteSpec { image: "shop:1".to_owned() });
    /// shop.metadata.namespace = Some("default".to_owned());
    /// server.create(&shop).await?;
    /// server.eventually("default/shop", exists::<Website>()).await;
    /// # Ok(()) }
    /// # }
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// #     #[cfg(feature = "schema")]
    /// #     example::example().await?;
    /// #     Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a version of the CRD has no schema, if the server rejects the CRD, or if the names
    /// of the kind conflict with those of another kind.
    #[expect(clippy::unused_async, reason = "async so that a later version can wait")]
    pub async fn install<K: CustomResourceExt>(&self) -> Result<(), TestServerError> {
        let (definition, attempt) = (K::crd(), format!("install CRD {}", K::crd_name()));
        if let Some(version) = version_without_schema(&definition) {
            let problem = format!(
                "version {version} has no schema, because its type has `schema = \"disabled\"`; load the \
                 manifest of the CRD with load_yaml"
            );
            return Err(TestServerError::environment(attempt, problem));
        }
        let failed = |cause: Problem| TestServerError::environment(attempt.clone(), cause);
        let ObjectParts { gvr, value, .. } = ObjectParts::of(&definition)?;
        self.server.load(&gvr, [value]).map_err(|cause| failed(cause.into()))?;
        let stored = self.server.get(&gvr, "", K::crd_name()).map_err(|cause| failed(cause.into()))?;
        not_established(&stored).map_or(Ok(()), |problem| Err(failed(problem.into())))
    }
}

fn version_without_schema(definition: &CustomResourceDefinition) -> Option<&str> {
    let missing = definition.spec.versions.iter().find(|version| {
        let schema = version.schema.as_ref().and_then(|validation| validation.open_api_v3_schema.as_ref());
        schema.is_none()
    });
    missing.map(|version| version.name.as_str())
}

/// Returns the reason why the server does not serve the kind of a CRD. `None` if the CRD is established.
fn not_established(definition: &Value) -> Option<String> {
    let conditions = definition["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let find = |name: &str| conditions.iter().find(|condition| condition["type"] == *name);
    if find("Established").is_some_and(|condition| condition["status"] == "True") {
        return None;
    }
    let refused = find("NamesAccepted").filter(|condition| condition["status"] == "False");
    let message = refused.and_then(|condition| condition["message"].as_str()).unwrap_or("no reason is given");
    Some(format!("the CRD is not established: {message}; use other names, or another server"))
}
