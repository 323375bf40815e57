//! The actions of the console: requests that change what the manager does.
//!
//! # Invariants
//!
//! 1. No action runs unless the program [allows actions](super::Console::allow_actions).
//! 2. A server that does not authorize requests accepts actions only on a loopback address, and only with a
//!    `Host` that no page of another site can have.
//! 3. An action needs the token of this console. A page of another site cannot read it, and cannot send the
//!    header that contains it.
//! 4. Each action that was accepted is logged, with its user and its result.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{ConsoleData, ConsoleRoutes, MAX_KEY_BYTES, json_response};
use crate::cache::RemoveError;
use crate::causes::EnqueueError;
use crate::http_server::{AuthenticatedUser, text};

/// The header of an action that contains the token.
const TOKEN: HeaderName = HeaderName::from_static("x-informer-token");

/// An action that the console offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionKind {
    /// Adds a key to the queue of a controller.
    Requeue,
    /// Makes an informer list again.
    Relist,
    /// Removes an unused informer and its objects from the cache.
    Drop,
}

impl ActionKind {
    pub(super) const ALL: [Self; 3] = [Self::Requeue, Self::Relist, Self::Drop];

    /// Returns the last segment of the path.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Relist => "relist",
            Self::Drop => "drop",
        }
    }
}

/// The body of a requeue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequeueBody {
    controller: String,
    key: String,
}

/// The body of an action on an informer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InformerBody {
    informer: String,
}

/// A rejected action.
#[derive(Debug)]
struct ActionError {
    status: StatusCode,
    problem: String,
}

impl ActionError {
    fn new(status: StatusCode, problem: impl Into<String>) -> Self {
        Self { status, problem: problem.into() }
    }

    fn response(&self) -> Response<Bytes> {
        text(self.status, format!("{}: {}\n", self.status.as_u16(), self.problem))
    }
}

/// Returns a random token. It protects from pages of other sites, and grants no permission.
pub(super) fn random_token() -> String {
    crate::random::uuid().simple().to_string()
}

impl ConsoleRoutes {
    /// Runs an action if the request is allowed, and responds with its result.
    pub(super) fn act(&self, action: ActionKind, request: &Request<Bytes>) -> Response<Bytes> {
        if let Err(error) = self.check_action(request) {
            return error.response();
        }
        let user = request.extensions().get::<AuthenticatedUser>().map_or("-", |user| user.0.as_str());
        let (body, name) = (request.body(), action.name());
        let result = match action {
            ActionKind::Requeue => self.requeue(body),
            ActionKind::Relist => self.relist(body),
            ActionKind::Drop => self.drop_informer(body),
        };
        match result {
            Ok(message) => {
                tracing::info!(action = name, user, result = message, "the console ran an action");
                json_response(&json!({"message": message}))
            }
            Err(error) => {
                let problem = &error.problem;
                tracing::warn!(action = name, user, problem, "an action of the console failed");
                error.response()
            }
        }
    }

