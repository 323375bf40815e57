use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use informer_apiserver::{ApiServer, FaultAction, FaultMatch, Verb};
use informer_client::Client;
use informer_core::Gvr;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{NotOwned, ShardGroup, Sharding};

const KEYS: usize = 60;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn client(server: &ApiServer) -> Client {
    Client::from_service(server.service(), "default")
}

fn leases(server: &ApiServer) -> Vec<Value> {
    server.list(&Gvr::new("coordination.k8s.io", "v1", "leases"), "default").expect("the kind is served")
}

fn keys() -> impl Iterator<Item = String> {
    (0..KEYS).map(|number| format!("default/web-{number}"))
}

/// Records which replica reconciled each key last and when, and which reconciles are running. All replicas of
/// a test share it.
#[derive(Default)]
struct Journal {
    last: BTreeMap<String, (usize, Instant)>,
    busy: BTreeMap<String, usize>,
    reconciles: usize,
}

/// A replica with a minimal controller, which reconciles each key once when the replica gains it. A reconcile
/// takes half a second.
struct Replica {
    sharding: Sharding,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Replica {
    fn start(server: &ApiServer, number: usize, journal: &Arc<Mutex<Journal>>) -> Self {
        let member = ShardGroup::new("websites").identity(format!("replica-{number}")).member(client(server));
        let member = member.expect("a valid group");
        let (sharding, stop) = (member.sharding(), CancellationToken::new());
        let (running, journal) = (member.run(stop.clone()), Arc::clone(journal));
        let (shards, stopping) = (sharding.clone(), stop.clone());
        let controller = async move {
            let mut work = tokio::task::JoinSet::new();
            let gained = shards.enqueue_gained(
                || keys().collect(),
                |key| drop(work.spawn(reconcile(shards.clone(), key, number, Arc::clone(&journal)))),
            );
            tokio::select! {
                () = gained => {}
                () = stopping.cancelled() => {}
            }
            while work.join_next().await.is_some() {}
        };
        let task = async {
            tokio::join!(running, controller);
        };
        Self { sharding, stop, task: tokio::spawn(task) }
    }

    fn share(&self) -> usize {
        keys().filter(|key| self.sharding.owns(key)).count()
    }
}

async fn reconcile(sharding: Sharding, key: String, number: usize, journal: Arc<Mutex<Journal>>) {
    let Ok(owned) = sharding.enter(&key) else { return };
    let other = journal.lock().busy.insert(key.clone(), number);
    assert_eq!(other, None, "concurrent reconciles");
    sleep(Duration::from_millis(500)).await;
    owned.check().expect("the lease holds");
    let mut journal = journal.lock();
    journal.busy.remove(&key);
    journal.reconciles += 1;
    journal.last.insert(key, (number, Instant::now()));
}

struct Three {
    server: ApiServer,
    journal: Arc<Mutex<Journal>>,
    replicas: Vec<Replica>,
}

impl Three {
    async fn start() -> Self {
        let (server, journal) = (ApiServer::builder().build(), Arc::default());
        let replicas = (0..3).map(|number| Replica::start(&server, number, &journal)).collect();
        sleep(seconds(20)).await;
        Self { server, journal, replicas }
    }

    fn owners(&self) -> Vec<usize> {
        keys().map(|key| self.replicas.iter().filter(|replica| replica.sharding.owns(&key)).count()).collect()
    }

    fn last(&self) -> BTreeMap<String, (usize, Instant)> {
        self.journal.lock().last.clone()
    }

