//! Tests of sharded controllers. Several managers on one server simulate the replicas of a program.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use informer_apiserver::{FaultAction, FaultMatch, Verb};
use informer_runtime::{
    CancellationToken, Controller, ControllerHandle, ControllerOptions, Manager, ManagerError, Outcome,
    Request, ShardGroup, WriteError,
};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::fixture::{Server, gvr};

const MAPS: usize = 40;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn after(time: u64) {
    tokio::time::sleep(seconds(time)).await;
}

/// The log of all reconciles of all replicas, in order. Each entry has the number of the replica and the key.
type Journal = Arc<Mutex<Vec<(usize, String)>>>;

struct Replica {
    handle: ControllerHandle,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

impl Replica {
    fn start(server: &Server, number: usize, journal: &Journal) -> Self {
        let journal = Arc::clone(journal);
        let builder = Controller::new::<ConfigMap>("maps").sharded(ShardGroup::new("maps"));
        let controller = builder.reconcile(move |request: Request, ctx| {
            assert!(ctx.owned_key().is_some_and(|owned| owned.check().is_ok()));
            journal.lock().push((number, request.to_string()));
            async { Ok(Outcome::Done) }
        });
        Self::of(server, controller)
    }

    fn of(server: &Server, controller: Controller) -> Self {
        let (handle, stop) = (controller.handle(), CancellationToken::new());
        let manager = Manager::new(server.api_client()).controller(controller);
        let task = tokio::spawn(manager.run_until(stop.clone().cancelled_owned()));
        Self { handle, stop, task }
    }

