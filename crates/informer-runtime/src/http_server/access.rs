//! Authentication and authorization of requests by the API server (TokenReview and SubjectAccessReview), with
//! a cache.
//!
//! # Invariants
//!
//! 1. The server responds only to requests that the API server has allowed within [`PERMISSION_TTL`].
//! 2. No log and no error contains a token, and no token is kept in memory: the cache stores a keyed hash.
//! 3. Requests that the API server rejects cause at most [`limit::UNKNOWN_BURST`] reviews of each type at
//!    once, and [`limit::UNKNOWN_PER_SECOND`] after that.
//!
//! # Lock order
//!
//! At most one lock is held at a time. No request is sent under a lock.
//!
//! # Shutdown
//!
//! The access check has no background task.

mod limit;
mod review_cache;
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

use crate::api_request::{exchange, json_request};
use crate::clock::now;
use limit::Limit;
use review_cache::{CachedReview, ReviewCache};

/// The time for which the result of a TokenReview is cached: the user of a valid token, or that the token is
/// invalid. It is the same as in controller-runtime.
const USER_TTL: Duration = Duration::from_secs(60);
/// The time for which the result of a SubjectAccessReview is cached if it allowed the request; the same as in
/// controller-runtime.
const PERMISSION_TTL: Duration = Duration::from_secs(300);
/// The time for which the result of a SubjectAccessReview is cached if it denied the request; the same as in
/// controller-runtime. It is short, so that a new permission takes effect soon.
const DENIAL_TTL: Duration = Duration::from_secs(30);
/// The maximum size in bytes of the API server's response to a TokenReview or SubjectAccessReview. Responses
/// are small, since a user has at most some hundred groups.
const MAX_REVIEW_BYTES: usize = 1 << 20;
/// The maximum length of a bearer token in bytes. Longer tokens are rejected without a TokenReview, since API
/// servers do not accept such long headers.
const MAX_TOKEN_BYTES: usize = 64 << 10;

/// A kind of request to the API server that reviews credentials or permissions.
#[derive(Clone, Copy)]
struct ReviewKind {
    group: &'static str,
    kind: &'static str,
    resource: &'static str,
}

const TOKEN_REVIEW: ReviewKind =
    ReviewKind { group: "authentication.k8s.io", kind: "TokenReview", resource: "tokenreviews" };

