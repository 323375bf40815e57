//! Limits the number of allocations of a store. Unlike benchmarks, these regression tests do not depend on a
//! clock. Each test runs on its own thread, and all counted code runs on that thread.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Arc;

use allocation_counter::measure;
use informer_core::{Header, LabelSelector, Object, ObjectKey};
use informer_store::{StoreBuilder, StoreChange, StoreWriter, label, namespace};

const OBJECTS: usize = 10_000;
const NAMESPACES: usize = 10;
const BATCH: usize = 1_000;

fn pod(number: usize, version: u64) -> Arc<Header> {
    let key = ObjectKey::new(&format!("team-{}", number % NAMESPACES), &format!("pod-{number:06}")).unwrap();
    Header::new(key).with_version(version).with_labels([("app", format!("app-{}", number % 100))]).into()
}

fn filled() -> StoreWriter<Header> {
    let indexes = StoreBuilder::new().index("namespace", namespace()).index("app", label("app"));
    let mut writer = indexes.writer();
    let items = (0..OBJECTS).map(|number| pod(number, 1));
    writer.replace(items.map(|pod| (pod.key().clone(), pod)).collect(), 1);
    // After a second write to each object, the two copies of the state (one for readers, one for the writer)
    // share no pages, as in a store that has applied many transactions.
    writer.apply((0..OBJECTS).map(|number| StoreChange::upsert(pod(number, 2)))).unwrap();
    writer
}

#[test]
fn a_lookup_allocates_nothing() {
    let pods = filled();
    let lister = pods.lister();
    let found = measure(|| {
        assert!((0..OBJECTS).all(|number| pods.get("team-3/pod-000003").is_some() && pods.len() > number));
        assert!(pods.get("team-3/no-such-pod").is_none() && !pods.contains("team-3/no-such-pod"));
        assert!(lister.get("team-3/pod-000003").is_ok());
    });
    assert_eq!(found.count_total, 0);
}

#[test]
fn a_list_allocates_what_it_returns() {
    let pods = filled();
    let (lister, selector): (_, LabelSelector) = (pods.lister(), "app=app-7".parse().unwrap());
    // The vector of a list grows as it is filled, at most by doubling, so a list may take several
    // allocations.
    let everything = measure(|| assert_eq!(pods.list().len(), OBJECTS)).count_total;
    let one = measure(|| assert_eq!(pods.by_index("namespace", "team-3").unwrap().len(), 1_000)).count_total;
    let chosen = measure(|| assert_eq!(lister.list(&selector).len(), 100)).count_total;
    println!("{everything} allocations of all, {one} of a namespace, {chosen} of a label");
    assert!(everything <= 20 && one <= 12 && chosen <= 10, "{everything}, {one}, {chosen}");
}

#[test]
fn a_snapshot_copies_no_objects() {
    let pods = filled();
    let mut snapshot = None;
    let taken = measure(|| snapshot = Some(pods.snapshot()));
    println!("{} allocations and {} bytes of a snapshot", taken.count_total, taken.bytes_total);
    // A snapshot copies only references: one for each page of objects, and one for each shard of keys or
    // index values.
    assert!(taken.bytes_total < OBJECTS as u64 * 4, "{} bytes", taken.bytes_total);
    assert!(taken.count_total < 300, "{}", taken.count_total);
    assert_eq!(snapshot.unwrap().len(), OBJECTS);
}

#[test]
fn an_update_allocates_nothing_but_its_share_of_the_transaction() {
    let mut pods = filled();
    for size in [1, BATCH] {
        let changes: Vec<_> = (0..size).map(|number| StoreChange::upsert(pod(number, 3))).collect();
        let applied = measure(|| drop(pods.apply(changes).unwrap()));
        println!("{} allocations of a transaction of {size}", applied.count_total);
        assert!(applied.count_total <= 40, "{} of a transaction of {size}", applied.count_total);
    }
}
