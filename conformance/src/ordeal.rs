//! A chaos test of one client program with informers, with real faults. Server processes are killed, paused,
//! and restarted with an older state. Connections break, freeze, slow down and end in the middle of an
//! object.
//!
//! After each fault, the client program's view (the content of its cache) must become equal to the server's
//! state. Then the test breaks the client program's connections repeatedly while nothing changes, and the
//! resources of its process must not grow.

mod fault;
mod reconnect;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use tokio::time::Instant;

pub use fault::Fault;
pub use reconnect::{Flat, Reconnects};

use crate::bench::Failure;
use crate::fleet::{Peer, View, settle, truth};
use crate::{Bench, Cable, Server};

/// The parameters of the chaos test.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of objects before the first fault.
    pub objects: usize,
    /// Minimum duration of the part with faults. Each fault happens at least once, even if that takes longer.
    pub time: Duration,
    /// Seed for the order of the faults and for the changes of objects.
    pub seed: u64,
    /// Number of connections of the client program to cut while no object changes.
    pub reconnects: u64,
    /// Number of informers of the client program whose connections are cut while no object changes.
    pub informers: u64,
    /// The client program with the informers to test.
    pub peer: PathBuf,
}

/// The result of the chaos test.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The kinds of faults that happened: how often, and the longest recovery time of each.
    pub faults: BTreeMap<&'static str, Suffered>,
    /// Number of changes that the server accepted during the test.
    pub changes: u64,
    /// Total number of connections that the client program opened.
    pub connections: u64,
    /// The result of cutting connections while no object changes.
    pub reconnects: Reconnects,
    /// Descriptions of the failures that the chaos test found.
    pub problems: Vec<String>,
}

/// How one kind of fault affected the client program.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Suffered {
    /// Number of times that the fault was injected.
    pub times: u64,
    /// The longest time from the end of such a fault until the client program's view equals the server's
    /// state, in seconds.
    pub recovered_after: f64,
}

const SERVER_WITHIN: Duration = Duration::from_secs(90);

/// How long objects are changed before and after a fault, so that the history contains changes on both sides
/// of the fault.
const AROUND: Duration = Duration::from_millis(300);

/// Minimum number of changes after the state of the server was saved and before it is restored. With fewer
/// changes, a test could not tell the two states apart.
const CHANGES_MIN: u64 = 5;

struct Ordeal {
    bench: Bench,
    peer: Peer,
    rng: StdRng,
    objects: usize,
    outcome: Outcome,
}

/// Runs the chaos test.
///
/// # Errors
///
/// When the server or the client program cannot be used. A view of the client program that differs from the
/// server's state is not an error; the result reports it.
pub async fn ordeal(server: Arc<Server>, plan: &Plan) -> Result<Outcome, Failure> {
    let folder = tempfile::tempdir()?;
    let mut ordeal = Ordeal::begin(Arc::clone(&server), plan, folder.path()).await?;
    let began = Instant::now();
    let mut round = Vec::new();
    // Each round injects every fault once, in random order. Over time, every fault therefore follows every
    // other one.
    while began.elapsed() < plan.time || !round.is_empty() {
        if round.is_empty() {
            round = Fault::of(&server);
            round.shuffle(&mut ordeal.rng);
        }
        let Some(fault) = round.pop() else { return Err("this server supports no fault".into()) };
        ordeal.suffer(fault).await?;
        if !ordeal.outcome.problems.is_empty() {
            break;
        }
    }
    if ordeal.outcome.problems.is_empty() {
        ordeal.reconnect(plan).await?;
    }
    ordeal.outcome.connections = ordeal.peer.cable().connections();
    ordeal.peer.stop().await;
    Ok(ordeal.outcome)
}