    fn check_action(&self, request: &Request<Bytes>) -> Result<(), ActionError> {
        let refused = |problem: &str| Err(ActionError::new(StatusCode::FORBIDDEN, problem));
        if request.method() != Method::POST {
            return Err(ActionError::new(StatusCode::METHOD_NOT_ALLOWED, "use POST"));
        }
        let Some(token) = &self.token else {
            return refused(
                "this console is read only; allow actions in the program with Console::allow_actions",
            );
        };
        if let Err(foreign) = self.check_origin(request) {
            return refused(&foreign);
        }
        if !self.is_protected() {
            return refused(
                "this server has no authorization and is not on a loopback address, so it runs no actions; use \
                 HttpServer::authorized_by",
            );
        }
        let headers = request.headers();
        if !headers.get(CONTENT_TYPE).is_some_and(is_json) {
            let problem = "the body of an action is JSON; set Content-Type to application/json";
            return Err(ActionError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem));
        }
        if headers.get(TOKEN).is_none_or(|value| value.as_bytes() != token.as_bytes()) {
            return refused(
                "the header X-Informer-Token is missing or wrong; set it to `actions.token` of a snapshot",
            );
        }
        Ok(())
    }

    fn requeue(&self, body: &Bytes) -> Result<String, ActionError> {
        let RequeueBody { controller, key } = parse(body)?;
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(ActionError::new(StatusCode::BAD_REQUEST, "the key is empty or too long"));
        }
        let done = self.data.requeue(&controller, &key);
        done.map(|()| format!("enqueued {key} in controller {controller}"))
    }

    fn relist(&self, body: &Bytes) -> Result<String, ActionError> {
        let InformerBody { informer } = parse(body)?;
        self.data.relist(&informer).map(|()| format!("informer {informer} lists again"))
    }

    fn drop_informer(&self, body: &Bytes) -> Result<String, ActionError> {
        let InformerBody { informer } = parse(body)?;
        self.data.drop_informer(&informer).map(|()| format!("informer {informer} was removed from the cache"))
    }
}

fn is_json(content_type: &HeaderValue) -> bool {
    let media_type = content_type.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}

fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, ActionError> {
    serde_json::from_slice(body)
        .map_err(|error| ActionError::new(StatusCode::BAD_REQUEST, format!("parse the body: {error}")))
}

/// Returns the error of an action whose informer is not unique.
fn ambiguous(action: &str, informer: &str) -> ActionError {
    let problem = format!("{action} {informer}: several informers have this name");
    ActionError::new(StatusCode::CONFLICT, problem)
}

impl ConsoleData {
    fn requeue(&self, controller: &str, key: &str) -> Result<(), ActionError> {
        let all = self.instrumentation().controllers();
        let Some(found) = all.iter().find(|one| one.name() == controller) else {
            let problem = format!("requeue {key}: there is no controller {controller:?}");
            return Err(ActionError::new(StatusCode::NOT_FOUND, problem));
        };
        found.enqueue_key(key).map_err(|error| {
            let status = match error {
                EnqueueError::UnknownKey => StatusCode::NOT_FOUND,
                EnqueueError::NotRunning | EnqueueError::OtherReplica => StatusCode::CONFLICT,
            };
            ActionError::new(status, format!("requeue {key} in controller {controller}: {error}"))
        })
    }

    fn relist(&self, informer: &str) -> Result<(), ActionError> {
        let named = self.instrumentation().informers_named(informer);
        if named.is_empty() {
            let problem = format!("relist: there is no informer {informer:?}");
            return Err(ActionError::new(StatusCode::NOT_FOUND, problem));
        }
        // An informer that was removed from its cache may still have a handle, and does not run.
        let mut running = named.iter().filter(|probe| probe.state().is_some_and(|state| state.running));
        match (running.next(), running.next()) {
            (Some(_), Some(_)) => Err(ambiguous("relist", informer)),
            (Some(probe), None) if probe.request_relist() => Ok(()),
            _ => {
                let problem = format!("relist {informer}: the informer does not run");
                Err(ActionError::new(StatusCode::CONFLICT, problem))
            }
        }
    }

    fn drop_informer(&self, informer: &str) -> Result<(), ActionError> {
        let caches = self.instrumentation().console.caches();
        if caches.iter().map(|cache| cache.count_named(informer)).sum::<usize>() > 1 {
            return Err(ambiguous("drop", informer));
        }
        for cache in caches {
            match cache.remove_unused(informer) {
                Ok(()) => return Ok(()),
                Err(RemoveError::Unknown) => {}
                Err(error @ RemoveError::Used) => {
                    let problem = format!("drop {informer}: {error}");
                    return Err(ActionError::new(StatusCode::CONFLICT, problem));
                }
            }
        }
        let problem = format!("drop: no cache of the manager has an informer {informer:?}");
        Err(ActionError::new(StatusCode::NOT_FOUND, problem))
    }
}
