//! The client of the server, and discovery of kinds.

use std::time::Duration;

use informer::cache::reflector::MAX_RETRY_AFTER;
use informer::client::{Client, ResourceKind};
use informer::source::SourceErrorKind;
use rand::RngExt;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::notes::{Notes, chain};
use super::{SyncTimeout, near};
use crate::failure::Failure;

/// The initial backoff of discovery; each delay is twice the previous one.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(250);
/// The maximum backoff of discovery.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);

/// A kind that the server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) kind: ResourceKind,
    pub(super) namespaced: bool,
}

/// Reads `--server`.
pub(super) fn server_url(text: &str) -> Result<http::Uri, String> {
    let advice = "write it as http://127.0.0.1:8001";
    let url: http::Uri = text.parse().map_err(|error| format!("not a URL ({error}); {advice}"))?;
    match url.scheme_str() {
        Some("http" | "https") if url.host().is_some_and(|host| !host.is_empty()) => Ok(url),
        _ => Err(format!("not the URL of a server; {advice}")),
    }
}

/// Returns a client of the given server, or of the one configured in the environment.
pub(super) async fn client(server: Option<http::Uri>) -> Result<Client, Failure> {
    match server {
        Some(url) => {
            Client::new(informer::kube_client::Config::new(url)).map_err(|error| Failure::new(chain(&error)))
        }
        None => Client::try_default().await.map_err(|error| {
            let (advice, whole) = (error.to_string(), chain(&error));
            let causes = whole.strip_prefix(&advice).unwrap_or_default();
            Failure::new(format!("{advice}, or name a server with --server{causes}"))
        }),
    }
}

/// Finds a kind. Retries while the server is unreachable or temporarily unavailable.
pub(super) async fn find(
    client: &Client,
    name: &str,
    notes: &Notes,
    timeout: SyncTimeout,
) -> Result<Found, Failure> {
    let mut wait = MIN_RETRY_DELAY;
    loop {
        let resolved = match timeout.deadline {
            Some(deadline) => timeout_at(deadline, client.resolve(name)).await,
            None => Ok(client.resolve(name).await),
        };
        let Ok(resolved) = resolved else {
            return Err(timeout.failure(&format!("discovery of {name:?} did not end")));
        };
        let error = match resolved {
            Ok(kind) if kind.is_watchable() => {
                notes.recovered(DISCOVERY);
                return Ok(Found { kind: kind.kind, namespaced: kind.namespaced });
            }
            Ok(kind) => {
                let (resource, verbs) = (kind.kind.resource(), kind.verbs.join(", "));
                return Err(Failure::new(format!(
                    "cannot watch {resource}: the server offers only {verbs} for it"
                )));
            }
            Err(error) => error,
        };
        if error.kind() == SourceErrorKind::NotFound {
            let near = near::advice(client, name).await;
            return Err(Failure::new(format!("cannot {}{near}", chain(&error))));
        }
        if !passes(error.kind()) {
            return Err(Failure::new(format!("cannot {}", chain(&error))));
        }
        notes.failed(DISCOVERY, &error);
        let next = Instant::now() + pause(error.retry_after(), wait);
        sleep_until(timeout.deadline.map_or(next, |deadline| deadline.min(next))).await;
        if timeout.is_over() {
            return Err(timeout.failure(&chain(&error)));
        }
        wait = (wait * 2).min(MAX_RETRY_DELAY);
    }
}

/// The name of discovery in the notes.
const DISCOVERY: &str = "discovery";

/// Returns true if the error is transient.
fn passes(kind: SourceErrorKind) -> bool {
    matches!(
        kind,
        SourceErrorKind::ConnectionRefused
            | SourceErrorKind::Connection
            | SourceErrorKind::Timeout
            | SourceErrorKind::TooManyRequests
            | SourceErrorKind::Unavailable
    )
}

/// Returns the delay: the server's Retry-After within limits, or the jittered backoff.
fn pause(asked: Option<Duration>, wait: Duration) -> Duration {
    asked
        .map_or_else(|| wait.mul_f64(rand::rng().random_range(0.5..=1.0)), |asked| asked.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_waited_for_as_it_asks_but_not_for_ever() {
        let second = Duration::from_secs(1);
        assert_eq!(pause(Some(3 * second), second), 3 * second);
        assert_eq!(pause(Some(Duration::from_secs(u64::MAX)), second), MAX_RETRY_AFTER);
        assert!((second / 2..=second).contains(&pause(None, second)));
    }
}
