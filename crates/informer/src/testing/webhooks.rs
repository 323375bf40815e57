//! Webhooks of an operator that a [`TestServer`] calls in this process.

use std::sync::Arc;

use informer_core::{Gvk, ObjectKey};
use informer_runtime::webhook::{RegisteredWebhook, WebhookConfigurations, WebhookServer};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ServiceReference, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::error::Problem;
use super::{TestServer, TestServerError, gvr};

/// The namespace in the registration of webhooks by [`TestServer::webhooks`].
const NAMESPACE: &str = "webhooks";

impl TestServer {
    /// Registers the webhooks of an operator, and calls them in this process for each request: without a
    /// socket, a certificate or a manager, so that time can be paused.
    ///
    /// The argument adds the webhooks to a server, such as `|server| server.default(f).validate(g)`. Each one
    /// is registered by its type:
    ///
    /// | webhook | registration |
    /// |---|---|
    /// | `default`, `default_with` | a `MutatingWebhookConfiguration` with the options of the webhook |
    /// | `validate`, `validate_with` | a `ValidatingWebhookConfiguration` with the options of the webhook |
    /// | `convert` | `spec.conversion` of the CRD of each kind, which must be installed |
    ///
    /// By default an admission webhook reviews creations and updates. The rules are those of
    /// [`WebhookConfigurations`], from which [`Manifests`](super::Manifests) generates the manifests of the
    /// operator.
    ///
    /// Admission webhooks also get the requests in other versions of the kind, converted to their version.
    /// Subresources are not registered. A later call replaces the registrations of the same kinds and
    /// versions, and keeps the others. To test the registration of the operator's own manifests, use
    /// [`route_webhooks`](Self::route_webhooks).
    ///
    /// Webhooks review the requests of clients. Writes by [`create`](Self::create), `update`, `delete` and
    /// [`load_yaml`](Self::load_yaml) are not reviewed, and [`get`](Self::get) and
    /// [`eventually`](Self::eventually) read the stored version without a conversion.
    ///
    /// ```
    /// use informer::runtime::{Cache, CachedClient};
    /// use informer::testing::{TestServer, User};
    /// use informer::webhook::{AdmissionRequest, Allowed, Denied, WebhookServer};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// async fn check(request: AdmissionRequest<ConfigMap>) -> Result<Allowed, Denied> {
    ///     let data = request.object.and_then(|map| map.data).unwrap_or_default();
    ///     match data.contains_key("password") {
    ///         true => Err(Denied::invalid(format!("{}, use a Secret", request.user.username))),
    ///         false => Ok(Allowed::new()),
    ///     }
    /// }
    ///
    /// # fn map(key: &str) -> ConfigMap {
    /// #     let metadata = serde_json::json!({"name": "settings", "namespace": "default"});
    /// #     serde_json::from_value(serde_json::json!({"metadata": metadata, "data": {key: ""}})).unwrap()
    /// # }
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = TestServer::start().await;
    /// server.webhooks(|webhooks| webhooks.validate(check)).await?;
    ///
    /// let client = CachedClient::new(&Cache::new(server.client_as(User::new("jane"))));
    /// let error = client.create(&map("password")).await.unwrap_err();
    /// assert!(error.to_string().ends_with("jane, use a Secret"), "{error}");
    /// client.create(&map("region")).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the CRD of a converted kind is not installed, or if the server rejects a
    /// registration. The webhooks before that one stay registered.
    #[expect(clippy::unused_async, reason = "async so that a later version can wait")]
    pub async fn webhooks(
        &self,
        register: impl FnOnce(WebhookServer) -> WebhookServer,
    ) -> Result<(), TestServerError> {
        let webhooks = Arc::new(register(WebhookServer::standalone()));
        for webhook in webhooks.registered() {
            self.route(NAMESPACE, &service_name(webhook), &webhooks);
            self.register(webhook, webhooks.registered()).map_err(|problem| {
                TestServerError::environment(format!("register webhook {}", webhook.path()), problem)
            })?;
        }
        Ok(())
    }

