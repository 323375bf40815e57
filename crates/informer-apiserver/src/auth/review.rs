//! Access reviews, rules reviews and token reviews. The server evaluates and returns these objects, but does
//! not store them.

use serde_json::{Value, json};

use super::AuthorizationAttributes;
use super::accounts::AUDIENCE;
use super::rbac::missing_roles_error;
use super::rule::PolicyRule;
use crate::auth::Auth;
use crate::model::cause::Cause;
use crate::model::error::ApiError;
use crate::model::kinds::KindDefinition;
use crate::model::user::User;

impl Auth {
    pub(crate) fn review(
        &self,
        user: &User,
        kind: &KindDefinition,
        mut review: Value,
    ) -> Result<Value, ApiError> {
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
                review["status"] = self.rules_review(user, namespace);
            }
            _ => {
                let reviewed = reviewed_user(kind, &review["spec"])?;
                review["status"] = self.access_review(kind, &reviewed, &review["spec"])?;
            }
        }
        Ok(review)
    }

    fn access_review(&self, kind: &KindDefinition, user: &User, spec: &Value) -> Result<Value, ApiError> {
        let Some(attributes) = AuthorizationAttributes::of_review(spec) else {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            return Err(invalid(kind, Cause::invalid("spec.resourceAttributes", "null", why)));
        };
        Ok(match self.allows(user, &attributes) {
            Ok(reason) => decided(true, reason),
            Err(reason) => decided(false, reason),
        })
    }

    fn rules_review(&self, user: &User, namespace: &str) -> Value {
        let held = self.held(user, namespace);
        let (of_paths, of_resources): (Vec<&PolicyRule>, Vec<&PolicyRule>) =
            held.rules.iter().partition(|rule| !rule.paths.is_empty());
        let shown = |rules: Vec<&PolicyRule>| rules.into_iter().map(PolicyRule::shown).collect::<Vec<_>>();
        let mut status = json!({
            "resourceRules": shown(of_resources), "nonResourceRules": shown(of_paths), "incomplete": false,
        });
        if let Some(error) = missing_roles_error(&held.missing) {
            status["evaluationError"] = error.into();
        }
        status
    }

    fn token_review(&self, spec: &Value) -> Result<Value, ApiError> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
        }
        let mut audiences_wanted: Vec<&str> =
            spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if audiences_wanted.is_empty() {
            audiences_wanted.push(AUDIENCE);
        }
        Ok(match self.bearer(token, &audiences_wanted) {
            Ok((user, audiences)) => {
                json!({"authenticated": true, "user": user.info(), "audiences": audiences})
            }
            Err(error) => json!({"user": {}, "error": error.message()}),
        })
    }
}

fn decided(allowed: bool, reason: String) -> Value {
    if reason.is_empty() {
        json!({"allowed": allowed})
    } else {
        json!({"allowed": allowed, "reason": reason})
    }
}

fn reviewed_user(kind: &KindDefinition, spec: &Value) -> Result<User, ApiError> {
    let name = spec["user"].as_str().unwrap_or_default();
    let groups: Vec<&str> =
        spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if name.is_empty() && groups.is_empty() {
        let why = "at least one of user or group must be specified";
        return Err(invalid(kind, Cause::invalid("spec.user", "\"\"", why)));
    }
    Ok(User::new(name).groups(groups))
}

/// Returns the error for an invalid access review. As in kube-apiserver, it does not name the kind.
fn invalid(kind: &KindDefinition, cause: Cause) -> ApiError {
    let message = format!(".{} \"\" is invalid: {}: {}", kind.gvr.group, cause.field, cause.message);
    let mut error = ApiError::invalid(kind, "", cause);
    error.message = message;
    if let Some(details) = &mut error.details {
        details.kind.clear();
    }
    error
}
