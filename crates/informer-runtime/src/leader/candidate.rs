//! The LeaseCandidate of a coordinated election, by which the coordinator of the control plane knows this
//! process.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Method, Request, StatusCode};
use informer_client::Client;
use informer_core::Gvr;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::failures::Failure;
use super::lease::MAX_LEASE_BYTES;
use crate::api_request::{exchange, json_request, watch_request, watch_with_hints};

const API_VERSION: &str = "coordination.k8s.io/v1beta1";

/// The interval between two reads of the LeaseCandidate. The coordinator pings candidates and waits some
/// seconds for a response, so that a watch notices the ping in time, and this interval is for processes that
/// must not watch.
const READ_INTERVAL: Duration = Duration::from_secs(3);

const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How a process takes part in a coordinated election (KEP-4355), in which the control plane chooses the
/// leader. It chooses the candidate with the oldest emulation version, so that an update of the program
/// begins to lead only after the last old replica has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "pass it to an election"]
pub struct Coordination {
    binary_version: String,
    emulation_version: String,
}

impl Coordination {
    /// Creates the settings of a program with this semantic version, such as `1.4.0`.
    pub fn new(binary_version: impl Into<String>) -> Self {
        let binary_version = binary_version.into();
        Self { emulation_version: binary_version.clone(), binary_version }
    }

    /// Sets the version that the program behaves like, if it is older than its own version.
    pub fn emulation_version(self, version: impl Into<String>) -> Self {
        Self { emulation_version: version.into(), ..self }
    }
}

/// Keeps the LeaseCandidate of this process.
pub(super) struct LeaseCandidate {
    client: Client,
    path: String,
    name: String,
    lease: String,
    coordination: Coordination,
}

impl LeaseCandidate {
    pub(super) fn new(
        client: Client,
        namespace: &str,
        (lease, identity): (&str, &str),
        coordination: Coordination,
    ) -> Self {
        let path = Gvr::new("coordination.k8s.io", "v1beta1", "leasecandidates").path(Some(namespace));
        Self { client, path, name: identity.to_owned(), lease: lease.to_owned(), coordination }
    }

    /// Creates the LeaseCandidate, and responds to the pings of the coordinator. Never returns.
    pub(super) async fn run(self) {
        let (hint, mut hints) = mpsc::channel(1);
        let watching = watch_with_hints(self.client.clone(), watch_request(&self.path, &self.name), hint);
        let keep = async {
            let mut failed = false;
            loop {
                match self.respond().await {
                    Ok(()) => failed = false,
                    Err(failure) if failed => {
                        tracing::debug!(name = self.name, %failure, "cannot keep the LeaseCandidate")
                    }
                    Err(failure) => {
                        tracing::warn!(name = self.name, %failure, "cannot keep the LeaseCandidate; retrying");
                        failed = true;
                    }
                }
                let _ = tokio::time::timeout(READ_INTERVAL, hints.recv()).await;
            }
        };
        // Neither of the two futures ends.
        futures_util::future::join(watching, keep).map(drop).await;
    }

    /// Deletes the LeaseCandidate, so that the coordinator does not choose a process that has ended.
    pub(super) async fn remove(client: Client, path: String) {
        let request = json_request(Method::DELETE, path, None);
        let _ = tokio::time::timeout(REQUEST_TIMEOUT, exchange(&client, request, MAX_LEASE_BYTES)).await;
    }

    /// Returns the path of the LeaseCandidate.
    pub(super) fn own_path(&self) -> String {
        format!("{}/{}", self.path, self.name)
    }

    async fn respond(&self) -> Result<(), Failure> {
        let (status, candidate) = self.send(json_request(Method::GET, self.own_path(), None)).await?;
        let request = match status {
            StatusCode::OK if is_pinged(&candidate) => {
                let mut renewed = candidate;
                renewed["spec"]["renewTime"] = json!(now());
                json_request(Method::PUT, self.own_path(), Some(renewed))
            }
            StatusCode::OK => return Ok(()),
            StatusCode::NOT_FOUND => json_request(Method::POST, self.path.clone(), Some(self.candidate())),
            status => return Err(Failure::of_status(status, &candidate)),
        };
        match self.send(request).await? {
            // The coordinator has pinged it in between; the next read shows that.
            (status, _) if status.is_success() || status == StatusCode::CONFLICT => Ok(()),
            (status, body) => Err(Failure::of_status(status, &body)),
        }
    }

    async fn send(&self, request: Request<Bytes>) -> Result<(StatusCode, Value), Failure> {
        let sent =
            tokio::time::timeout(REQUEST_TIMEOUT, exchange(&self.client, request, MAX_LEASE_BYTES)).await;
        sent.map_err(|_| Failure::timed_out(REQUEST_TIMEOUT))?.map_err(Failure::unreachable)
    }

    fn candidate(&self) -> Value {
        json!({
            "apiVersion": API_VERSION,
            "kind": "LeaseCandidate",
            "metadata": {"name": self.name},
            "spec": {
                "leaseName": self.lease,
                "binaryVersion": self.coordination.binary_version,
                "emulationVersion": self.coordination.emulation_version,
                "strategy": "OldestEmulationVersion",
                "renewTime": now(),
            },
        })
    }
}

impl fmt::Debug for LeaseCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseCandidate").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Returns true if the coordinator has pinged the candidate after it last responded.
fn is_pinged(candidate: &Value) -> bool {
    let time = |name: &str| candidate["spec"][name].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    time("pingTime").is_some_and(|ping| time("renewTime").is_none_or(|renewed| renewed < ping))
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
