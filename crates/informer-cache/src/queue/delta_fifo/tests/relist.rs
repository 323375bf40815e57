//! Tests the effect of a complete list on queued and known objects.

use std::sync::Arc;

use super::{beside, drain, listing, unaided};
use crate::queue::fixture::{Foo, Held, foo, gone};
use crate::queue::{DeltaFifo, DeltaFifoConfig};

fn sync_on_replace(held: &Arc<Held>) -> DeltaFifo<Foo> {
    let config = DeltaFifoConfig::default().with_known_objects(Arc::clone(held) as _);
    DeltaFifo::new(config.with_sync_on_replace())
}

#[test]
fn a_list_is_popped_after_a_queued_delete() {
    let queue = beside(&Held::new(&[("foo1", 1)]));
    queue.delete(gone("foo1", 1)).unwrap();
    queue.replace(listing(&[("foo2", 2)])).unwrap();
    assert_eq!(drain(&queue), ["deleted foo1=1", "replaced foo2=2"]);
}

/// A test case: its name, the writes to the queue before an empty list, and the deltas that must be popped
/// after the list.
type Case = (&'static str, fn(&DeltaFifo<Foo>), &'static [&'static str]);

#[test]
fn an_object_that_is_only_queued_is_deleted_by_a_list_without_it() {
    let cases: [Case; 6] = [
        ("added", |queue| queue.add(foo("a", 1)).unwrap(), &["added a=1, missed a=1"]),
        (
            "added and listed",
            |queue| {
                queue.add(foo("a", 1)).unwrap();
                queue.replace(listing(&[("a", 2)])).unwrap();
            },
            &["added a=1, replaced a=2, missed a=2"],
        ),
        (
            "added and deleted",
            |queue| {
                queue.add(foo("a", 1)).unwrap();
                queue.delete(gone("a", 2)).unwrap();
            },
            &["added a=1, deleted a=2"],
        ),
        (
            "listed twice",
            |queue| {
                queue.add(foo("a", 1)).unwrap();
                queue.replace(listing(&[("a", 2)])).unwrap();
                queue.replace(listing(&[("a", 3)])).unwrap();
            },
            &["added a=1, replaced a=2, replaced a=3, missed a=3"],
        ),
        (
            "absent from two lists",
            |queue| {
                queue.add(foo("a", 1)).unwrap();
                queue.replace(listing(&[])).unwrap();
            },
            &["added a=1, missed a=1"],
        ),
        (
            "added again",
            |queue| {
                queue.add(foo("a", 1)).unwrap();
                queue.delete(gone("a", 1)).unwrap();
                queue.add(foo("a", 2)).unwrap();
            },
            &["added a=1, deleted a=1, added a=2, missed a=2"],
        ),
    ];
    for (name, before, expected) in cases {
        for queue in [unaided(), beside(&Held::new(&[]))] {
            before(&queue);
            queue.replace(listing(&[])).unwrap();
            assert_eq!(drain(&queue), expected, "{name}");
        }
    }
}

#[test]
fn a_list_entry_of_a_key_follows_its_queued_deltas() {
    let queue = unaided();
    queue.add(foo("a", 10)).unwrap();
    queue.replace(listing(&[("a", 15)])).unwrap();
    assert_eq!(queue.get("a").unwrap().newest().object().map(|object| object.value), Some(15));
    assert_eq!(drain(&queue), ["added a=10, replaced a=15"]);
}

#[test]
fn a_list_deletes_known_objects_with_their_newest_state() {
    let known = [("foo", 5), ("bar", 6), ("baz", 7)];
    let cases: [Case; 5] = [
        (
            "deleted",
            |queue| {
                queue.delete(gone("baz", 10)).unwrap();
                queue.replace(listing(&[("foo", 5)])).unwrap();
            },
            &["deleted baz=10", "replaced foo=5", "missed bar=6"],
        ),
        (
            "added",
            |queue| {
                queue.add(foo("baz", 10)).unwrap();
                queue.replace(listing(&[("foo", 5)])).unwrap();
            },
            &["added baz=10, missed baz=10", "replaced foo=5", "missed bar=6"],
        ),
        (
            "unknown, added",
            |queue| {
                queue.add(foo("new", 10)).unwrap();
                queue.replace(listing(&[("foo", 5)])).unwrap();
            },
            &["added new=10, missed new=10", "replaced foo=5", "missed bar=6", "missed baz=7"],
        ),
        (
            "deleted and added again",
            |queue| {
                queue.delete(gone("bar", 6)).unwrap();
                queue.add(foo("bar", 100)).unwrap();
                queue.replace(listing(&[("foo", 5)])).unwrap();
            },
            &["deleted bar=6, added bar=100, missed bar=100", "replaced foo=5", "missed baz=7"],
        ),
        (
            "two lists",
            |queue| {
                queue.replace(listing(&[("bar", 100), ("foo", 5)])).unwrap();
                queue.replace(listing(&[("foo", 5)])).unwrap();
            },
            &["replaced bar=100, missed bar=100", "replaced foo=5, replaced foo=5", "missed baz=7"],
        ),
    ];
    for (name, happens, expected) in cases {
        let queue = beside(&Held::new(&known));
        happens(&queue);
        assert_eq!(drain(&queue), expected, "{name}");
        let queue = sync_on_replace(&Held::new(&known));
        happens(&queue);
        let expected: Vec<_> = expected.iter().map(|text| text.replace("replaced", "sync")).collect();
        assert_eq!(drain(&queue), expected, "{name}, as sync");
    }
}

#[test]
fn without_known_objects_a_list_deletes_queued_objects() {
    let queue = unaided();
    queue.delete(gone("baz", 10)).unwrap();
    queue.add(foo("bar", 6)).unwrap();
    queue.replace(listing(&[("foo", 5)])).unwrap();
    assert_eq!(drain(&queue), ["added bar=6, missed bar=6", "replaced foo=5"]);
}

#[test]
fn the_deletions_of_the_first_list_belong_to_the_initial_list() {
    let queue = beside(&Held::new(&[("foo", 5), ("bar", 6), ("baz", 7)]));
    queue.replace(listing(&[("foo", 5)])).unwrap();
    for expected in ["foo", "bar", "baz"] {
        assert!(!queue.has_synced());
        let popped = queue.try_pop().unwrap().unwrap();
        assert!(popped.is_initial() && *popped.key() == expected);
    }
    assert!(queue.has_synced());
    queue.replace(listing(&[("foo", 6)])).unwrap();
    assert!(queue.has_synced(), "a later list does not count");
    assert!(!queue.try_pop().unwrap().unwrap().is_initial());
}
