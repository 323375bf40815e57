//! Mixed clients: informers of several client libraries run against one server, and their caches are compared
//! with the server's state.

mod churn;
mod peer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

pub use churn::Churned;
pub use peer::{Footprint, Peer, PeerError};

use crate::bench::{Failure, maps};
use crate::{Bench, Cable, Server};

/// One object in the view of a client program, which is the content of the cache of its informer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The key of the object: namespace and name.
    pub key: String,
    /// The uid of the object.
    pub uid: String,
    /// The resourceVersion of the object.
    pub version: String,
    /// The hash of the data of the object, computed by [`hash`].
    pub hash: String,
}

/// Returns the FNV-1a hash of the sorted entries of a config map's data, which is easy to compute in every
/// language.
pub fn hash<'a>(data: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let sorted: BTreeMap<&str, &str> = data.into_iter().collect();
    let mut sum: u64 = 0xcbf2_9ce4_8422_2325;
    for (name, value) in sorted {
        for byte in format!("{name}={value}\n").bytes() {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    format!("{sum:016x}")
}

/// The parameters of a run with mixed clients.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of objects that exist before the changes start.
    pub objects: usize,
    /// Minimum time during which objects are changed.
    pub time: Duration,
    /// The programs of the client libraries, each with its name.
    pub peers: Vec<(String, PathBuf)>,
}

/// The result of a run with mixed clients.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Number of objects at the end of the run.
    pub objects: usize,
    /// Counts of the changes that were made to the objects.
    pub churned: Churned,
    /// Time to create the objects, in seconds.
    pub created_seconds: f64,
    /// The results of all client programs.
    pub peers: Vec<PeerOutcome>,
}

/// The result of one client program, which runs an informer of one client library.
#[derive(Clone, Debug, Serialize)]
pub struct PeerOutcome {
    /// The name of the client program, such as that of its client library.
    pub name: String,
    /// Number of times that the connections of the client program were cut.
    pub cuts: u64,
    /// Number of connections that the client program opened.
    pub connections: u64,
    /// Time from the first request for the client program's view, after the last change, until that view
    /// equals the server's state, in seconds. `None` if the view never became equal.
    pub equal_after_seconds: Option<f64>,
    /// The first differences between the client program's view and the server's state, if the view never
    /// became equal.
    pub differences: Vec<String>,
}

/// Timeout for the view of a client program to become equal to the server's state. The backoffs of client
/// programs grow up to a minute while connections are cut.
const SETTLE_WITHIN: Duration = Duration::from_secs(150);

/// Runs mixed clients: creates objects, starts the client programs, changes objects while connections are
/// cut, and compares the views of the client programs with the server's state.
///
/// # Errors
///
/// When the server or a client program cannot be used. A view that differs is a result, not an error.
pub async fn fleet(server: Arc<Server>, plan: &Plan) -> Result<Outcome, Failure> {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let bench = Bench::new(Arc::clone(&server), format!("fleet-{}", &id[..8])).await?;
    let began = Instant::now();
    bench.create_many("map", plan.objects).await?;
    let created_seconds = began.elapsed().as_secs_f64();
    eprintln!("{} objects created in {created_seconds:.1} s", plan.objects);
    let folder = tempfile::tempdir()?;
    let mut peers = Vec::new();
    for (name, program) in &plan.peers {
        let cable = Cable::to(server.address()).await?;
        let kubeconfig = folder.path().join(format!("{name}.conf"));
        std::fs::write(&kubeconfig, server.kubeconfig(cable.address())?)?;
        let arguments = [kubeconfig.as_os_str(), bench.namespace.as_ref()];
        peers.push(Peer::start(name, program, &arguments, cable)?);
    }
    // The view of each client program equals the initial state before the first change. The comparison at the
    // end thus tests how the client program handles changes.
    let first = truth(&bench).await?;
    for peer in &mut peers {
        let outcome = settle(peer, &first).await?;
        if let [difference, ..] = &outcome.differences[..] {
            return Err(format!("{} does not sync: {difference}", peer.name()).into());
        }
    }
    eprintln!("all peers are synced; changes and cuts for at least {} s", plan.time.as_secs());
    let churned = churn::churn(&bench, &peers, plan).await?;
    let last = truth(&bench).await?;
    let mut outcome = Outcome { objects: last.len(), churned, created_seconds, peers: Vec::new() };
    let ended = Instant::now();
    for peer in &mut peers {
        outcome.peers.push(settle(peer, &last).await?);
    }
    eprintln!("compared after {:.1} s", ended.elapsed().as_secs_f64());
    for peer in peers {
        peer.stop().await;
    }
    Ok(outcome)
}