    fn shard(&self) -> informer_runtime::ShardState {
        self.handle.state().and_then(|state| state.shard).expect("a sharded controller")
    }
}

fn create(server: &Server, number: usize) {
    server.create("configmaps", &format!("a/map-{number}"), json!({}));
}

/// Returns for each key the number of the replica that has reconciled it last.
fn owners(journal: &Journal) -> BTreeMap<String, usize> {
    journal.lock().iter().map(|(number, key)| (key.clone(), *number)).collect()
}

async fn three() -> (Server, Journal, Vec<Replica>) {
    let (server, journal) = (Server::start(), Journal::default());
    (0..MAPS).for_each(|number| create(&server, number));
    let replicas = (0..3).map(|number| Replica::start(&server, number, &journal)).collect();
    after(20).await;
    (server, journal, replicas)
}

#[tokio::test(start_paused = true)]
async fn object_is_reconciled_by_one_of_three_replicas() {
    let (server, journal, replicas) = three().await;
    let owners = owners(&journal);
    assert_eq!(owners.len(), MAPS);
    let share = |number: usize| owners.values().filter(|owner| **owner == number).count();
    // Member names are random, so the number of keys of each replica differs from run to run. This test
    // therefore only checks that each replica has some keys; a test with fixed names checks how even the
    // shares are.
    assert!((0..3).all(|number| share(number) > 0), "{owners:?}");
    journal.lock().clear();
    for number in 0..MAPS {
        server.api.delete(&gvr("configmaps"), "a", &format!("map-{number}")).expect("it exists");
    }
    after(1).await;
    let seen: Vec<_> = journal.lock().iter().map(|(number, key)| (key.clone(), *number)).collect();
    assert_eq!(seen.len(), MAPS, "each deletion is seen once");
    assert!(seen.iter().all(|(key, number)| owners[key] == *number));
    let state = replicas[0].shard();
    assert!(state.active && state.members == 3 && state.refused > 0, "{state:?}");
    after(60).await;
    assert_eq!(replicas[0].shard().remembered, 0, "stored requests expire");
}

#[tokio::test(start_paused = true)]
async fn only_keys_of_dead_replica_are_reconciled_by_others() {
    let (_server, journal, mut replicas) = three().await;
    let before = owners(&journal);
    journal.lock().clear();
    replicas.remove(2).task.abort();
    after(18).await;
    let moved = owners(&journal);
    for (key, owner) in &before {
        assert_eq!(moved.contains_key(key), *owner == 2, "{key} of {owner}");
    }
    assert!(moved.values().all(|owner| *owner != 2));
}

#[tokio::test(start_paused = true)]
async fn stopped_replica_ends_without_error_and_its_keys_move_at_once() {
    let (server, journal, mut replicas) = three().await;
    let before = owners(&journal);
    journal.lock().clear();
    let stopped = replicas.remove(0);
    stopped.stop.cancel();
    after(4).await;
    let lost = before.values().filter(|owner| **owner == 0).count();
    assert_eq!(owners(&journal).len(), lost);
    stopped.task.await.expect("no panic").expect("no error");
    let leases = informer_core::Gvr::new("coordination.k8s.io", "v1", "leases");
    assert_eq!(server.api.list(&leases, "default").expect("the kind is served").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn deletion_during_hand_over_is_reconciled_by_the_next_owner() {
    let (server, journal, mut replicas) = three().await;
    let before = owners(&journal);
    replicas.remove(1).task.abort();
    after(2).await;
    journal.lock().clear();
    // The owner of this key was aborted and has not left the group. No other replica may act on the key
    // before the owner's lease expires, which takes about ten more seconds, so the deletion happens during
    // the hand-over.
    let (key, _) = before.iter().find(|(_, owner)| **owner == 1).expect("an owned key");
    let (_, name) = key.split_once('/').expect("a key with a namespace");
    server.api.delete(&gvr("configmaps"), "a", name).expect("it exists");
    after(5).await;
    assert!(!owners(&journal).contains_key(key));
    after(13).await;
    assert!(owners(&journal).contains_key(key));
}

#[tokio::test(start_paused = true)]
async fn write_is_not_sent_once_the_lease_is_uncertain() {
    let server = Server::start();
    create(&server, 0);
    let told: Arc<Mutex<Vec<bool>>> = Arc::default();
    let tell = Arc::clone(&told);
    let builder = Controller::new::<ConfigMap>("maps").sharded(ShardGroup::new("maps"));
    let controller = builder.reconcile(move |request, ctx| {
        let told = Arc::clone(&tell);
        async move {
            after(30).await;
            let Some(map) = ctx.get::<ConfigMap>(&request.key).await? else { return Ok(Outcome::Done) };
            let mut edited = map.edit();
            edited.data.get_or_insert_default().insert("late".to_owned(), "true".to_owned());
            let written = ctx.client.update(&edited).await;
            told.lock().push(written.as_ref().is_err_and(WriteError::is_fenced));
            written?;
            Ok(Outcome::Done)
        }
    });
    let replica = Replica::of(&server, controller);
    after(10).await;
    let leases = FaultMatch { resource: Some("leases".to_owned()), ..FaultMatch::verb(Verb::Patch) };
    server.api.faults().on(leases).then(FaultAction::NeverAnswer);
    after(25).await;
    assert_eq!(*told.lock(), [true]);
    assert!(server.get("configmaps", "a/map-0")["data"].is_null());
    let state = replica.shard();
    assert_eq!((state.active, state.writes_refused), (false, 1));
    server.api.faults().clear();
    after(60).await;
    assert_eq!(server.get("configmaps", "a/map-0")["data"]["late"], "true", "it is reconciled again");
}

#[tokio::test(start_paused = true)]
async fn requests_with_one_shard_key_belong_to_one_replica() {
    let (server, journal) = (Server::start(), Journal::default());
    for namespace in 0..20 {
        for name in ["x", "y", "z"] {
            server.create("configmaps", &format!("n{namespace}/{name}"), json!({}));
        }
    }
    let start = |number: usize| {
        let journal = Arc::clone(&journal);
        let by_namespace = |request: &Request| request.namespace().unwrap_or_default().to_owned();
        let builder = Controller::new::<ConfigMap>("maps").sharded_by(ShardGroup::new("maps"), by_namespace);
        Replica::of(
            &server,
            builder.reconcile(move |request: Request, _| {
                journal.lock().push((number, request.to_string()));
                async { Ok(Outcome::Done) }
            }),
        )
    };
    let _replicas = [start(0), start(1)];
    after(20).await;
    let owners = owners(&journal);
    assert_eq!(owners.len(), 60);
    assert!([0, 1].iter().all(|number| owners.values().any(|owner| owner == number)));
    for namespace in 0..20 {
        let of = |name: &str| owners[&format!("n{namespace}/{name}")];
        assert!(of("x") == of("y") && of("y") == of("z"));
    }
}

#[tokio::test(start_paused = true)]
async fn shard_metrics_count_owned_and_rejected_requests() {
    let (server, journal) = (Server::start(), Journal::default());
    create(&server, 0);
    let controller = Controller::new::<ConfigMap>("maps")
        .sharded(ShardGroup::new("maps"))
        .reconcile(|_, _| async { Ok(Outcome::Done) });
    let manager = Manager::new(server.api_client()).controller(controller);
    let handle = manager.handle();
    let text = || {
        let mut text = String::new();
        handle.register_metrics(|registry| {
            prometheus_client::encoding::text::encode(&mut text, registry).expect("text")
        });
        text
    };
    assert!(text().contains("informer_shard_refused_writes_total{controller=\"maps\"} 0"));
    let stop = CancellationToken::new();
    let task = tokio::spawn(manager.run_until(stop.clone().cancelled_owned()));
    after(5).await;
    let has = |line: &str| {
        let text = text();
        assert!(text.contains(&format!("informer_shard_{line}")), "{line}:\n{text}");
    };
    has("active{controller=\"maps\"} 1");
    has("members{controller=\"maps\"} 1");
    has("share{controller=\"maps\"} 1.0");
    has("gained_requests_total{controller=\"maps\"} 1");
    has("refused_requests_total{controller=\"maps\",reason=\"elsewhere\"} 0");
    let _other = Replica::start(&server, 1, &journal);
    after(10).await;
    has("members{controller=\"maps\"} 2");
    has("share{controller=\"maps\"} 0.");
    (1..30).for_each(|number| create(&server, number));
    after(1).await;
    assert!(!text().contains("reason=\"elsewhere\"} 0\n"));
    stop.cancel();
    task.await.expect("no panic").expect("no error");
    has("active{controller=\"maps\"} 0");
}

#[tokio::test(start_paused = true)]
async fn leader_only_sharded_controller_is_rejected() {
    let server = Server::start();
    let rejected = async |builder: informer_runtime::ControllerBuilder| {
        let controller = builder.reconcile(|_, _| async { Ok(Outcome::Done) });
        let manager = Manager::new(server.api_client()).controller(controller);
        let error = manager.run_until(std::future::pending::<()>()).await.expect_err("it is rejected");
        let mut texts = vec![error.to_string()];
        let mut source: Option<&dyn Error> = error.source();
        while let Some(cause) = source {
            texts.push(cause.to_string());
            source = cause.source();
        }
        texts.join(": ")
    };
    let builder = || Controller::new::<ConfigMap>("maps");
    let leader = builder().with_options(ControllerOptions::new().leader_only(true));
    let text = rejected(leader.sharded(ShardGroup::new("maps"))).await;
    assert!(text.contains("remove `leader_only(true)`"), "{text}");
    let text = rejected(builder().sharded(ShardGroup::new("No Name"))).await;
    assert!(text.contains("the shard group is invalid: join shard group"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn shard_key_panic_counts_as_reconcile_panic() {
    let (server, journal) = (Server::start(), Journal::default());
    (0..3).for_each(|number| create(&server, number));
    let asked = Arc::new(Mutex::new(0_u32));
    let count = Arc::clone(&asked);
    let key_of = move |request: &Request| {
        if request.to_string() == "a/map-1" {
            let asked = {
                let mut count = count.lock();
                *count += 1;
                *count
            };
            assert!(asked > 4, "the key has no shard yet");
        }
        request.to_string()
    };
    let builder = Controller::new::<ConfigMap>("maps").sharded_by(ShardGroup::new("maps"), key_of);
    let noted = Arc::clone(&journal);
    let replica = Replica::of(
        &server,
        builder.reconcile(move |request: Request, _| {
            noted.lock().push((0, request.to_string()));
            async { Ok(Outcome::Done) }
        }),
    );
    after(60).await;
    assert_eq!(owners(&journal).len(), 3, "{:?}", owners(&journal));
    let state = replica.handle.state().expect("it is running");
    assert!(*asked.lock() > 4);
    assert!(state.reconciles.panics > 0 && state.reconciles.panics == state.reconciles.error, "{state:?}");
    assert_eq!(state.trigger_panics, 0, "a key without a shard is left to the workers");
    replica.stop.cancel();
    replica.task.await.expect("no panic").expect("no error");
}
