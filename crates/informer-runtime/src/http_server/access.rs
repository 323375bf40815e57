//! Authentication and authorization of requests by the API server (TokenReview and SubjectAccessReview), with
//! a cache.
//!
//! # Invariants
//!
//! 1. No request is served that the API server has not allowed within [`ALLOWED_FOR`].
//! 2. Tokens are in no log and in no error, and none is kept in memory: the cache knows a keyed hash.
//! 3. Requests that the API server refuses cause at most [`limit::UNKNOWN_BURST`] reviews of each type at
//!    once, and [`limit::UNKNOWN_PER_SECOND`] after that.
//!
//! # Lock order
//!
//! One lock at a time. No request is sent under a lock.
//!
//! # Shutdown
//!
//! Nothing runs by itself.

mod limit;
mod memory;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};
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
use limit::Limit;
use memory::{Known, Memory};

/// How long a user is remembered for a token, as upstream.
const USER_FOR: Duration = Duration::from_secs(60);
/// How long permissions are remembered, as upstream.
const ALLOWED_FOR: Duration = Duration::from_secs(300);
/// How long refusals are remembered, as upstream: who is given a permission does not wait long for it.
const DENIED_FOR: Duration = Duration::from_secs(30);
/// Reviews are small; the groups of a user may be some hundreds.
const MAX_REVIEW_BYTES: usize = 1 << 20;
/// Longer tokens are refused unseen: API servers do not read such headers.
const MAX_TOKEN_BYTES: usize = 64 << 10;

/// Why somebody is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("401 unauthorized: a bearer token of the cluster is needed")]
    Unknown,
    #[error("403 forbidden: the user of the token may not do this")]
    Forbidden,
    #[error("429 too many requests: reviews of unknown clients are limited; try again in a second")]
    TooMany,
    #[error("500: the API server could not be asked who this is, and what is allowed")]
    Unasked,
}

impl Refused {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::Unasked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// The spec of a SubjectAccessReview as text.
type Question = String;

/// A keyed hash of a token, of 128 bits.
type TokenHash = [u64; 2];

/// Authenticates and authorizes requests.
pub(super) struct Access {
    client: Client,
    /// The keys of [`TokenHash`], drawn at random.
    keys: [RandomState; 2],
    /// By token; `None` for invalid ones.
    users: Mutex<Memory<TokenHash, Option<Value>>>,
    permissions: Mutex<Memory<Question, bool>>,
    unknown_tokens: Mutex<Limit>,
    denials: Mutex<Limit>,
}

impl Access {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            keys: [RandomState::new(), RandomState::new()],
            users: Mutex::default(),
            permissions: Mutex::default(),
            unknown_tokens: Mutex::default(),
            denials: Mutex::default(),
        }
    }

    /// Whether a request is to be answered.
    pub(super) async fn check(&self, head: &Parts) -> Result<(), Refused> {
        let token = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.split_once(' ')).and_then(|(scheme, token)| {
            let token = token.trim();
            let fits = !token.is_empty() && token.len() <= MAX_TOKEN_BYTES;
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

    /// Returns the user of a token; `None` for an invalid token.
    async fn user(&self, token: &str) -> Result<Option<Value>, Refused> {
        let hash = self.keys.each_ref().map(|key| key.hash_one(token));
        let known = self.users.lock().get(&hash, now());
        // A token that was valid before is reviewed without a limit: it is not part of a flood of guessed ones.
        let limited = match known {
            Known::Valid(user) => return Ok(user),
            Known::Expired(Some(_)) => None,
            Known::Expired(None) | Known::Nothing => Some(&self.unknown_tokens),
        };
        take(limited)?;
        let kind = ("authentication.k8s.io", "TokenReview", "tokenreviews");
        let status = self.review(kind, json!({"token": token})).await?;
        let user = (status["authenticated"] == true).then(|| status["user"].clone());
        if user.is_some() {
            give_back(limited);
        }
        self.users.lock().put(hash, user.clone(), now() + USER_FOR, now());
        Ok(user)
    }

    async fn allows(&self, question: Value) -> Result<bool, Refused> {
        let text: Question = question.to_string();
        let known = self.permissions.lock().get(&text, now());
        let limited = match known {
            Known::Valid(allowed) => return Ok(allowed),
            Known::Expired(true) => None,
            Known::Expired(false) | Known::Nothing => Some(&self.denials),
        };
        take(limited)?;
        let kind = ("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews");
        let allowed = self.review(kind, question).await?["allowed"] == true;
        if allowed {
            give_back(limited);
        }
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
        let problem = match exchange(&self.client, request, MAX_REVIEW_BYTES).await {
            Ok((status, mut answer)) if status.is_success() => return Ok(answer["status"].take()),
            Ok((status, answer)) => {
                format!("{}: {}", status.as_u16(), answer["message"].as_str().unwrap_or("without a reason"))
            }
            Err(failure) => failure.problem,
        };
        tracing::warn!(kind, problem, "a review failed; denying the request");
        Err(Refused::Unasked)
    }
}

fn take(limited: Option<&Mutex<Limit>>) -> Result<(), Refused> {
    match limited.is_none_or(|limit| limit.lock().take(now())) {
        true => Ok(()),
        false => Err(Refused::TooMany),
    }
}

fn give_back(limited: Option<&Mutex<Limit>>) {
    if let Some(limit) = limited {
        limit.lock().give_back(now());
    }
}