    /// Calls webhooks in this process for a Service, whose key is `NAMESPACE/NAME`. The registrations are
    /// those that the test loads, for example the manifests of the operator. Their `caBundle` is not used, so
    /// it may be missing.
    ///
    /// ```
    /// use informer::runtime::{Cache, CachedClient};
    /// use informer::testing::TestServer;
    /// use informer::webhook::{AdmissionRequest, Allowed, Denied};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// async fn deny(_: AdmissionRequest<ConfigMap>) -> Result<Allowed, Denied> {
    ///     Err(Denied::new("there are enough"))
    /// }
    ///
    /// # const MANIFEST: &str = "
    /// # apiVersion: admissionregistration.k8s.io/v1
    /// # kind: ValidatingWebhookConfiguration
    /// # metadata: {name: shop}
    /// # webhooks:
    /// # - name: configmaps.shop.example.com
    /// #   clientConfig:
    /// #     service: {namespace: shop-system, name: shop-webhook, path: /validate--v1-configmap}
    /// #   rules: [{apiGroups: [''], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
    /// #   admissionReviewVersions: [v1]
    /// #   sideEffects: None
    /// # ";
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let manifest = std::env::temp_dir().join(format!("informer-webhooks-{}.yaml", std::process::id()));
    /// # std::fs::write(&manifest, MANIFEST)?;
    /// let server = TestServer::start().await;
    /// server.load_yaml(&manifest)?;
    /// server.route_webhooks("shop-system/shop-webhook", |webhooks| webhooks.validate(deny))?;
    ///
    /// # let mut map = ConfigMap::default();
    /// # map.metadata.name = Some("settings".to_owned());
    /// # map.metadata.namespace = Some("default".to_owned());
    /// let client = CachedClient::new(&Cache::new(server.client()));
    /// let error = client.create(&map).await.unwrap_err();
    /// assert!(error.to_string().ends_with("denied the request: there are enough"), "{error}");
    /// # std::fs::remove_file(manifest)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the key is invalid or has no namespace.
    pub fn route_webhooks(
        &self,
        service: &str,
        register: impl FnOnce(WebhookServer) -> WebhookServer,
    ) -> Result<(), TestServerError> {
        let attempt = || format!("route the webhooks of Service {service:?}");
        let key: ObjectKey =
            service.parse().map_err(|cause| TestServerError::environment(attempt(), cause))?;
        let Some(namespace) = key.namespace() else {
            let problem = "it has no namespace; write NAMESPACE/NAME";
            return Err(TestServerError::environment(attempt(), problem));
        };
        self.route(namespace, key.name(), &Arc::new(register(WebhookServer::standalone())));
        Ok(())
    }

    fn route(&self, namespace: &str, service: &str, webhooks: &Arc<WebhookServer>) {
        let webhooks = Arc::clone(webhooks);
        self.server.webhooks().handle_service(namespace, service, move |request| {
            let webhooks = Arc::clone(&webhooks);
            async move { webhooks.respond(request).await }
        });
    }

    /// Registers a webhook. One handler of several resources is registered for all of them.
    fn register(&self, webhook: &RegisteredWebhook, all: &[RegisteredWebhook]) -> Result<(), Problem> {
        let service = service_name(webhook);
        let client = |path: &str| WebhookClientConfig {
            service: Some(ServiceReference {
                namespace: NAMESPACE.to_owned(),
                name: service.clone(),
                path: Some(path.to_owned()),
                ..ServiceReference::default()
            }),
            ..WebhookClientConfig::default()
        };
        if let RegisteredWebhook::Conversion { path, kind } = webhook {
            return self.register_conversion(kind, serde_json::to_value(client(path))?);
        }
        let of_path = all.iter().filter(|other| other.path() == webhook.path());
        let configurations = WebhookConfigurations::new(&service, of_path, client);
        if let Some(mutating) = configurations.mutating {
            let loaded = [serde_json::to_value(mutating)?];
            self.server.load(&gvr::<MutatingWebhookConfiguration>(), loaded)?;
        }
        if let Some(validating) = configurations.validating {
            let loaded = [serde_json::to_value(validating)?];
            self.server.load(&gvr::<ValidatingWebhookConfiguration>(), loaded)?;
        }
        Ok(())
    }

    fn register_conversion(&self, kind: &Gvk, client: Value) -> Result<(), Problem> {
        let definitions = gvr::<CustomResourceDefinition>();
        let is_of_kind = |definition: &Value| {
            let spec = &definition["spec"];
            spec["group"] == *kind.group && spec["names"]["kind"] == *kind.kind
        };
        let installed = self.server.list(&definitions, "")?.into_iter().find(is_of_kind);
        let Some(mut definition) = installed else {
            let (kind, group) = (&kind.kind, &kind.group);
            let remedy = "install it before the webhooks";
            return Err(format!("there is no CRD of the kind {kind} in {group}; {remedy}").into());
        };
        definition["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
        });
        self.server.update(&definitions, "", definition)?;
        Ok(())
    }
}

/// Returns the name of the Service in the registration of a webhook, which is also the name of its
/// configuration. The conversions of all kinds have one
/// path, so the Service of a conversion has the name of its kind.
fn service_name(webhook: &RegisteredWebhook) -> String {
    match webhook {
        RegisteredWebhook::Conversion { kind, .. } => {
            format!("convert-{}-{}", kind.group.replace('.', "-"), kind.kind.to_lowercase())
        }
        webhook => webhook.path().trim_start_matches('/').to_owned(),
    }
}
