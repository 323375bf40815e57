//! Admission reviews: decodes the request, calls the typed validator or defaulter, and encodes the response.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use informer_client::ListKeys;
use informer_core::{Gvk, Gvr};
use kube_core::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::patch;

/// The operation of the client's request that an admission webhook reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum AdmissionOperation {
    /// The client's request creates the reviewed object.
    Create,
    /// The client's request updates the reviewed object.
    Update,
    /// The client's request deletes the reviewed object.
    Delete,
    /// The client's request connects to a subresource of the reviewed object, such as `pods/exec`.
    Connect,
}

impl AdmissionOperation {
    /// Returns the name of the operation in the rules of webhook configurations.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The user who sent the request that an admission webhook reviews, as authenticated by the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AdmissionUser {
    /// The name of the user, such as `system:serviceaccount:default:web`.
    pub username: String,
    /// The uid of the user. It is empty if the authenticator provides none.
    pub uid: String,
    /// The groups to which the user belongs, such as `system:authenticated`.
    pub groups: Vec<String>,
    /// Further information about the user from the authenticator, such as scopes.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A request that an admission webhook reviews. The API server sends it before it stores the change.
#[derive(Clone)]
#[non_exhaustive]
pub struct AdmissionRequest<K> {
    /// The uid of the review, which the API server uses to match the response. It is not the uid of the
    /// object.
    pub uid: String,
    /// The reviewed operation: create, update, delete or connect.
    pub operation: AdmissionOperation,
    /// The kind of the objects in this request, which the webhook decodes.
    pub kind: Gvk,
    /// The requested resource, such as `deployments` of `apps/v1`.
    pub resource: Gvr,
    /// The requested subresource, such as `status`; empty for the object itself.
    pub subresource: String,
    /// The name of the object; empty if the server generates the name.
    pub name: String,
    /// The namespace of the object; empty for cluster-scoped kinds.
    pub namespace: String,
    /// The user who sent the reviewed request to the API server.
    pub user: AdmissionUser,
    /// True if the server will not store the object (dry run). The webhook must then have no side effects.
    pub dry_run: bool,
    /// The new object, after the requested change. `None` for a deletion, and for a
    /// [connection](AdmissionOperation::Connect), whose object is of another kind.
    pub object: Option<K>,
    /// The options of the request. For a [connection](AdmissionOperation::Connect) they are the object of the
    /// review, such as `PodExecOptions`.
    pub options: Value,
    /// The object before the requested change, as JSON that the API server sent. It is decoded on demand.
    pub(super) old: Value,
    pub(super) typed: PhantomData<fn() -> K>,
}

impl<K: DeserializeOwned> AdmissionRequest<K> {
    /// Decodes the stored object, which the request updates or deletes. Returns `None` for a creation and for
    /// a connection. Each call decodes the object again.
    ///
    /// # Errors
    ///
    /// Returns an error if the stored object cannot be decoded as the type, for example because it was stored
    /// under an older schema. A validator that returns this error with `?` denies the request. A validator
    /// should consider allowing it: if it denies every change and deletion of such an object, the object can
    /// be neither repaired nor removed.
    pub fn old_object(&self) -> Result<Option<K>, UndecodableObject> {
        decoded(&self.old, "oldObject")
    }
}

/// The error for an object of a review that cannot be decoded as the type of its webhook. The message
/// contains the name of the field but no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name} cannot be decoded: the value of {field} does not match the type of the webhook; correct the object"
)]
pub struct UndecodableObject {
    name: &'static str,
    field: String,
}

impl From<UndecodableObject> for Denied {
    /// Converts the error to a denial with code 400, so that a validator can return it with `?`.
    fn from(error: UndecodableObject) -> Self {
        Self::new(error.to_string()).code(400)
    }
}

impl<K> std::fmt::Debug for AdmissionRequest<K> {
    /// Formats the request without its objects for logs, because objects such as Secrets must not be logged.
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

/// The response of an admission webhook that allows the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "return it from the webhook"]
pub struct Allowed {
    warnings: Vec<String>,
    audit: BTreeMap<String, String>,
}

impl Allowed {
    /// Creates a response that allows the request without warnings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a warning, which `kubectl` prints for the user. Servers truncate long warnings.
    pub fn warning(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }

