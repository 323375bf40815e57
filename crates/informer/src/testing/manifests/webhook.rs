//! The objects that register the admission webhooks of a project.

use std::collections::BTreeMap;

use informer_runtime::webhook::{RegisteredWebhook, WebhookConfigurations};
use k8s_openapi::api::admissionregistration::v1::{ServiceReference, WebhookClientConfig};
use k8s_openapi::serde::Serialize;
use kube_core::ObjectMeta;
use serde_json::Value;

use super::Manifests;

/// The annotation that makes cert-manager add the CA of a Certificate to a webhook configuration.
const INJECT_CA: &str = "cert-manager.io/inject-ca-from";

impl Manifests {
    /// Adds the webhooks of the project's program, from which the manifests of their registration are
    /// generated: the kinds, operations, paths and [options](informer_runtime::webhook::WebhookOptions) of
    /// admission webhooks. The conversions of a kind are part of its [CRD](Self::crds).
    ///
    /// The API server connects to the Service `PROJECT-webhook` in the namespace `PROJECT-system`.
    /// cert-manager adds the CA of the Certificate with the same name.
    ///
    /// ```
    /// use informer::testing::Manifests;
    /// use informer::webhook::{Allowed, WebhookServer};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let server = WebhookServer::standalone().validate::<ConfigMap>(|_| async { Ok(Allowed::new()) });
    /// let manifests = Manifests::of_project("shop").webhooks(server.registered().to_vec());
    /// # drop(manifests);
    /// ```
    pub fn webhooks(mut self, webhooks: impl IntoIterator<Item = RegisteredWebhook>) -> Self {
        let mut of_resources: BTreeMap<String, Vec<RegisteredWebhook>> = BTreeMap::new();
        for webhook in webhooks {
            if let RegisteredWebhook::Mutating { resource, .. }
            | RegisteredWebhook::Validating { resource, .. } = &webhook
            {
                of_resources.entry(resource.resource.to_string()).or_default().push(webhook);
            }
        }
        for (resource, webhooks) in of_resources {
            let objects = self.registration(&resource, &webhooks);
            self.webhooks.insert(format!("{resource}.yaml"), objects);
        }
        self
    }

    /// Returns the webhook configurations of one resource.
    fn registration(&self, resource: &str, webhooks: &[RegisteredWebhook]) -> Vec<Value> {
        let (service, namespace) = (format!("{}-webhook", self.project), format!("{}-system", self.project));
        let client = |path: &str| WebhookClientConfig {
            service: Some(ServiceReference {
                name: service.clone(),
                namespace: namespace.clone(),
                path: Some(path.to_owned()),
                ..ServiceReference::default()
            }),
            ..WebhookClientConfig::default()
        };
        let name = format!("{}-{resource}", self.project);
        let configurations = WebhookConfigurations::new(&name, webhooks, client);
        let annotate = |metadata: &mut ObjectMeta| {
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(INJECT_CA.to_owned(), format!("{namespace}/{service}"));
        };
        let mutating = configurations.mutating.map(|mut configuration| {
            annotate(&mut configuration.metadata);
            json(&configuration)
        });
        let validating = configurations.validating.map(|mut configuration| {
            annotate(&mut configuration.metadata);
            json(&configuration)
        });
        mutating.into_iter().chain(validating).collect()
    }
}

fn json(object: &impl Serialize) -> Value {
    serde_json::to_value(object).expect("a webhook configuration has no keys other than strings")
}
