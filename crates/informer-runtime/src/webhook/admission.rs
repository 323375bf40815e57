//! Admission reviews: from the request to the typed function, and from its answer to the response.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use informer_core::{Gvk, Gvr};
use kube_core::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::patch;

/// What is to be done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum AdmissionOperation {
    /// It is to be created.
    Create,
    /// It is to be changed.
    Update,
    /// It is to be deleted.
    Delete,
    /// Somebody connects to it.
    Connect,
}

/// Who asks for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AdmissionUser {
    /// The name.
    pub username: String,
    /// The uid, where the authenticator has one.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Whatever else the authenticator says.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A request to be admitted.
#[derive(Clone)]
#[non_exhaustive]
pub struct AdmissionRequest<K> {
    /// Identifies the request.
    pub uid: String,
    /// What is done.
    pub operation: AdmissionOperation,
    /// The kind that the objects have here.
    pub kind: Gvk,
    /// The resource that was asked for.
    pub resource: Gvr,
    /// Its subresource; empty where it is the object itself.
    pub subresource: String,
    /// The name; empty where the server makes one up.
    pub name: String,
    /// The namespace; empty where the kind has none.
    pub namespace: String,
    /// Who asks.
    pub user: AdmissionUser,
    /// Whether nothing will be stored: then nothing must be done elsewhere either.
    pub dry_run: bool,
    /// The object as it is to be; none for a deletion.
    pub object: Option<K>,
    /// The object as it is; none for a creation.
    pub old_object: Option<K>,
    /// The options of the request.
    pub options: Value,
}

impl<K> std::fmt::Debug for AdmissionRequest<K> {
    /// Without the objects.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdmissionRequest")
            .field("uid", &self.uid)
            .field("operation", &self.operation)
            .field("kind", &self.kind)
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A request is admitted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "it is the answer"]
pub struct Allowed {
    warnings: Vec<String>,
}

impl Allowed {
    /// Without more words.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a warning for the user, as `kubectl` shows it. Short: servers cut what is long.
    pub fn warning(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }
}

/// A request is not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("denied ({code}): {message}")]
pub struct Denied {
    code: u16,
    reason: Option<String>,
    message: String,
    warnings: Vec<String>,
}

impl Denied {
    /// 403, with a message for the user.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            code: 403,
            reason: Some("Forbidden".to_owned()),
            message: message.into(),
            warnings: Vec::new(),
        }
    }

    /// 422: the object is invalid.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { code: 422, reason: Some("Invalid".to_owned()), ..Self::new(message) }
    }

    /// Another code.
    pub fn code(mut self, code: u16) -> Self {
        (self.code, self.reason) = (code, None);
        self
    }

    /// With a warning.
    pub fn warning(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }

    fn response(self) -> Value {
        let mut status = json!({"status": "Failure", "code": self.code, "message": self.message});
        if let Some(reason) = self.reason {
            status["reason"] = json!(reason);
        }
        with_warnings(json!({"allowed": false, "status": status}), self.warnings)
    }
}

fn with_warnings(mut response: Value, warnings: Vec<String>) -> Value {
    if !warnings.is_empty() {
        response["warnings"] = json!(warnings);
    }
    response
}

/// What stands in a review under `request`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    uid: String,
    operation: AdmissionOperation,
    kind: WireKind,
    resource: WireResource,
    #[serde(default)]
    sub_resource: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    user_info: AdmissionUser,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old_object: Value,
    #[serde(default)]
    options: Value,
}

#[derive(Deserialize)]
struct WireKind {
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
}

#[derive(Deserialize)]
struct WireResource {
    #[serde(default)]
    group: String,
    version: String,
    resource: String,
}