    /// Adds an annotation to the audit event of the request. The API server adds the name of the webhook in
    /// front of the key.
    pub fn audit(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.audit.insert(key.into(), value.into());
        self
    }

    pub(super) fn response(self) -> Value {
        let mut response = json!({"allowed": true});
        if !self.audit.is_empty() {
            response["auditAnnotations"] = json!(self.audit);
        }
        with_warnings(response, self.warnings)
    }
}

/// The response of an admission webhook that denies the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("denied ({code}): {message}")]
pub struct Denied {
    code: u16,
    reason: Option<String>,
    message: String,
    causes: Vec<Cause>,
    warnings: Vec<String>,
}

/// An entry of `details.causes` in the status of a denied request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Cause {
    reason: String,
    message: String,
    field: String,
}

impl Denied {
    /// Creates a denial with code 403. The API server returns `message` to the user.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            code: 403,
            reason: Some("Forbidden".to_owned()),
            message: message.into(),
            causes: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Creates a denial with code 422, which means that the object is invalid. The API server returns the
    /// message to the user.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { code: 422, reason: Some("Invalid".to_owned()), ..Self::new(message) }
    }

    /// Sets the HTTP status code with which the API server responds to the denied request.
    pub fn code(mut self, code: u16) -> Self {
        (self.code, self.reason) = (code, None);
        self
    }

    /// Adds a warning to the denial, which `kubectl` prints for the user.
    pub fn warning(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }

    /// Adds a cause to the denial (`details.causes` of the status), for programs that read it. `field` is the
    /// path of the field, such as `spec.replicas`, and `reason` one of the API, such as `FieldValueInvalid`
    /// or `FieldValueRequired`. `kubectl` prints only the message of the denial, so that it should name the
    /// field, too.
    pub fn cause(
        mut self,
        field: impl Into<String>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        self.causes.push(Cause { reason: reason.into(), message: message.into(), field: field.into() });
        self
    }

    pub(super) fn response(self) -> Value {
        let mut status = json!({"status": "Failure", "code": self.code, "message": self.message});
        if let Some(reason) = self.reason {
            status["reason"] = json!(reason);
        }
        if !self.causes.is_empty() {
            status["details"] = json!({"causes": self.causes});
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

/// The field `request` of an AdmissionReview, whose objects are not decoded to their types yet.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestWire {
    uid: String,
    operation: AdmissionOperation,
    kind: KindWire,
    resource: ResourceWire,
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
    pub(super) object: Value,
    #[serde(default)]
    old_object: Value,
    #[serde(default)]
    pub(super) options: Value,
}

#[derive(Deserialize)]
struct KindWire {
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
}

#[derive(Deserialize)]
struct ResourceWire {
    #[serde(default)]
    group: String,
    version: String,
    resource: String,
}

/// Checks that a review is an AdmissionReview of a supported version, and decodes its `request`. The objects
/// in the request stay JSON.
pub(super) fn read_request(mut review: Value) -> Result<RequestWire, Denied> {
    let wrong = |message: String| Denied::new(message).code(400);
    let kind = review["kind"].as_str().unwrap_or_default();
    if kind != "AdmissionReview" {
        return Err(wrong(format!("this webhook handles AdmissionReview, not {kind}")));
    }
    let version = review["apiVersion"].as_str().unwrap_or_default();
    if !matches!(version, "admission.k8s.io/v1" | "admission.k8s.io/v1beta1") {
        return Err(wrong(format!(
            "this webhook supports v1 and v1beta1 of admission.k8s.io, not {version}"
        )));
    }
    // The serde error contains the name of a field, and possibly a scalar value of it. The objects in the
    // request are not decoded here, so no value of them can appear in the error.
    serde_json::from_value(review["request"].take())
        .map_err(|error| wrong(format!("the request is invalid: {error}")))
}

/// Reads an AdmissionReview like [`read_request`], and checks that it is for the kind of this webhook.
fn read<K: Resource<DynamicType = ()>>(review: Value) -> Result<RequestWire, Denied> {
    let wire = read_request(review)?;
    // When a client connects to a subresource, the object of the review is the options of the subresource,
    // such as PodExecOptions. Its kind is therefore not compared with that of the webhook.
    if !wire.is_of::<K>() && wire.operation != AdmissionOperation::Connect {
        let message = format!("this webhook handles {}, not {}", K::kind(&()), wire.kind.kind);
        return Err(Denied::new(message).code(400));
    }
    Ok(wire)
}

impl RequestWire {
    fn is_of<K: Resource<DynamicType = ()>>(&self) -> bool {
        (&*self.kind.group, &*self.kind.kind) == (&*K::group(&()), &*K::kind(&()))
    }

    /// Decodes the new object of a review to `K`, unless it is of another kind, such as the options of a
    /// connection. Also returns the object as JSON, as the API server sent it.
    fn decode<K>(self) -> Result<(AdmissionRequest<K>, Value), UndecodableObject>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let of_another_kind = !self.is_of::<K>();
        let object = if of_another_kind { None } else { decoded(&self.object, "object")? };
        let raw = if of_another_kind { Value::Null } else { self.object.clone() };
        let options = if of_another_kind { self.object.clone() } else { self.options.clone() };
        Ok((self.request(object, options), raw))
    }

    pub(super) fn request<K>(self, object: Option<K>, options: Value) -> AdmissionRequest<K> {
        AdmissionRequest {
            uid: self.uid,
            operation: self.operation,
            kind: Gvk::new(&self.kind.group, &self.kind.version, &self.kind.kind),
            resource: Gvr::new(&self.resource.group, &self.resource.version, &self.resource.resource),
            subresource: self.sub_resource,
            name: self.name,
            namespace: self.namespace,
            user: self.user_info,
            dry_run: self.dry_run.unwrap_or(false),
            object,
            options,
            old: self.old_object,
            typed: PhantomData,
        }
    }
}