impl Ordeal {
    async fn begin(server: Arc<Server>, plan: &Plan, folder: &std::path::Path) -> Result<Self, Failure> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let bench = Bench::new(Arc::clone(&server), format!("ordeal-{}", &id[..8])).await?;
        bench.create_many("map", plan.objects).await?;
        server.backup().await?;
        let cable = Cable::to(server.address()).await?;
        let kubeconfig = folder.join("peer.conf");
        std::fs::write(&kubeconfig, server.kubeconfig(cable.address())?)?;
        let informers = plan.informers.to_string();
        let arguments = [kubeconfig.as_os_str(), bench.namespace.as_ref(), informers.as_ref()];
        let mut peer = Peer::start("informer", &plan.peer, &arguments, cable)?;
        let first = read(&bench).await?;
        if let [difference, ..] = &settle(&mut peer, &first).await?.differences[..] {
            return Err(format!("the pipeline does not sync: {difference}").into());
        }
        let outcome = Outcome {
            faults: BTreeMap::new(),
            changes: 0,
            connections: 0,
            reconnects: Reconnects::default(),
            problems: Vec::new(),
        };
        Ok(Self { bench, peer, rng: StdRng::seed_from_u64(plan.seed), objects: plan.objects, outcome })
    }

    /// Injects one fault while objects change, then compares the client program's view with the server's
    /// state.
    async fn suffer(&mut self, fault: Fault) -> Result<(), Failure> {
        let seed = self.rng.random();
        let (bench, cable) = (&self.bench, self.peer.cable());
        let (mut changes, mut fate) = (0, StdRng::seed_from_u64(seed));
        let quietly = fault.loses_state(&bench.server);
        let happen = async {
            tokio::time::sleep(AROUND).await;
            if !quietly {
                fault.happen(bench, cable, &mut fate).await?;
                tokio::time::sleep(AROUND).await;
            }
            Ok::<_, Failure>(())
        };
        tokio::select! {
            happened = happen => happened?,
            () = fault::change(bench, self.objects, seed, &mut changes) => {}
        }
        if quietly {
            self.tell_apart(seed, &mut changes).await?;
            let (bench, cable) = (&self.bench, self.peer.cable());
            fault.happen(bench, cable, &mut StdRng::seed_from_u64(seed)).await?;
        }
        let there = read(&self.bench).await?;
        let settled = settle(&mut self.peer, &there).await?;
        self.outcome.changes += changes;
        let name = fault.name();
        let suffered = self.outcome.faults.entry(name).or_default();
        suffered.times += 1;
        match settled.equal_after_seconds {
            Some(seconds) => {
                suffered.recovered_after = suffered.recovered_after.max(seconds);
                eprintln!("{name}: {changes} changes, equal after {seconds:.1} s");
            }
            None => {
                let first = settled.differences.first().map_or("", String::as_str);
                self.outcome.problems.push(format!("after {name}: {first}"));
            }
        }
        Ok(())
    }

    /// Waits until the client program has seen a resourceVersion newer than that of the state to be restored.
    /// Otherwise the client program cannot distinguish the two states, whatever the uids of the objects are.
    async fn tell_apart(&mut self, seed: u64, changes: &mut u64) -> Result<(), Failure> {
        let before = *changes;
        let writes = fault::change_until(&self.bench, self.objects, seed, changes, before + CHANGES_MIN);
        tokio::time::timeout(SERVER_WITHIN, writes).await.map_err(|_| "the server accepts no writes")?;
        let there = read(&self.bench).await?;
        match settle(&mut self.peer, &there).await?.differences.first() {
            Some(difference) => Err(format!("before the older state is restored: {difference}").into()),
            None => Ok(()),
        }
    }

    async fn reconnect(&mut self, plan: &Plan) -> Result<(), Failure> {
        let there = read(&self.bench).await?;
        let reconnects = reconnect::reconnect(&mut self.peer, &there, plan).await?;
        self.outcome.problems.extend(reconnects.problems());
        self.outcome.reconnects = reconnects;
        Ok(())
    }
}

/// Reads the server's state. Retries until the server responds, since it may still be starting.
async fn read(bench: &Bench) -> Result<View, Failure> {
    let began = Instant::now();
    loop {
        match truth(bench).await {
            Err(error) if began.elapsed() >= SERVER_WITHIN => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            Ok(view) => return Ok(view),
        }
    }
}
