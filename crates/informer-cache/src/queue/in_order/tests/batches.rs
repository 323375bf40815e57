//! Tests of which changes are popped as one batch.

use crate::Change;
use crate::queue::fixture::{Foo, foo, gone, list, text};
use crate::queue::{InOrderQueue, ReflectorStore};

/// Pushes changes to a queue, then pops all batches of at most `max` changes. Returns for each batch whether
/// it belongs to the initial list, and its changes as strings.
fn batches(changes: Vec<Change<Foo>>, max: usize) -> Vec<(bool, Vec<String>)> {
    let queue = InOrderQueue::new();
    queue.push(changes).unwrap();
    let mut seen = Vec::new();
    while let Ok(Some(batch)) = queue.try_pop_batch(max) {
        seen.push((batch.is_initial(), batch.iter().map(text).collect()));
    }
    seen
}

fn added(names: &[&str]) -> Vec<Change<Foo>> {
    names.iter().map(|name| Change::Added(foo(name, 1))).collect()
}

#[test]
fn a_batch_contains_all_queued_changes() {
    let seen = batches(added(&["a", "b", "c"]), 1000);
    assert_eq!(seen, [(false, vec!["added a=1".into(), "added b=1".into(), "added c=1".into()])]);
}

#[test]
fn a_batch_mixes_kinds_and_holds_one_key_several_times() {
    let mut changes = added(&["a", "b"]);
    changes.extend([
        Change::Bookmark(7_u64.into()),
        Change::Updated(foo("a", 8)),
        Change::Deleted(gone("a", 9)),
    ]);
    let sizes: Vec<_> = batches(changes, 1000).into_iter().map(|(_, batch)| batch.len()).collect();
    assert_eq!(sizes, [5]);
}

#[test]
fn a_batch_ends_at_its_limit() {
    let sizes = |max| batches(added(&["a", "b", "c", "d"]), max).into_iter().map(|(_, batch)| batch.len());
    assert_eq!(sizes(2).collect::<Vec<_>>(), [2, 2]);
    assert_eq!(sizes(3).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(sizes(0).collect::<Vec<_>>(), [1, 1, 1, 1], "a batch is never empty");
}

#[test]
fn no_batch_is_larger_than_the_upper_limit() {
    let changes = (0..2500).map(|value| Change::Added(foo("a", value))).collect();
    let sizes: Vec<_> = batches(changes, usize::MAX).into_iter().map(|(_, batch)| batch.len()).collect();
    assert_eq!(sizes, [1000, 1000, 500]);
}

#[test]
fn lists_and_resyncs_are_batches_by_themselves() {
    let mut changes = added(&["a", "b"]);
    changes.push(list(&[("a", 1)], 2));
    changes.extend(added(&["c", "d"]));
    changes.push(Change::Resync);
    changes.extend(added(&["e"]));
    let sizes: Vec<_> = batches(changes, 1000).into_iter().map(|(_, batch)| batch.len()).collect();
    assert_eq!(sizes, [2, 1, 2, 1, 1]);
}

#[test]
fn a_batch_ends_where_the_initial_list_ends() {
    let changes = vec![
        Change::Bookmark(1_u64.into()),
        list(&[("a", 1), ("b", 1)], 1),
        Change::Added(foo("c", 2)),
        Change::Added(foo("d", 2)),
        list(&[("a", 3)], 3),
    ];
    let seen: Vec<_> =
        batches(changes, 1000).into_iter().map(|(initial, batch)| (initial, batch.len())).collect();
    assert_eq!(seen, [(true, 1), (true, 1), (false, 2), (false, 1)]);
}