pub(super) fn decoded<K: DeserializeOwned>(
    object: &Value,
    name: &'static str,
) -> Result<Option<K>, UndecodableObject> {
    if object.is_null() {
        return Ok(None);
    }
    let read: Result<K, _> = serde_path_to_error::deserialize(object);
    read.map(Some).map_err(|error| UndecodableObject { name, field: error.path().to_string() })
}

pub(super) async fn validate<K, F, Fut>(review: Value, validator: &F) -> Value
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
    F: Fn(AdmissionRequest<K>) -> Fut,
    Fut: Future<Output = Result<Allowed, Denied>>,
{
    let read = read::<K>(review).and_then(|wire| Ok(wire.decode::<K>()?));
    let decided = match read {
        Ok((request, _)) => validator(request).await,
        Err(denied) => Err(denied),
    };
    decided.map_or_else(Denied::response, Allowed::response)
}

pub(super) async fn default<K, F, Fut>(review: Value, defaulter: &F, keys: &ListKeys) -> Value
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone,
    F: Fn(AdmissionRequest<K>, K) -> Fut,
    Fut: Future<Output = Result<K, Denied>>,
{
    match defaulted(review, defaulter, keys).await {
        Ok(operations) => patched(operations),
        Err(denied) => denied.response(),
    }
}

/// Returns the response that allows a request with a JSON patch of its object.
pub(super) fn patched(operations: Vec<Value>) -> Value {
    if operations.is_empty() {
        return json!({"allowed": true});
    }
    let patch = STANDARD.encode(Value::Array(operations).to_string());
    json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
}

async fn defaulted<K, F, Fut>(review: Value, defaulter: &F, keys: &ListKeys) -> Result<Vec<Value>, Denied>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone,
    F: Fn(AdmissionRequest<K>, K) -> Fut,
    Fut: Future<Output = Result<K, Denied>>,
{
    let wire = read::<K>(review)?;
    if !matches!(wire.operation, AdmissionOperation::Create | AdmissionOperation::Update) {
        return Ok(Vec::new());
    }
    // If an object that is being deleted cannot be decoded, its update is allowed unchanged. It needs no
    // defaults any more, and if updates were denied, its finalizers could not be removed.
    let in_deletion = !wire.object["metadata"]["deletionTimestamp"].is_null();
    let (request, raw) = match wire.decode::<K>() {
        Err(_) if in_deletion => return Ok(Vec::new()),
        read => read?,
    };
    let Some(object) = request.object.clone() else { return Ok(Vec::new()) };
    let written = |object: &K| {
        serde_json::to_value(object).map_err(|_| Denied::new("the object cannot be encoded").code(500))
    };
    let before = written(&object)?;
    let after = written(&defaulter(request, object).await?)?;
    Ok(patch::between(&raw, &before, &after, keys))
}
