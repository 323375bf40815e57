//! Who may ask a server: told by the API server, and remembered for a while.
//!
//! # Invariants
//!
//! 1. Nobody is let in whom the API server has not let in within [`ALLOWED_FOR`]. 2. Tokens stand in no log and no error.
//!
//! # Lock order
//!
//! One of `users` and `permissions`, for a look or a note; the server is asked under none.
//!
//! # Shutdown
//!
//! Nothing runs by itself.

mod memory;
#[cfg(test)]
mod tests;

use std::time::Duration;

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Method, StatusCode};
use informer_client::Client;
use informer_core::Gvr;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::leader::driver::now;
use crate::leader::lease::{exchange, json_request};
use memory::Memory;

/// How long a user is remembered for a token, as upstream.
const USER_FOR: Duration = Duration::from_secs(60);
/// How long permissions are remembered, as upstream.
const ALLOWED_FOR: Duration = Duration::from_secs(300);
/// How long refusals are remembered, as upstream: who is given a permission does not wait long for it.
const DENIED_FOR: Duration = Duration::from_secs(30);
/// Reviews are small; the groups of a user may be some hundreds.
const REVIEW_BYTES_MAX: usize = 1 << 20;
/// Longer tokens are refused unseen: API servers do not read such headers.
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// Why somebody is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("401 unauthorized: a bearer token of the cluster is needed")]
    Unknown,
    #[error("403 forbidden: the user of the token may not do this")]
    Forbidden,
    #[error("500: the API server could not be asked who this is, and what is allowed")]
    Unasked,
}

impl Refused {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::Unasked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// The spec of a SubjectAccessReview, as text: what is remembered by.
type Question = String;

/// Asks the API server about those who ask.
pub(super) struct Access {
    client: Client,
    /// By token; nothing where it is nobody's.
    users: Mutex<Memory<Option<Value>>>,
    permissions: Mutex<Memory<bool>>,
}

impl Access {
    pub(super) fn new(client: Client) -> Self {
        Self { client, users: Mutex::default(), permissions: Mutex::default() }
    }

    /// Whether a request is to be answered.
    pub(super) async fn check(&self, head: &Parts) -> Result<(), Refused> {
        let token = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.split_once(' ')).and_then(|(scheme, token)| {
            let token = token.trim();
            let fits = !token.is_empty() && token.len() <= TOKEN_BYTES_MAX;
            (scheme.eq_ignore_ascii_case("bearer") && fits).then_some(token)
        });
        let user = self.user(token.ok_or(Refused::Unknown)?).await?.ok_or(Refused::Unknown)?;
        let mut question = json!({
            "user": user["username"],
            "groups": user["groups"],
            "uid": user["uid"],
            "nonResourceAttributes": {"path": head.uri.path(), "verb": head.method.as_str().to_ascii_lowercase()},
        });
        if user["extra"].is_object() {
            question["extra"] = user["extra"].clone();
        }
        match self.allows(question).await? {
            true => Ok(()),
            false => Err(Refused::Forbidden),
        }
    }

    async fn user(&self, token: &str) -> Result<Option<Value>, Refused> {
        if let Some(user) = self.users.lock().get(token, now()) {
            return Ok(user);
        }
        let kind = ("authentication.k8s.io", "TokenReview", "tokenreviews");
        let status = self.review(kind, json!({"token": token})).await?;
        let user = (status["authenticated"] == true).then(|| status["user"].clone());
        self.users.lock().put(token.to_owned(), user.clone(), now() + USER_FOR, now());
        Ok(user)
    }

    async fn allows(&self, question: Value) -> Result<bool, Refused> {
        let text: Question = question.to_string();
        if let Some(allowed) = self.permissions.lock().get(&text, now()) {
            return Ok(allowed);
        }
        let kind = ("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews");
        let allowed = self.review(kind, question).await?["allowed"] == true;
        let keep = if allowed { ALLOWED_FOR } else { DENIED_FOR };
        self.permissions.lock().put(text, allowed, now() + keep, now());
        Ok(allowed)
    }

    /// The status of a review.
    async fn review(
        &self,
        (group, kind, resource): (&str, &str, &str),
        spec: Value,
    ) -> Result<Value, Refused> {
        let body = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec});
        let request = json_request(Method::POST, Gvr::new(group, "v1", resource).path(None), Some(body));
        let problem = match exchange(&self.client, request, REVIEW_BYTES_MAX).await {
            Ok((status, mut answer)) if status.is_success() => return Ok(answer["status"].take()),
            Ok((status, answer)) => {
                format!("{}: {}", status.as_u16(), answer["message"].as_str().unwrap_or("without a reason"))
            }
            Err(problem) => problem,
        };
        tracing::warn!(kind, problem, "a review failed, and so nobody is let in");
        Err(Refused::Unasked)
    }
}
