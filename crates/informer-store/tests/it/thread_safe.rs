use informer_core::Header;
use informer_store::{StoreBuilder, StoreChange, ThreadSafeStore, store};

use crate::{Pod, bare, key, names, versioned};

fn empty() -> ThreadSafeStore<Pod> {
    StoreBuilder::new().thread_safe()
}

#[test]
fn the_version_of_a_store_is_that_of_its_last_write() {
    let pods = empty();
    let expect = |version: &str| assert_eq!(pods.resource_version(), version);
    expect("");
    pods.add(key("1"), versioned("1", "10"));
    expect("10");
    pods.update(key("1"), versioned("1", "10"));
    expect("10");
    pods.update(key("1"), versioned("1", "20"));
    expect("20");
    pods.delete_with_object(&key("1"), versioned("1", "30"));
    expect("30");
    pods.add(key("2"), bare("2"));
    expect("30");
    pods.add(key("1"), versioned("1", "40"));
    expect("40");
    pods.delete(&key("1"));
    expect("40");
    pods.transaction([
        StoreChange::upsert(versioned("1", "40")),
        StoreChange::upsert(versioned("2", "30")),
        StoreChange::upsert(versioned("3", "50")),
    ]);
    expect("50");
    pods.transaction([StoreChange::upsert(versioned("1", "60")), StoreChange::delete(versioned("1", "45"))]);
    expect("45");
    let items = [versioned("1", "30"), versioned("2", "40")].map(|pod| (key("x"), pod));
    pods.replace(items.into(), "50");
    expect("50");
    pods.bookmark("49");
    expect("49");
}

#[test]
fn writer_advances_the_version_with_each_write() {
    let mut writer = store::<Pod>();
    assert!(writer.resource_version().is_empty());
    writer
        .apply([StoreChange::upsert(versioned("a", "9")), StoreChange::upsert(versioned("b", "7"))])
        .unwrap();
    assert_eq!(writer.resource_version(), "7", "the last one, not the greatest");
    writer.replace(vec![(key("a"), versioned("a", "3"))], "5");
    assert_eq!(writer.resource_version(), "5");
    writer.bookmark("4");
    assert_eq!((writer.resource_version(), writer.len()), ("4".into(), 1));
    let snapshot = writer.snapshot();
    writer.bookmark("8");
    assert_eq!(*snapshot.resource_version(), "4", "a snapshot keeps its version");
}

#[test]
fn keys_are_those_of_the_caller() {
    let pods = empty();
    pods.add(key("elsewhere/x"), bare("default/a"));
    assert!(pods.contains("elsewhere/x") && !pods.contains("default/a"));
    assert_eq!(names(pods.delete(&key("elsewhere/x"))), ["default/a"]);
    assert!(pods.delete(&key("elsewhere/x")).is_none());
    pods.transaction([StoreChange::upsert(bare("b/c")), StoreChange::upsert(bare("b/c")).at(key("d"))]);
    assert_eq!(pods.keys().len(), 2);
    pods.resync();
}

#[test]
fn a_replacement_swaps_everything_and_the_last_of_two_equal_keys_stays() {
    let pods = StoreBuilder::new().index("namespace", informer_store::namespace()).thread_safe();
    pods.add(key("a/old"), bare("a/old"));
    let before = pods.snapshot();
    let items = [("b/new", "1"), ("b/new", "2"), ("c/new", "3")];
    pods.replace(items.map(|(name, version)| (key(name), versioned(name, version))).into(), "9");
    assert_eq!(pods.index_values("namespace").len(), 2);
    assert_eq!(pods.get("b/new").as_deref(), Some(&Header::new(key("b/new")).with_version("2")));
    assert_eq!(names(pods.by_index("namespace", "b").unwrap()), ["b/new"]);
    assert_eq!(names(before.by_index("namespace", "a").unwrap()), ["a/old"]);
    assert!(before.by_index("namespace", "b").unwrap().is_empty());
}

#[test]
fn reads_of_missing_keys_return_nothing() {
    let pods = empty();
    assert!(pods.get("").is_none() && pods.get("a/b/c/d").is_none() && !pods.contains("x"));
    assert!(pods.list().is_empty() && pods.keys().is_empty() && pods.is_empty());
}
