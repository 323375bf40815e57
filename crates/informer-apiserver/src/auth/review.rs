//! Reviews: questions about users and what they may do. They are answered and not stored.

use informer_core::Gvr;
use serde_json::{Value, json};

use super::{Attributes, User};
use crate::error::{ApiError, Cause};
use crate::kinds::Kind;
use crate::server::{Shared, parse};
use crate::storage::Stored;

/// Who tokens are for where a request does not say; upstream's is the issuer, which servers choose.
const AUDIENCE: &str = "https://example.local";
/// How long a token lasts where a request does not say, as upstream.
const TOKEN_SECONDS: i64 = 3600;
/// The shortest life of a token, as upstream.
const TOKEN_SECONDS_MIN: i64 = 600;

impl Shared {
    /// Answers a review.
    pub(crate) fn review(&self, user: &User, kind: &Kind, mut review: Value) -> Result<Value, ApiError> {
        if !review.is_object() {
            return Err(ApiError::bad_request("a review is an object"));
        }
        review["kind"] = kind.kind.clone().into();
        review["apiVersion"] = kind.api_version.clone().into();
        if !review["metadata"].is_object() {
            review["metadata"] = json!({});
        }
        match kind.kind.as_str() {
            "SelfSubjectReview" => {
                review["metadata"]["creationTimestamp"] = self.now().into();
                review["status"] = json!({"userInfo": user.info()});
            }
            "TokenReview" => review["status"] = self.token_review(&review["spec"])?,
            "SelfSubjectAccessReview" => {
                review["status"] = self.access_review(kind, user, &review["spec"])?;
            }
            "SelfSubjectRulesReview" => {
                let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
                if namespace.is_empty() {
                    return Err(ApiError::bad_request("no namespace on request"));
                }
                let (resource, other) = self.rules_of(user, namespace);
                review["status"] =
                    json!({"resourceRules": resource, "nonResourceRules": other, "incomplete": false});
            }
            _ => {
                let asked = asked_user(kind, &review["spec"])?;
                review["status"] = self.access_review(kind, &asked, &review["spec"])?;
            }
        }
        Ok(review)
    }

    fn access_review(&self, kind: &Kind, user: &User, spec: &Value) -> Result<Value, ApiError> {
        let Some(attributes) = Attributes::of_review(spec) else {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            return Err(invalid(kind, Cause::invalid("spec.resourceAttributes", "null", why)));
        };
        Ok(match self.allows(user, &attributes) {
            None => json!({"allowed": false}),
            Some(reason) if reason.is_empty() => json!({"allowed": true}),
            Some(reason) => json!({"allowed": true, "reason": reason}),
        })
    }

    fn token_review(&self, spec: &Value) -> Result<Value, ApiError> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
        }
        Ok(match self.access.user_of(token, self.clock.elapsed()) {
            Some(user) => json!({"authenticated": true, "user": user.info(), "audiences": [AUDIENCE]}),
            None => json!({"user": {}, "error": "invalid bearer token"}),
        })
    }

    /// Issues a token for a service account.
    pub(crate) fn issue_token(
        &self,
        account: &Stored,
        mut request: Value,
        dry_run: bool,
    ) -> Result<Value, ApiError> {
        let (namespace, name) = (account.key.namespace().unwrap_or_default(), account.key.name());
        let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(TOKEN_SECONDS);
        if seconds < TOKEN_SECONDS_MIN {
            let kind = Kind::custom("authentication.k8s.io", "v1", "TokenRequest");
            let why = "may not specify a duration less than 10 minutes";
            let cause = Cause::invalid("spec.expirationSeconds", &seconds.to_string(), why);
            return Err(ApiError::invalid(&kind, "", cause));
        }
        let user = User::new(format!("system:serviceaccount:{namespace}:{name}"))
            .uid(&*account.uid)
            .groups(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
        // It only has to be unknown to others: this server looks it up, and reads nothing from it.
        let token = format!("{}.{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        let lasts = std::time::Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        if !dry_run {
            self.access.issue(token.clone(), user, self.clock.elapsed().saturating_add(lasts));
        }
        let until = crate::write::wire_time(self.clock.timestamp() + lasts);
        let created = self.now();
        request["kind"] = "TokenRequest".into();
        request["apiVersion"] = "authentication.k8s.io/v1".into();
        request["metadata"] =
            json!({"name": name, "namespace": namespace, "uid": &*account.uid, "creationTimestamp": created});
        request["spec"]["expirationSeconds"] = seconds.into();
        if !request["spec"]["audiences"].is_array() {
            request["spec"]["audiences"] = json!([AUDIENCE]);
        }
        if request["spec"].get("boundObjectRef").is_none() {
            request["spec"]["boundObjectRef"] = Value::Null;
        }
        request["status"] = json!({"token": token, "expirationTimestamp": until});
        Ok(request)
    }

    /// Whether the account of an issued token still is there, as the one that it was issued for.
    pub(crate) fn account_lives(&self, user: &User) -> bool {
        let Some((namespace, name)) =
            user.name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
        else {
            return true;
        };
        let Ok(resource) = self.resource(&Gvr::new("", "v1", "serviceaccounts")) else { return false };
        let found = self.find(&resource, Some(namespace), name);
        user.uid.is_empty()
            || found.is_ok_and(|found| parse(found.as_slice())["metadata"]["uid"] == user.uid.as_str())
    }
}

fn asked_user(kind: &Kind, spec: &Value) -> Result<User, ApiError> {
    let name = spec["user"].as_str().unwrap_or_default();
    let groups: Vec<&str> =
        spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if name.is_empty() && groups.is_empty() {
        let why = "at least one of user or group must be specified";
        return Err(invalid(kind, Cause::invalid("spec.user", "\"\"", why)));
    }
    Ok(User::new(name).groups(groups))
}

/// Upstream names no kind in the errors of access reviews.
fn invalid(kind: &Kind, cause: Cause) -> ApiError {
    let message = format!(".{} \"\" is invalid: {}: {}", kind.gvr.group, cause.field, cause.message);
    let mut error = ApiError::invalid(kind, "", cause);
    error.message = message;
    if let Some(details) = &mut error.details {
        details.kind.clear();
    }
    error
}
