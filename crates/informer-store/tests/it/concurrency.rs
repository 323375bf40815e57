//! Tests with readers on separate threads while a writer writes without a pause. The writer stops after a
//! fixed number of transactions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use informer_core::{Header, Object};
use informer_store::{Indexer, Snapshot, StoreBuilder, StoreChange, label, store};

use crate::{Pod, bare, key};

const PODS: usize = 100;
const ROUNDS: usize = 150;
const READERS: usize = 3;
/// The number of indexes that are added during the test. The number is small, because each added index makes
/// later writes more expensive.
const INDEXES: usize = 8;

fn pod(number: usize, round: usize) -> Arc<Pod> {
    let key = key(&format!("ns/pod-{number}"));
    Header::new(key).with_version(round as u64).with_labels([("round", round.to_string())]).into()
}

/// Writes the transaction of one round. Afterwards every stored pod has the number of the round as its
/// version and as its label `round`:
///
/// - Even rounds upsert all pods.
/// - Odd multiples of three replace the content of the store with all pods except the first.
/// - Other odd rounds delete the first pod and upsert the others.
fn write(writer: &mut informer_store::StoreWriter<Pod>, round: usize) {
    if round.is_multiple_of(2) {
        writer.apply((0..PODS).map(|number| StoreChange::upsert(pod(number, round)))).unwrap();
    } else if round.is_multiple_of(3) {
        let items = (1..PODS).map(|number| pod(number, round)).map(|pod| (pod.key().clone(), pod));
        writer.replace(items.collect(), round as u64);
    } else {
        let gone = StoreChange::delete_key(pod(0, round).key().clone());
        writer.apply((1..PODS).map(|number| StoreChange::upsert(pod(number, round))).chain([gone])).unwrap();
    }
}

/// Asserts that all objects, their number and their index entries are from the same round. Returns the round.
fn is_one_version(pods: &[Arc<Pod>]) -> usize {
    let round = pods.first().and_then(|pod| pod.resource_version().as_u64()).unwrap();
    assert!(pods.iter().all(|pod| *pod.resource_version() == *round.to_string()), "a partial transaction");
    assert_eq!(pods.len(), PODS - (round % 2) as usize);
    round as usize
}

fn check_snapshot(snapshot: &Snapshot<Pod>) -> usize {
    let round = is_one_version(&snapshot.list());
    assert_eq!(snapshot.by_index("round", &round.to_string()).unwrap().len(), snapshot.len());
    assert_eq!(snapshot.index_values("round").len(), 1);
    assert_eq!(*snapshot.resource_version(), *round.to_string());
    assert_eq!(
        snapshot.version(),
        round as u64 + 2,
        "one version a transaction, the index and the first included"
    );
    round
}

fn read_until(done: &AtomicBool, pods: &Indexer<Pod>) {
    let mut newest = 0;
    let mut advance = |round: usize| {
        assert!(round >= newest, "went back from round {newest} to {round}");
        newest = round;
    };
    let mut last = false;
    while !last {
        last = done.load(Ordering::Acquire);
        advance(is_one_version(&pods.list()));
        advance(check_snapshot(&pods.snapshot()));
        let found = pods.by_index("round", &pods.resource_version().to_string()).unwrap();
        assert!(found.is_empty() || found.len() >= PODS - 1, "an index has entries of one version");
        advance(pods.get("ns/pod-7").and_then(|pod| pod.resource_version().as_u64()).unwrap() as usize);
    }
    assert_eq!(newest, ROUNDS - 1, "the last transaction is visible after it has returned");
}

#[test]
fn readers_never_see_half_a_transaction_nor_go_back() {
    let mut writer = StoreBuilder::new().index("round", label("round")).writer();
    write(&mut writer, 0);
    let (pods, done, start) = (writer.indexer().clone(), AtomicBool::new(false), Barrier::new(READERS + 1));
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                start.wait();
                read_until(&done, &pods);
            });
        }
        start.wait();
        let mut held = Vec::new();
        for round in 1..ROUNDS {
            write(&mut writer, round);
            if round.is_multiple_of(50) {
                held.push((round, writer.snapshot()));
            }
        }
        done.store(true, Ordering::Release);
        held.iter().for_each(|(round, snapshot)| assert_eq!(check_snapshot(snapshot), *round));
    });
}

#[test]
fn indexes_added_while_a_writer_is_busy_are_complete() {
    let mut writer = store::<Pod>();
    write(&mut writer, 0);
    let (pods, start) = (writer.indexer().clone(), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            for number in 0..INDEXES {
                let name = format!("round-{number}");
                pods.add_index(name.as_str(), label("round")).unwrap();
                let snapshot = pods.snapshot();
                let round = is_one_version(&snapshot.list()).to_string();
                assert_eq!(snapshot.by_index(&name, &round).unwrap().len(), snapshot.len());
            }
        });
        start.wait();
        (1..ROUNDS).for_each(|round| write(&mut writer, round));
    });
    for number in 0..INDEXES {
        assert_eq!(pods.index_values(&format!("round-{number}")), [(ROUNDS - 1).to_string().into()]);
    }
}

#[test]
fn writers_behind_one_handle_lose_nothing() {
    let (pods, start) = (StoreBuilder::<Pod>::new().build(), Barrier::new(4));
    thread::scope(|scope| {
        for writer in 0..4 {
            let (pods, start) = (pods.clone(), &start);
            scope.spawn(move || {
                start.wait();
                for number in 0..500 {
                    pods.add(bare(&format!("writer-{writer}/pod-{number}"))).unwrap();
                }
            });
        }
    });
    assert_eq!((pods.len(), pods.version()), (2_000, 2_000));
}