const SUBJECT_ACCESS_REVIEW: ReviewKind = ReviewKind {
    group: "authorization.k8s.io",
    kind: "SubjectAccessReview",
    resource: "subjectaccessreviews",
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Rejection {
    #[error("401 unauthorized: a bearer token of the cluster is required")]
    Unauthorized,
    #[error("403 forbidden: the user of the token is not allowed to do this")]
    Forbidden,
    #[error("429 too many requests: reviews of unknown clients are limited; retry in a second")]
    TooManyRequests,
    #[error("500: the API server could not review the request")]
    ReviewFailed,
}

impl Rejection {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            Self::ReviewFailed => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// The name of the user of a request, as an extension of the request.
#[derive(Debug, Clone)]
pub(crate) struct AuthenticatedUser(
    #[cfg_attr(not(feature = "console"), expect(dead_code, reason = "only the console logs the user"))]
    pub(crate) String,
);

/// The spec of a SubjectAccessReview (user, verb and path), encoded as JSON. It is the key of a cached
/// permission.
type ReviewSpec = String;

/// A keyed 128-bit hash of a bearer token. It is the key of a cached user, so that tokens themselves are not
/// kept in memory.
type TokenHash = [u64; 2];

pub(super) struct Access {
    client: Client,
    keys: [RandomState; 2],
    /// The cached results of TokenReviews: the user by the hash of the token, or `None` for an invalid token.
    users: Mutex<ReviewCache<TokenHash, Option<Value>>>,
    permissions: Mutex<ReviewCache<ReviewSpec, bool>>,
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

    /// Authenticates and authorizes a request. Returns the name of its user.
    pub(super) async fn authorize(&self, head: &Parts) -> Result<AuthenticatedUser, Rejection> {
        let token = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.split_once(' ')).and_then(|(scheme, token)| {
            let token = token.trim();
            let fits = !token.is_empty() && token.len() <= MAX_TOKEN_BYTES;
            (scheme.eq_ignore_ascii_case("bearer") && fits).then_some(token)
        });
        let user = self.user(token.ok_or(Rejection::Unauthorized)?).await?.ok_or(Rejection::Unauthorized)?;
        let mut spec = json!({
            "user": user["username"],
            "groups": user["groups"],
            "uid": user["uid"],
            "nonResourceAttributes": {"path": head.uri.path(), "verb": head.method.as_str().to_ascii_lowercase()},
        });
        if user["extra"].is_object() {
            spec["extra"] = user["extra"].clone();
        }
        if !self.allows(spec).await? {
            return Err(Rejection::Forbidden);
        }
        Ok(AuthenticatedUser(user["username"].as_str().unwrap_or_default().to_owned()))
    }

    /// Returns the user to whom a bearer token belongs, from the cache or by a TokenReview. Returns `None`
    /// for an invalid token.
    async fn user(&self, token: &str) -> Result<Option<Value>, Rejection> {
        let hash = self.keys.each_ref().map(|key| key.hash_one(token));
        let known = self.users.lock().get(&hash, now());
        // If a token was valid at an earlier request, its new TokenReview is exempt from the rate limit,
        // because the limit is for floods of guessed tokens.
        let limited = match known {
            CachedReview::Valid(user) => return Ok(user),
            CachedReview::Expired(Some(_)) => None,
            CachedReview::Expired(None) | CachedReview::Missing => Some(&self.unknown_tokens),
        };
        take(limited)?;
        let status = self.review(TOKEN_REVIEW, json!({"token": token})).await?;
        let user = (status["authenticated"] == true).then(|| status["user"].clone());
        if user.is_some() {
            return_permit(limited);
        }
        self.users.lock().insert(hash, user.clone(), now() + USER_TTL, now());
        Ok(user)
    }

    async fn allows(&self, spec: Value) -> Result<bool, Rejection> {
        let text: ReviewSpec = spec.to_string();
        let known = self.permissions.lock().get(&text, now());
        let limited = match known {
            CachedReview::Valid(allowed) => return Ok(allowed),
            CachedReview::Expired(true) => None,
            CachedReview::Expired(false) | CachedReview::Missing => Some(&self.denials),
        };
        take(limited)?;
        let allowed = self.review(SUBJECT_ACCESS_REVIEW, spec).await?["allowed"] == true;
        if allowed {
            return_permit(limited);
        }
        let keep = if allowed { PERMISSION_TTL } else { DENIAL_TTL };
        self.permissions.lock().insert(text, allowed, now() + keep, now());
        Ok(allowed)
    }

    async fn review(&self, review_kind: ReviewKind, spec: Value) -> Result<Value, Rejection> {
        let ReviewKind { group, kind, resource } = review_kind;
        let body = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec});
        let request = json_request(Method::POST, Gvr::new(group, "v1", resource).path(None), Some(body));
        let problem = match exchange(&self.client, request, MAX_REVIEW_BYTES).await {
            Ok((status, mut review)) if status.is_success() => return Ok(review["status"].take()),
            Ok((status, review)) => {
                format!("{}: {}", status.as_u16(), review["message"].as_str().unwrap_or("without a reason"))
            }
            Err(problem) => problem,
        };
        tracing::warn!(kind, problem, "TokenReview or SubjectAccessReview failed; denying the request");
        Err(Rejection::ReviewFailed)
    }
}

fn take(limited: Option<&Mutex<Limit>>) -> Result<(), Rejection> {
    if limited.is_none_or(|limit| limit.lock().take(now())) {
        Ok(())
    } else {
        Err(Rejection::TooManyRequests)
    }
}

fn return_permit(limited: Option<&Mutex<Limit>>) {
    if let Some(limit) = limited {
        limit.lock().return_permit(now());
    }
}