pub(crate) type View = BTreeMap<String, Entry>;

/// Reads the server's state with list requests, without an informer.
pub(crate) async fn truth(bench: &Bench) -> Result<View, Failure> {
    let (objects, _) = bench.api.list(&maps(), &bench.namespace).await?;
    let entry = |object: &serde_json::Value| {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let data = object["data"].as_object().into_iter().flatten();
        let data = data.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
        let key = format!("{}/{}", text("namespace"), text("name"));
        let entry = Entry { key, uid: text("uid"), version: text("resourceVersion"), hash: hash(data) };
        (entry.key.clone(), entry)
    };
    Ok(objects.iter().map(entry).collect())
}

/// Requests the view of a client program until it equals the server's state or the timeout expires.
pub(crate) async fn settle(peer: &mut Peer, truth: &View) -> Result<PeerOutcome, Failure> {
    let began = Instant::now();
    loop {
        let view = peer.view().await?;
        let differences = differences(&view, truth);
        let late = began.elapsed() >= SETTLE_WITHIN;
        if differences.is_empty() || late {
            return Ok(PeerOutcome {
                name: peer.name().to_owned(),
                cuts: peer.cuts(),
                connections: peer.cable().connections(),
                equal_after_seconds: differences.is_empty().then(|| began.elapsed().as_secs_f64()),
                differences,
            });
        }
        // For each request, the client program walks over its whole view. Polling once a second therefore
        // costs little, and one second is short compared with the backoffs.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn differences(view: &View, truth: &View) -> Vec<String> {
    const SHOWN: usize = 5;
    let missing = truth.values().filter(|entry| !view.contains_key(&entry.key));
    let missing = missing.map(|entry| format!("{} is missing", entry.key));
    let surplus = view.values().filter(|entry| !truth.contains_key(&entry.key));
    let surplus = surplus.map(|entry| format!("{} is deleted on the server", entry.key));
    let other = truth.values().filter_map(|entry| {
        let held = view.get(&entry.key).filter(|held| *held != entry)?;
        Some(format!(
            "{} is @{} instead of @{} ({} {})",
            entry.key, held.version, entry.version, held.hash, entry.hash
        ))
    });
    missing.chain(surplus).chain(other).take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, version: &str) -> (String, Entry) {
        let text = |text: &str| text.to_owned();
        (text(key), Entry { key: text(key), uid: text("u"), version: text(version), hash: text("h") })
    }

    #[test]
    fn missing_surplus_and_different_objects_are_found() {
        let truth = View::from([entry("n/a", "1"), entry("n/b", "2")]);
        assert!(differences(&truth, &truth).is_empty());
        let view = View::from([entry("n/b", "1"), entry("n/c", "3")]);
        let found = differences(&view, &truth);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            found[0].contains("n/a is missing")
                && found[1].contains("n/c is deleted")
                && found[2].contains("@1")
        );
    }

    #[test]
    fn the_hash_depends_only_on_the_content() {
        assert_eq!(hash([("a", "1"), ("b", "2")]), hash([("b", "2"), ("a", "1")]));
        assert_ne!(hash([("a", "1")]), hash([("a", "2")]));
        // The expected hashes were computed by the Go client program, with the FNV-1a function of Go's
        // standard library.
        assert_eq!(hash([]), "cbf29ce484222325");
    }
}
