//! Service account tokens: issuing and validation.
//!
//! A token is invalid after its expiry, and after the deletion of its service account or of the object that
//! it is bound to. Each request with the token checks these objects, so a deletion takes effect immediately.
//! kube-apiserver may accept the token for ten more seconds.

use std::sync::Arc;
use std::time::Duration;

use informer_core::Gvr;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::tokens::{BoundKind, BoundObject, Token};
use crate::auth::Auth;
use crate::model::cause::Cause;
use crate::model::error::ApiError;
use crate::model::kinds::KindDefinition;
use crate::model::user::User;
use crate::registry::storage::Stored;

/// The default audience of tokens. In kube-apiserver it is the configurable issuer URL.
pub(super) const AUDIENCE: &str = "https://example.local";
/// Default lifetime of a token in seconds, as in kube-apiserver.
const DEFAULT_SECONDS: i64 = 3600;
/// Minimum lifetime of a token, as in kube-apiserver.
const MIN_SECONDS: i64 = 600;
/// Maximum lifetime of a token, as in kube-apiserver.
const MAX_SECONDS: i64 = 1 << 32;
/// Time for which a token remains valid after the `deletionTimestamp` of its service account or bound object,
/// as in kube-apiserver.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenError {
    Unknown,
    /// The token has expired, its objects were deleted, or it is for another audience.
    Ended(String),
}

impl TokenError {
    pub(super) fn message(&self) -> String {
        let unknown = "invalid bearer token";
        match self {
            Self::Unknown => unknown.to_owned(),
            Self::Ended(why) => format!("[{unknown}, {why}]"),
        }
    }
}

impl BoundKind {
    fn of(reference: &Value) -> Result<Self, ApiError> {
        let text = |name: &str| reference[name].as_str().unwrap_or_default();
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        match (group, text("kind")) {
            ("", "Pod") => Ok(Self::Pod),
            ("", "Secret") => Ok(Self::Secret),
            ("", "Node") => Ok(Self::Node),
            (group, kind) => Err(ApiError::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            ))),
        }
    }

    fn resource(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Secret => "secrets",
            Self::Node => "nodes",
        }
    }

    /// Returns the error message for a bound object whose UID has changed, because it was deleted and
    /// re-created.
    fn mismatch(self, found: &str, wanted: &str) -> String {
        let what = match self {
            Self::Pod => "pod",
            Self::Secret => "secret",
            Self::Node => "node",
        };
        format!("{what} UID ({found}) does not match service account {what} ref claim ({wanted})")
    }
}

impl Auth {
    /// Validates a token. Returns its user, and those of the `wanted` audiences for which the token is valid.
    pub(super) fn bearer(&self, token: &str, wanted: &[&str]) -> Result<(User, Vec<String>), TokenError> {
        if let Some(user) = self.access.known(token) {
            return if wanted.contains(&AUDIENCE) {
                Ok((user.authenticated(), vec![AUDIENCE.to_owned()]))
            } else {
                Err(TokenError::Unknown)
            };
        }
        let token = self.access.issued(token).ok_or(TokenError::Unknown)?;
        let audiences = token.audiences.iter().filter(|audience| wanted.contains(&audience.as_str()));
        let audiences: Vec<String> = audiences.cloned().collect();
        if audiences.is_empty() {
            let (has, wanted) = (go_quoted(&token.audiences), go_quoted(wanted));
            let why = format!("token audiences {has} is invalid for the target audiences {wanted}");
            return Err(TokenError::Ended(why));
        }
        if token.until <= self.clock.elapsed() {
            return Err(TokenError::Ended("service account token has expired".to_owned()));
        }
        self.check_bound_objects(&token).map_err(TokenError::Ended)?;
        Ok((token.user.authenticated(), audiences))
    }

