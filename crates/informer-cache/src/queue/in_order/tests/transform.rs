use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use informer_core::Object;

use crate::queue::fixture::{Foo, foo, gone, list, missed, text};
use crate::queue::{InOrderQueue, ReflectorStore, Transform, TransformError};
use crate::source::Listed;
use crate::{Change, Replacement};

/// Returns a transform that adds 100 to the value of an object and counts its calls. It fails for an object
/// named `bad`, panics for `panic`, and changes the key of `moved`.
fn transform(calls: &Arc<AtomicUsize>) -> Transform<Foo> {
    let calls = Arc::clone(calls);
    Arc::new(move |object: Arc<Foo>| {
        calls.fetch_add(1, Ordering::Relaxed);
        match object.key().as_str() {
            "bad" => Err("no label".into()),
            "panic" => panic!("the transform of the test"),
            "moved" => Ok(foo("elsewhere", object.value)),
            name => Ok(foo(name, object.value + 100)),
        }
    })
}

fn pushed(changes: Vec<Change<Foo>>) -> (Vec<Change<Foo>>, usize) {
    let calls = Arc::default();
    let queue = InOrderQueue::with_transform("Foo", transform(&calls));
    queue.push(changes).unwrap();
    let mut seen = Vec::new();
    while let Ok(Some(batch)) = queue.try_pop_batch(1000) {
        seen.extend(batch.into_changes().0);
    }
    (seen, calls.load(Ordering::Relaxed))
}

#[test]
fn every_object_is_transformed_once_except_tombstones_of_missed_deletions() {
    let (seen, calls) = pushed(vec![
        Change::Added(foo("a", 1)),
        Change::Updated(foo("a", 2)),
        list(&[("a", 3), ("b", 4)], 4),
        Change::Deleted(gone("a", 5)),
        Change::Deleted(missed("b", 6)),
        Change::Resync,
    ]);
    let expected = [
        "added a=101",
        "updated a=102",
        "replaced [a=103 b=104] @4",
        "deleted a=105",
        "missed b=6",
        "resync",
    ];
    assert_eq!(seen.iter().map(text).collect::<Vec<_>>(), expected);
    assert_eq!(calls, 5);
}

#[test]
fn a_known_object_is_not_transformed_again() {
    let held = foo("held", 101);
    let items = vec![Listed::Known(Arc::clone(&held)), Listed::Fresh(foo("new", 1))];
    let (seen, calls) = pushed(vec![Change::Replaced(Replacement::new(items, "2"))]);
    let [Change::Replaced(replacement)] = &seen[..] else { panic!("one list was pushed: {seen:?}") };
    assert!(matches!(&replacement.items[0], Listed::Known(object) if Arc::ptr_eq(object, &held)));
    assert!(matches!(&replacement.items[1], Listed::Fresh(object) if object.value == 101));
    assert_eq!(calls, 1);
}

#[test]
fn an_object_whose_transform_fails_is_quarantined_and_others_are_queued() {
    let (seen, _) = pushed(vec![Change::Added(foo("bad", 7)), Change::Updated(foo("a", 1))]);
    assert_eq!(seen.iter().map(text).collect::<Vec<_>>(), ["undecodable bad", "updated a=101"]);
    let Change::Undecodable(undecodable) = &seen[0] else { unreachable!("the change is undecodable") };
    assert_eq!(undecodable.to_string(), "bad at version 7: the transform of Foo failed");
    assert_eq!(undecodable.uid(), "bad");
    assert_eq!(undecodable.error().source().map(ToString::to_string).as_deref(), Some("no label"));
}

#[test]
fn an_object_of_a_list_whose_transform_fails_counts_as_present() {
    let (seen, _) = pushed(vec![list(&[("bad", 1), ("a", 2)], 2)]);
    let [Change::Replaced(replacement)] = &seen[..] else { panic!("one list was pushed: {seen:?}") };
    assert_eq!(text(&seen[0]), "replaced [a=102] @2");
    assert_eq!(replacement.undecodable[0].key().unwrap(), "bad");
}

#[test]
fn a_transform_that_panics_is_contained() {
    let (seen, _) = pushed(vec![Change::Added(foo("panic", 1)), Change::Added(foo("a", 1))]);
    assert_eq!(seen.iter().map(text).collect::<Vec<_>>(), ["undecodable panic", "added a=101"]);
}

#[test]
fn a_deletion_whose_transform_fails_is_not_lost() {
    let (seen, _) = pushed(vec![Change::Deleted(gone("bad", 7))]);
    let [Change::Deleted(tombstone)] = &seen[..] else { panic!("expected a deletion: {seen:?}") };
    assert!(tombstone.stale() && tombstone.last().is_none() && *tombstone.key() == "bad");
}

#[test]
fn a_transform_that_changes_the_key_quarantines_the_object() {
    let (seen, _) = pushed(vec![Change::Added(foo("moved", 1))]);
    let Change::Undecodable(undecodable) = &seen[0] else {
        panic!("expected an undecodable object: {seen:?}")
    };
    let error = undecodable.error().downcast_ref::<TransformError>().unwrap();
    assert!(matches!(error, TransformError::KeyChanged { key, .. } if *key == "elsewhere"));
}