/// Reads a request, and the objects in it. Also answers the object as it came.
fn read<K>(mut review: Value) -> Result<(AdmissionRequest<K>, Value), Denied>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let wrong = |message: String| Denied::new(message).code(400);
    let kind = review["kind"].as_str().unwrap_or_default();
    if kind != "AdmissionReview" {
        return Err(wrong(format!("this webhook answers AdmissionReviews, not {kind}")));
    }
    let version = review["apiVersion"].as_str().unwrap_or_default();
    if !matches!(version, "admission.k8s.io/v1" | "admission.k8s.io/v1beta1") {
        return Err(wrong(format!("this webhook knows v1 and v1beta1 of admission.k8s.io, not {version}")));
    }
    // serde names a field and what it expected, and for scalars the value: of a request's head that is none of the object's.
    let wire: Wire = serde_json::from_value(review["request"].take())
        .map_err(|error| wrong(format!("the request cannot be read: {error}")))?;
    if (&*wire.kind.group, &*wire.kind.kind) != (&*K::group(&()), &*K::kind(&())) {
        let message = format!("this webhook is for {}, and was sent a {}", K::kind(&()), wire.kind.kind);
        return Err(wrong(message));
    }
    let object = typed(&wire.object, "object")?;
    let old_object = typed(&wire.old_object, "oldObject")?;
    let request = AdmissionRequest {
        uid: wire.uid,
        operation: wire.operation,
        kind: Gvk::new(&wire.kind.group, &wire.kind.version, &wire.kind.kind),
        resource: Gvr::new(&wire.resource.group, &wire.resource.version, &wire.resource.resource),
        subresource: wire.sub_resource,
        name: wire.name,
        namespace: wire.namespace,
        user: wire.user_info,
        dry_run: wire.dry_run.unwrap_or(false),
        object,
        old_object,
        options: wire.options,
    };
    Ok((request, wire.object))
}

/// An object, if there is one. The error names the field and no value.
fn typed<K: DeserializeOwned>(object: &Value, name: &str) -> Result<Option<K>, Denied> {
    if object.is_null() {
        return Ok(None);
    }
    let read: Result<K, _> = serde_path_to_error::deserialize(object);
    let failed = |error: serde_path_to_error::Error<serde_json::Error>| {
        Denied::new(format!(
            "{name} cannot be read: the field {} is not what the webhook expects",
            error.path()
        ))
        .code(400)
    };
    read.map(Some).map_err(failed)
}

pub(super) async fn validate<K, F, Fut>(review: Value, validator: &F) -> Value
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
    F: Fn(AdmissionRequest<K>) -> Fut,
    Fut: Future<Output = Result<Allowed, Denied>>,
{
    let decided = match read(review) {
        Ok((request, _)) => validator(request).await,
        Err(denied) => Err(denied),
    };
    match decided {
        Ok(allowed) => with_warnings(json!({"allowed": true}), allowed.warnings),
        Err(denied) => denied.response(),
    }
}

pub(super) async fn default<K, F, Fut>(review: Value, defaulter: &F) -> Value
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone,
    F: Fn(AdmissionRequest<K>, K) -> Fut,
    Fut: Future<Output = Result<K, Denied>>,
{
    match defaulted(review, defaulter).await {
        Ok(Some(operations)) => {
            let patch = STANDARD.encode(Value::Array(operations).to_string());
            json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
        }
        Ok(None) => json!({"allowed": true}),
        Err(denied) => denied.response(),
    }
}

async fn defaulted<K, F, Fut>(review: Value, defaulter: &F) -> Result<Option<Vec<Value>>, Denied>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone,
    F: Fn(AdmissionRequest<K>, K) -> Fut,
    Fut: Future<Output = Result<K, Denied>>,
{
    let (request, raw) = read::<K>(review)?;
    let changes = matches!(request.operation, AdmissionOperation::Create | AdmissionOperation::Update);
    let Some(object) = request.object.clone().filter(|_| changes) else { return Ok(None) };
    let written = |object: &K| {
        serde_json::to_value(object).map_err(|_| Denied::new("the object cannot be written").code(500))
    };
    let before = written(&object)?;
    let after = written(&defaulter(request, object).await?)?;
    let operations = patch::between(&raw, &before, &after);
    Ok((!operations.is_empty()).then_some(operations))
}