    fn check_bound_objects(&self, token: &Token) -> Result<(), String> {
        let (namespace, name) = (token.account.namespace(), token.account.name());
        let account = self.core_object("serviceaccounts", namespace, name);
        let account = account.map_err(|error| error.message().to_owned())?;
        if *account.uid != token.user.uid {
            let (found, claim) = (&account.uid, &token.user.uid);
            return Err(format!("service account UID ({found}) does not match claim ({claim})"));
        }
        if self.is_over(&account) {
            return Err(format!("service account {} has been deleted", token.account.as_str()));
        }
        let Some(BoundObject { bound_kind, name, uid }) = &token.bound else { return Ok(()) };
        let namespace = namespace.filter(|_| *bound_kind != BoundKind::Node);
        match self.core_object(bound_kind.resource(), namespace, name) {
            Ok(object) if *object.uid != **uid => Err(bound_kind.mismatch(&object.uid, uid)),
            Ok(object) if !self.is_over(&object) => Ok(()),
            _ => Err("service account token has been invalidated".to_owned()),
        }
    }

    fn core_object(
        &self,
        resource: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Arc<Stored>, ApiError> {
        let resource = self.resource(&Gvr::new("", "v1", resource))?;
        self.find(&resource, namespace, name)
    }

    /// Returns true if the `deletionTimestamp` of an object lies further in the past than [`LEEWAY`].
    fn is_over(&self, object: &Stored) -> bool {
        let metadata: Value = serde_json::from_slice(object.metadata()).unwrap_or_default();
        let due: Option<Timestamp> =
            metadata["deletionTimestamp"].as_str().and_then(|text| text.parse().ok());
        due.is_some_and(|due| due < self.clock.timestamp() - LEEWAY)
    }

    pub(crate) fn issue_token(
        &self,
        account: &Stored,
        mut request: Value,
        dry_run: bool,
    ) -> Result<Value, ApiError> {
        let (namespace, name) = (account.key.namespace().unwrap_or_default(), account.key.name());
        let id = uuid::Uuid::new_v4();
        let mut user = User::new(format!("system:serviceaccount:{namespace}:{name}"))
            .uid(&*account.uid)
            .groups(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
        user.extra.insert(CREDENTIAL.to_owned(), vec![format!("JTI={id}")]);
        // Mutating webhooks may have replaced the spec of the TokenRequest by any JSON value.
        let mut spec = match request["spec"].take() {
            Value::Object(spec) => spec,
            _ => Map::new(),
        };
        let reference = spec.get("boundObjectRef").filter(|reference| reference.is_object()).cloned();
        let bound = match &reference {
            Some(reference) => Some(self.bind_token(account, reference, &mut user)?),
            None => None,
        };
        let seconds = seconds_of(spec.get("expirationSeconds"));
        let audiences = spec.get("audiences").and_then(Value::as_array).into_iter().flatten();
        let mut audiences: Vec<String> =
            audiences.filter_map(|audience| audience.as_str().map(str::to_owned)).collect();
        if audiences.is_empty() {
            audiences.push(AUDIENCE.to_owned());
        }
        spec.insert("audiences".into(), json!(audiences));
        spec.insert("boundObjectRef".into(), reference.unwrap_or_default());
        spec.insert("expirationSeconds".into(), seconds.into());
        request["spec"] = spec.into();
        let lasts = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let until = self.clock.elapsed().saturating_add(lasts);
        // The token is an opaque random string and no JWT, because only this server validates it, by a
        // lookup.
        let text = format!("{}.{}", id.simple(), uuid::Uuid::new_v4().simple());
        if !dry_run {
            let token = Token { user, account: account.key.clone(), audiences, bound, until };
            self.access.issue(text.clone(), token);
        }
        let created = self.now();
        request["kind"] = "TokenRequest".into();
        request["apiVersion"] = "authentication.k8s.io/v1".into();
        request["metadata"] =
            json!({"name": name, "namespace": namespace, "uid": &*account.uid, "creationTimestamp": created});
        let expires = crate::model::metadata::wire_time(self.clock.timestamp() + lasts);
        request["status"] = json!({"token": text, "expirationTimestamp": expires});
        Ok(request)
    }

    /// Resolves the object that a token is bound to, and adds its name and UID to the `extra` of the token's
    /// user.
    fn bind_token(
        &self,
        account: &Stored,
        reference: &Value,
        user: &mut User,
    ) -> Result<BoundObject, ApiError> {
        let bound_kind = BoundKind::of(reference)?;
        let name = reference["name"].as_str().unwrap_or_default();
        let namespace = account.key.namespace().filter(|_| bound_kind != BoundKind::Node);
        if name.is_empty() {
            return Err(ApiError::bad_request("Name parameter required."));
        }
        let object = self.core_object(bound_kind.resource(), namespace, name)?;
        if bound_kind == BoundKind::Pod {
            self.add_pod_extra(account.key.name(), &object, user)?;
        } else if bound_kind == BoundKind::Node {
            add_extra(user, "node", name, &object.uid);
        }
        match reference["uid"].as_str() {
            Some(uid) if !uid.is_empty() && *uid != *object.uid => {
                let kind = KindDefinition::custom("", "v1", reference["kind"].as_str().unwrap_or_default());
                let why = format!(
                    "the UID in the bound object reference ({uid}) does not match the UID in record. The object might \
                     have been deleted and then recreated"
                );
                Err(ApiError::precondition(&kind, name, &why))
            }
            _ => Ok(BoundObject { bound_kind, name: name.to_owned(), uid: object.uid.to_string() }),
        }
    }

    /// Adds the pod that a token is bound to, and the pod's node, to the `extra` of the token's user. If the
    /// node does not exist, only its name is added, as in kube-apiserver.
    fn add_pod_extra(&self, account: &str, pod: &Stored, user: &mut User) -> Result<(), ApiError> {
        let spec = crate::model::json::parse(pod.as_slice())["spec"].take();
        let text = |name: &str| spec[name].as_str().unwrap_or_default();
        if text("serviceAccountName") != account {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
            )));
        }
        add_extra(user, "pod", pod.key.name(), &pod.uid);
        let node = text("nodeName");
        if !node.is_empty() {
            let found = self.core_object("nodes", None, node);
            add_extra(user, "node", node, found.as_ref().map_or("", |found| &*found.uid));
        }
        Ok(())
    }
}

