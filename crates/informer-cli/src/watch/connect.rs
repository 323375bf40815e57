//! Finds the kinds to watch with discovery.

use std::time::Duration;

use informer::FieldSelector;
use informer::cache::reflector::MAX_RETRY_AFTER;
use informer::client::{Client, ResourceKind};
use informer::source::SourceErrorKind;
use rand::RngExt;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::notes::Notes;
use super::target::Target;
use super::{SyncTimeout, near};
use crate::failure::{Failure, chain};

/// The delay after the first failed attempt of discovery. Each further delay is twice the previous one, up to
/// [`MAX_RETRY_DELAY`].
const MIN_RETRY_DELAY: Duration = Duration::from_millis(250);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);

/// A kind that the server serves, or one object of that kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WatchTarget {
    pub(super) kind: ResourceKind,
    pub(super) namespaced: bool,
    pub(super) name: Option<String>,
}

impl WatchTarget {
    /// Returns the name of the kind, such as `deployments.apps`, with the name of the object if only one is
    /// watched.
    pub(super) fn name(&self) -> String {
        let resource = self.kind.resource();
        match &self.name {
            Some(name) => format!("{resource}/{name}"),
            None => resource,
        }
    }

    /// Returns the field selector with which this kind is watched: that of the option `--field-selector`. If
    /// only one object is watched, it also selects the name of the object.
    pub(super) fn fields(&self, given: Option<&FieldSelector>) -> Result<FieldSelector, Failure> {
        let Some(name) = &self.name else { return Ok(given.cloned().unwrap_or_default()) };
        let given = given.map(|given| format!("{given},")).unwrap_or_default();
        let selector = format!("{given}metadata.name={name}").parse();
        selector.map_err(|error| Failure::new(format!("cannot select the name {name:?}: {error}")))
    }
}

/// Finds a kind on the server by the name that the user has typed. Retries while the server is unreachable or
/// temporarily unavailable.
pub(super) async fn find(
    client: &Client,
    target: &Target,
    notes: &Notes,
    timeout: SyncTimeout,
) -> Result<WatchTarget, Failure> {
    let name = &*target.kind;
    let mut wait = MIN_RETRY_DELAY;
    loop {
        let resolved = match timeout.deadline {
            Some(deadline) => timeout_at(deadline, client.resolve(name)).await,
            None => Ok(client.resolve(name).await),
        };
        let Ok(resolved) = resolved else {
            return Err(timeout.failure(&format!("discovery of {name:?} did not finish")));
        };
        let error = match resolved {
            Ok(kind) if kind.is_watchable() => {
                notes.recovered(DISCOVERY);
                let (kind, namespaced) = (kind.kind, kind.namespaced);
                return Ok(WatchTarget { kind, namespaced, name: target.name.clone() });
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

const DISCOVERY: &str = "discovery";

/// Returns true if a failed discovery request can be retried, because the error is transient.
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

/// Returns the delay before the next attempt: the server's `Retry-After`, but at most [`MAX_RETRY_AFTER`], or
/// the jittered backoff `wait`.
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
