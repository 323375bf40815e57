//! The objects into which the trusted authorities are injected, so that API servers trust the certificate of
//! a server.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use informer_core::Gvr;
use serde_json::{Value, json};

/// An object that contains the authorities which the API server trusts for a server (`caBundle`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) kind: TargetKind,
    pub(super) name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetKind {
    MutatingWebhook,
    ValidatingWebhook,
    Conversion,
    ApiService,
}

/// The server whose callers get the `caBundle`.
pub(super) struct Callee<'a> {
    pub(super) namespace: &'a str,
    pub(super) service: &'a str,
    /// The host names and IP addresses of the certificate.
    pub(super) names: &'a [String],
}

impl Callee<'_> {
    fn is_called_by(&self, client: &Value) -> bool {
        let service = &client["service"];
        if service.is_object() {
            return service["name"] == self.service && service["namespace"] == self.namespace;
        }
        let uri = client["url"].as_str().and_then(|url| url.parse::<http::Uri>().ok());
        let host = uri.as_ref().and_then(http::Uri::host).map(|host| host.trim_matches(['[', ']']));
        host.is_some_and(|host| self.names.iter().any(|name| name == host))
    }
}

impl Target {
    pub(super) fn resource(&self) -> Gvr {
        match self.kind {
            TargetKind::MutatingWebhook => {
                Gvr::new("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations")
            }
            TargetKind::ValidatingWebhook => {
                Gvr::new("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
            }
            TargetKind::Conversion => Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
            TargetKind::ApiService => Gvr::new("apiregistration.k8s.io", "v1", "apiservices"),
        }
    }

    /// Returns the JSON pointers of the client configurations in the object that call the server.
    fn client_configs(&self, object: &Value, callee: &Callee<'_>) -> Vec<String> {
        let calls = |pointer: String| {
            object.pointer(&pointer).is_some_and(|client| callee.is_called_by(client)).then_some(pointer)
        };
        match self.kind {
            TargetKind::MutatingWebhook | TargetKind::ValidatingWebhook => {
                let count = object["webhooks"].as_array().map_or(0, Vec::len);
                (0..count).filter_map(|index| calls(format!("/webhooks/{index}/clientConfig"))).collect()
            }
            TargetKind::Conversion => {
                calls("/spec/conversion/webhook/clientConfig".to_owned()).into_iter().collect()
            }
            TargetKind::ApiService => calls("/spec".to_owned()).into_iter().collect(),
        }
    }

    /// Returns the JSON patch that makes an object trust the bundle, provided that the object is still the
    /// one that was read. Returns `None` if it trusts the bundle, or does not call the server.
    pub(super) fn patch(&self, object: &Value, callee: &Callee<'_>, bundle: &str) -> Option<Value> {
        let bundle = json!(STANDARD.encode(bundle));
        let stale = self
            .client_configs(object, callee)
            .into_iter()
            .map(|pointer| format!("{pointer}/caBundle"))
            .filter(|pointer| object.pointer(pointer) != Some(&bundle));
        let mut operations: Vec<Value> =
            stale.map(|path| json!({"op": "add", "path": path, "value": bundle})).collect();
        if operations.is_empty() {
            return None;
        }
        let version = &object["metadata"]["resourceVersion"];
        operations.insert(0, json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}));
        Some(Value::Array(operations))
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            TargetKind::MutatingWebhook => "MutatingWebhookConfiguration",
            TargetKind::ValidatingWebhook => "ValidatingWebhookConfiguration",
            TargetKind::Conversion => "CustomResourceDefinition",
            TargetKind::ApiService => "APIService",
        };
        write!(f, "{kind} {}", self.name)
    }
}