    /// Returns true if each key was last reconciled by the replica that owns it.
    fn is_settled(&self) -> bool {
        let last = self.last();
        keys().all(|key| last.get(&key).is_some_and(|(number, _)| self.replicas[*number].sharding.owns(&key)))
    }
}

#[tokio::test(start_paused = true)]
async fn each_key_is_reconciled_by_one_of_three_replicas() {
    let three = Three::start().await;
    assert_eq!(three.owners(), [1; KEYS]);
    assert!(three.is_settled());
    let reconciles = three.journal.lock().reconciles;
    sleep(seconds(120)).await;
    assert_eq!(three.journal.lock().reconciles, reconciles, "no key moves without a change of members");
    let shares: Vec<usize> = three.replicas.iter().map(Replica::share).collect();
    // Member names are random, so the number of keys of each replica differs from run to run. This test
    // therefore only checks that each replica has some keys; a test with fixed names checks how even the
    // shares are.
    assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
}

#[tokio::test(start_paused = true)]
async fn keys_of_dropped_replica_move_within_lease_and_three_seconds() {
    let mut three = Three::start().await;
    let before = three.last();
    let dropped = three.replicas.remove(2);
    dropped.task.abort();
    let begun = Instant::now();
    sleep(seconds(10)).await;
    assert_eq!(three.last(), before, "no key moves before its lease may have expired");
    while !three.owners().iter().all(|owners| *owners == 1) {
        sleep(Duration::from_millis(100)).await;
    }
    assert!(begun.elapsed() <= seconds(18), "after {:?}", begun.elapsed());
    sleep(seconds(1)).await;
    let after = three.last();
    for (key, (owner, time)) in &before {
        let (next, moved) = after[key];
        assert!(
            next != 2 && (*owner == 2 || (next, moved) == (*owner, *time)),
            "{key}: {owner}, then {next}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn keys_of_stopped_replica_move_at_once_and_its_lease_is_deleted() {
    let mut three = Three::start().await;
    let stopped = three.replicas.remove(0);
    stopped.stop.cancel();
    sleep(seconds(4)).await;
    assert_eq!(three.owners(), [1; KEYS]);
    assert_eq!(stopped.sharding.check("default/web-0"), Err(NotOwned::NoLease));
    stopped.task.await.expect("no panic");
    assert_eq!(leases(&three.server).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn replica_without_server_owns_nothing_before_its_lease_expires() {
    let three = Three::start().await;
    three.server.faults().on(FaultMatch::verb(Verb::Patch)).then(FaultAction::NeverAnswer);
    sleep(Duration::from_millis(12_100)).await;
    assert_eq!(three.owners(), [0; KEYS]);
    three.server.faults().clear();
    sleep(seconds(20)).await;
    assert_eq!(three.owners(), [1; KEYS]);
}

#[tokio::test(start_paused = true)]
async fn foreign_fields_of_a_lease_are_kept() {
    let server = ApiServer::builder().build();
    let replica = Replica::start(&server, 0, &Arc::default());
    sleep(seconds(5)).await;
    let mut lease = leases(&server).remove(0);
    lease["metadata"]["labels"]["team"] = json!("blue");
    server
        .update(&Gvr::new("coordination.k8s.io", "v1", "leases"), "default", lease)
        .expect("a valid object");
    sleep(seconds(10)).await;
    assert_eq!(replica.share(), KEYS);
    let lease = leases(&server).remove(0);
    assert_eq!(lease["metadata"]["labels"]["team"], "blue");
    assert_eq!(lease["spec"]["holderIdentity"], "replica-0");
}

#[test]
fn invalid_shard_group_is_rejected() {
    let server = ApiServer::builder().build();
    let rejected =
        |group: ShardGroup| group.member(client(&server)).expect_err("an invalid configuration").to_string();
    assert!(rejected(ShardGroup::new("")).contains("the name or namespace is invalid"));
    assert!(rejected(ShardGroup::new("a").namespace("../b")).contains("the name or namespace is invalid"));
    assert!(
        rejected(ShardGroup::new("a").lease_duration(seconds(0))).contains("between a second and an hour")
    );
    assert!(rejected(ShardGroup::new("a").retry_period(seconds(6))).contains("three retry periods"));
    assert!(rejected(ShardGroup::new("a").retry_period(Duration::MAX)).contains("three retry periods"));
}
