//! The registration of admission webhooks in an API server.

use std::collections::HashMap;

use informer_core::Gvr;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhook,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube_core::ObjectMeta;

use super::{RegisteredWebhook, WebhookOptions};

/// The objects that register the admission webhooks of a server in the API server.
///
/// Rules, paths and options are those of the [registered](super::WebhookServer::registered) webhooks. A
/// webhook is named `VERSION.RESOURCE.GROUP`, with `core` as the group of built-in kinds without one,
/// `pods-exec` for `pods/exec`, and `all` for `*`. It is registered without side effects, so that it is also
/// called for dry runs.
///
/// ```
/// use informer_runtime::webhook::{Allowed, WebhookConfigurations, WebhookServer};
/// use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let server = WebhookServer::standalone().validate::<ConfigMap>(|_| async { Ok(Allowed::new()) });
/// let url = |path: &str| WebhookClientConfig {
///     url: Some(format!("https://webhooks.example.com{path}")),
///     ..WebhookClientConfig::default()
/// };
/// let configurations = WebhookConfigurations::new("shop", server.registered(), url);
/// let webhooks = configurations.validating.and_then(|configuration| configuration.webhooks).unwrap();
/// assert_eq!(webhooks[0].name, "v1.configmaps.core");
/// let url = webhooks[0].client_config.url.as_deref();
/// assert_eq!(url, Some("https://webhooks.example.com/validate--v1-configmap"));
/// assert!(configurations.mutating.is_none());
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct WebhookConfigurations {
    /// Registers the webhooks that change objects; `None` if there are none.
    pub mutating: Option<MutatingWebhookConfiguration>,
    /// Registers the webhooks that validate objects; `None` if there are none.
    pub validating: Option<ValidatingWebhookConfiguration>,
}

impl WebhookConfigurations {
    /// Returns the configurations with this name, of those `webhooks` that are admission webhooks. `client`
    /// returns how the API server connects to the webhook with the given path.
    pub fn new<'a>(
        name: &str,
        webhooks: impl IntoIterator<Item = &'a RegisteredWebhook>,
        client: impl Fn(&str) -> WebhookClientConfig,
    ) -> Self {
        let (mut mutating, mut validating) = (Vec::new(), Vec::new());
        for webhook in webhooks {
            match webhook {
                RegisteredWebhook::Mutating { path, resource, options } => mutating.push(MutatingWebhook {
                    admission_review_versions: vec!["v1".to_owned()],
                    client_config: client(path),
                    failure_policy: Some(options.failure_policy.name().to_owned()),
                    name: webhook_name(resource),
                    namespace_selector: options.namespace_selector.clone(),
                    object_selector: options.object_selector.clone(),
                    rules: Some(vec![rule(resource, options)]),
                    side_effects: "None".to_owned(),
                    timeout_seconds: Some(options.timeout_seconds()),
                    ..MutatingWebhook::default()
                }),
                RegisteredWebhook::Validating { path, resource, options } => {
                    validating.push(ValidatingWebhook {
                        admission_review_versions: vec!["v1".to_owned()],
                        client_config: client(path),
                        failure_policy: Some(options.failure_policy.name().to_owned()),
                        name: webhook_name(resource),
                        namespace_selector: options.namespace_selector.clone(),
                        object_selector: options.object_selector.clone(),
                        rules: Some(vec![rule(resource, options)]),
                        side_effects: "None".to_owned(),
                        timeout_seconds: Some(options.timeout_seconds()),
                        ..ValidatingWebhook::default()
                    });
                }
                RegisteredWebhook::Conversion { .. }
                | RegisteredWebhook::Authentication { .. }
                | RegisteredWebhook::Authorization { .. } => {}
            }
        }
        make_unique(mutating.iter_mut().map(|webhook| &mut webhook.name));
        make_unique(validating.iter_mut().map(|webhook| &mut webhook.name));
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let mutating = (!mutating.is_empty())
            .then(|| MutatingWebhookConfiguration { metadata: metadata.clone(), webhooks: Some(mutating) });
        let validating = (!validating.is_empty())
            .then_some(ValidatingWebhookConfiguration { metadata, webhooks: Some(validating) });
        Self { mutating, validating }
    }
}

fn webhook_name(Gvr { group, version, resource }: &Gvr) -> String {
    let domain = if group.is_empty() { "core" } else { group };
    // The name is a domain, in which the slash of a subresource and the star of a wildcard are invalid.
    format!("{version}.{resource}.{domain}").replace('/', "-").replace('*', "all")
}

/// Numbers the webhooks that have the same resource, because names are unique in a configuration.
fn make_unique<'a>(names: impl Iterator<Item = &'a mut String>) {
    let mut counts = HashMap::new();
    for name in names {
        let count = counts.entry(name.clone()).or_insert(0_usize);
        *count += 1;
        if *count > 1 {
            *name = format!("{count}.{name}");
        }
    }
}

fn rule(Gvr { group, version, resource }: &Gvr, options: &WebhookOptions) -> RuleWithOperations {
    RuleWithOperations {
        api_groups: Some(vec![group.to_string()]),
        api_versions: Some(vec![version.to_string()]),
        operations: Some(options.operations.iter().map(|operation| operation.name().to_owned()).collect()),
        resources: Some(vec![resource.to_string()]),
        ..RuleWithOperations::default()
    }
}