/// Validates that a token request names the service account of its path, or none.
pub(crate) fn check_token_name(name: &str, request: &Map<String, Value>) -> Result<(), ApiError> {
    let given = request.get("metadata").and_then(|metadata| metadata["name"].as_str());
    if let Some(given) = given.filter(|given| !given.is_empty() && *given != name) {
        let why = "must match the service account name if specified";
        let cause = Cause::invalid("metadata.name", &Value::from(given).to_string(), why);
        return Err(ApiError::invalid(&token_request(), name, cause));
    }
    Ok(())
}

/// Validates the UID and the duration of a token request.
pub(crate) fn check_token_request(account: &Stored, request: &Map<String, Value>) -> Result<(), ApiError> {
    let uid = request.get("metadata").and_then(|metadata| metadata["uid"].as_str()).unwrap_or_default();
    if !uid.is_empty() && *uid != *account.uid {
        let why = format!(
            "the UID in the token request ({uid}) does not match the UID of the service account ({})",
            account.uid
        );
        return Err(ApiError::precondition(&token_request(), account.key.name(), &why));
    }
    let seconds = seconds_of(request.get("spec").and_then(|spec| spec.get("expirationSeconds")));
    let why = match seconds {
        ..MIN_SECONDS => "may not specify a duration less than 10 minutes",
        MIN_SECONDS..=MAX_SECONDS => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let cause = Cause::invalid("spec.expirationSeconds", &seconds.to_string(), why);
    Err(ApiError::invalid(&token_request(), "", cause))
}

fn add_extra(user: &mut User, what: &str, name: &str, uid: &str) {
    for (member, text) in [("name", name), ("uid", uid)] {
        if !text.is_empty() {
            user.extra.insert(format!("authentication.kubernetes.io/{what}-{member}"), vec![text.to_owned()]);
        }
    }
}

fn seconds_of(given: Option<&Value>) -> i64 {
    given.and_then(Value::as_i64).unwrap_or(DEFAULT_SECONDS)
}

fn token_request() -> KindDefinition {
    KindDefinition::custom("authentication.k8s.io", "v1", "TokenRequest")
}

/// Formats a list of strings as Go's `%q` formats a slice.
fn go_quoted(texts: &[impl AsRef<str>]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("{:?}", text.as_ref())).collect();
    format!("[{}]", texts.join(" "))
}
