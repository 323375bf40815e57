//! The actions of the console: requests that change what the manager does.
//!
//! # Invariants
//!
//! 1. No action runs unless the program [allows actions](super::Console::allow_actions).
//! 2. A server that does not authorize requests accepts actions only on a loopback address, and only with a
//!    `Host` that no page of another site can have.
//! 3. An action needs the token of this console. A page of another site cannot read it, and cannot send the
//!    header that contains it.
//! 4. Each action that was accepted is logged, with its user and its result. It is also recorded as a
//!    Kubernetes Event, unless the program disables that, the body of the request is invalid, or the recorder
//!    drops Events because of its limits.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::error::ConsoleError;
use super::{ConsoleData, ConsoleRoutes, MAX_KEY_BYTES, json_response};
use crate::EventSubject;
use crate::cache::RemoveError;
use crate::causes::EnqueueError;
use crate::http_server::AuthenticatedUser;

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

    /// Returns the reason of the Kubernetes Event about the action.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Requeue => "ConsoleRequeue",
            Self::Relist => "ConsoleRelist",
            Self::Drop => "ConsoleDrop",
        }
    }
}

/// An action with its parameters.
pub(super) enum Action {
    Requeue(RequeueBody),
    Relist(InformerBody),
    Drop(InformerBody),
}

impl Action {
    fn parse(kind: ActionKind, body: &Bytes) -> Result<Self, ConsoleError> {
        Ok(match kind {
            ActionKind::Requeue => Self::Requeue(parse::<RequeueBody>(body)?.checked()?),
            ActionKind::Relist => Self::Relist(parse(body)?),
            ActionKind::Drop => Self::Drop(parse(body)?),
        })
    }

    #[cfg(test)]
    pub(super) fn of_informer(informer: &str) -> Self {
        Self::Relist(InformerBody { informer: informer.to_owned() })
    }

    pub(super) fn kind(&self) -> ActionKind {
        match self {
            Self::Requeue(_) => ActionKind::Requeue,
            Self::Relist(_) => ActionKind::Relist,
            Self::Drop(_) => ActionKind::Drop,
        }
    }

    /// Returns the object of the action; `None` if the action concerns none, or a key that names no object.
    pub(super) fn object(&self, data: &ConsoleData) -> Option<EventSubject> {
        let Self::Requeue(RequeueBody { controller, key }) = self else { return None };
        let all = data.instrumentation().controllers();
        all.iter().find(|one| one.name() == controller)?.object(key)
    }

    fn run(&self, data: &ConsoleData) -> Result<String, ConsoleError> {
        match self {
            Self::Requeue(RequeueBody { controller, key }) => {
                data.requeue(controller, key).map(|()| format!("enqueued {key} in controller {controller}"))
            }
            Self::Relist(InformerBody { informer }) => {
                data.relist(informer).map(|()| format!("informer {informer} lists again"))
            }
            Self::Drop(InformerBody { informer }) => data
                .drop_informer(informer)
                .map(|()| format!("informer {informer} was removed from the cache")),
        }
    }
}

/// The body of a requeue.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequeueBody {
    controller: String,
    key: String,
}

impl RequeueBody {
    fn checked(self) -> Result<Self, ConsoleError> {
        if self.key.is_empty() || self.key.len() > MAX_KEY_BYTES {
            return Err(ConsoleError::new(StatusCode::BAD_REQUEST, "the key is empty or too long"));
        }
        Ok(self)
    }
}

/// The body of an action on an informer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InformerBody {
    informer: String,
}

/// Returns a random token. It protects from pages of other sites, and grants no permission.
pub(super) fn random_token() -> String {
    crate::random::uuid().simple().to_string()
}

impl ConsoleRoutes {
    /// Runs an action if the request is allowed, and responds with its result.
    pub(super) fn act(&self, kind: ActionKind, request: &Request<Bytes>) -> Response<Bytes> {
        if let Err(error) = self.check_action(request) {
            return error.response();
        }
        let user = request.extensions().get::<AuthenticatedUser>().map(|user| user.0.as_str());
        let result = Action::parse(kind, request.body()).and_then(|action| {
            let result = action.run(&self.data);
            if let Some(audit) = &self.audit {
                let result = result.as_ref().map(String::as_str).map_err(|error| error.problem.as_str());
                audit.record(&self.data, (&action, user), result);
            }
            result
        });
        let (name, user) = (kind.name(), user.unwrap_or("-"));
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

    fn check_action(&self, request: &Request<Bytes>) -> Result<(), ConsoleError> {
        let refused = |problem: &str| Err(ConsoleError::new(StatusCode::FORBIDDEN, problem));
        if request.method() != Method::POST {
            return Err(ConsoleError::new(StatusCode::METHOD_NOT_ALLOWED, "use POST"));
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
            return Err(ConsoleError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem));
        }
        if headers.get(TOKEN).is_none_or(|value| value.as_bytes() != token.as_bytes()) {
            return refused(
                "the header X-Informer-Token is missing or wrong; set it to `actions.token` of a snapshot",
            );
        }
        Ok(())
    }
}

fn is_json(content_type: &HeaderValue) -> bool {
    let media_type = content_type.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}

fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, ConsoleError> {
    serde_json::from_slice(body)
        .map_err(|error| ConsoleError::new(StatusCode::BAD_REQUEST, format!("parse the body: {error}")))
}

/// Returns the error of an action whose informer is not unique.
fn ambiguous(action: &str, informer: &str) -> ConsoleError {
    let problem = format!("{action} {informer}: several informers have this name");
    ConsoleError::new(StatusCode::CONFLICT, problem)
}

impl ConsoleData {
    fn requeue(&self, controller: &str, key: &str) -> Result<(), ConsoleError> {
        let all = self.instrumentation().controllers();
        let Some(found) = all.iter().find(|one| one.name() == controller) else {
            let problem = format!("requeue {key}: there is no controller {controller:?}");
            return Err(ConsoleError::new(StatusCode::NOT_FOUND, problem));
        };
        found.enqueue_key(key).map_err(|error| {
            let status = match error {
                EnqueueError::UnknownKey => StatusCode::NOT_FOUND,
                EnqueueError::NotRunning | EnqueueError::OtherReplica => StatusCode::CONFLICT,
            };
            ConsoleError::new(status, format!("requeue {key} in controller {controller}: {error}"))
        })
    }

    fn relist(&self, informer: &str) -> Result<(), ConsoleError> {
        if self.running_informer("relist", informer)?.request_relist() {
            return Ok(());
        }
        let problem = format!("relist {informer}: the informer was dropped");
        Err(ConsoleError::new(StatusCode::CONFLICT, problem))
    }

    fn drop_informer(&self, informer: &str) -> Result<(), ConsoleError> {
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
                    return Err(ConsoleError::new(StatusCode::CONFLICT, problem));
                }
            }
        }
        let problem = format!("drop: no cache of the manager has an informer {informer:?}");
        Err(ConsoleError::new(StatusCode::NOT_FOUND, problem))
    }
}
