//! Authentication and authorization webhooks: TokenReviews and SubjectAccessReviews of an API server.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A kind of review that an API server sends to a webhook, and whose status the webhook fills in.
#[derive(Debug, Clone, Copy)]
pub(super) struct AccessReview {
    kind: &'static str,
    group: &'static str,
}

pub(super) const TOKEN_REVIEW: AccessReview =
    AccessReview { kind: "TokenReview", group: "authentication.k8s.io" };

pub(super) const SUBJECT_ACCESS_REVIEW: AccessReview =
    AccessReview { kind: "SubjectAccessReview", group: "authorization.k8s.io" };

impl AccessReview {
    /// Decodes the `spec` of a review.
    ///
    /// # Errors
    ///
    /// Returns the problem if the review is of another kind or version, or cannot be decoded. It contains no
    /// value of the review, because a token is secret.
    pub(super) fn spec<S: DeserializeOwned>(self, mut review: Value) -> Result<S, String> {
        let Self { kind, group } = self;
        let (version, sent) = (
            review["apiVersion"].as_str().unwrap_or_default().to_owned(),
            review["kind"].as_str().unwrap_or_default(),
        );
        if sent != kind {
            return Err(format!("this webhook handles {kind}, not {sent}"));
        }
        let version = version.strip_prefix(group).and_then(|version| version.strip_prefix('/'));
        if !matches!(version, Some("v1" | "v1beta1")) {
            return Err(format!("this webhook supports v1 and v1beta1 of {group}"));
        }
        let mut spec = review["spec"].take();
        // The field has another name in v1beta1 of SubjectAccessReview.
        if version == Some("v1beta1")
            && let Some(groups) = spec.as_object_mut().and_then(|spec| spec.remove("group"))
        {
            spec["groups"] = groups;
        }
        let decoded: Result<S, _> = serde_path_to_error::deserialize(spec);
        decoded.map_err(|error| format!("the field spec.{} is invalid", error.path()))
    }

    /// Returns the response to a review of a version.
    pub(super) fn response(self, api_version: &str, status: &impl Serialize) -> Value {
        json!({"apiVersion": api_version, "kind": self.kind, "status": status})
    }
}
