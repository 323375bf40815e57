//! Tests of the documented contract of the queue: order, lists, `has_synced` and closing.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use informer_core::ResourceVersion;

use crate::Change;
use crate::queue::fixture::{Foo, foo, gone, list, missed, text};
use crate::queue::{InOrderQueue, QueueClosed, ReflectorStore};

fn queue(changes: Vec<Change<Foo>>) -> InOrderQueue<Foo> {
    let queue = InOrderQueue::new();
    queue.push(changes).unwrap();
    queue
}

fn drain(queue: &InOrderQueue<Foo>) -> Vec<String> {
    let mut seen = Vec::new();
    while let Ok(Some(batch)) = queue.try_pop_batch(1) {
        seen.extend(batch.iter().map(text));
        batch.done();
    }
    seen
}

fn pending(future: impl Future) -> bool {
    future.now_or_never().is_none()
}

#[tokio::test(start_paused = true)]
async fn items_of_each_writer_are_popped_in_order() {
    let queue = InOrderQueue::new();
    let writer = |name: &'static str| {
        let queue = queue.clone();
        tokio::spawn(async move {
            for value in 0..500 {
                queue.push(vec![Change::Added(foo(&format!("{name}{value}"), value))]).unwrap();
                tokio::task::yield_now().await;
            }
        })
    };
    let writers = [writer("a"), writer("b")];
    let (mut next, mut seen) = ([0, 0], 0);
    while seen < 1000 {
        for change in queue.pop_batch(7).await.unwrap().iter() {
            let Change::Added(object) = change else { panic!("only additions were queued") };
            let lane = usize::from(change.key().unwrap().as_str().starts_with('b'));
            assert_eq!(object.value, next[lane]);
            next[lane] += 1;
            seen += 1;
        }
    }
    assert_eq!(next, [500, 500]);
    for writer in writers {
        writer.await.unwrap();
    }
}

#[test]
fn every_change_of_one_key_is_popped_in_order() {
    let queue = queue(vec![
        Change::Added(foo("a", 10)),
        Change::Updated(foo("a", 12)),
        Change::Deleted(gone("a", 15)),
    ]);
    assert_eq!(drain(&queue), ["added a=10", "updated a=12", "deleted a=15"]);
}

#[test]
fn a_delete_of_an_unknown_key_is_kept() {
    let queue = queue(vec![
        Change::Added(foo("foo", 10)),
        Change::Updated(foo("bar", 15)),
        Change::Deleted(gone("baz", 17)),
        Change::Added(foo("qux", 18)),
        Change::Deleted(gone("zab", 20)),
    ]);
    let expected = ["added foo=10", "updated bar=15", "deleted baz=17", "added qux=18", "deleted zab=20"];
    assert_eq!(drain(&queue), expected);
}

#[test]
fn a_delete_after_an_unprocessed_add_keeps_both() {
    let queue = queue(vec![Change::Added(foo("a", 5)), Change::Deleted(gone("a", 6))]);
    assert_eq!(drain(&queue), ["added a=5", "deleted a=6"]);
}

#[test]
fn an_item_never_overtakes_earlier_ones() {
    let queue = queue(vec![
        Change::Added(foo("foo", 10)),
        Change::Added(foo("bar", 1)),
        Change::Updated(foo("foo", 11)),
        Change::Updated(foo("foo", 13)),
        Change::Added(foo("zab", 30)),
    ]);
    assert_eq!(text(&queue.try_pop_batch(1).unwrap().unwrap()[0]), "added foo=10");
    queue.push(vec![Change::Updated(foo("foo", 14))]).unwrap();
    let rest = ["added bar=1", "updated foo=11", "updated foo=13", "added zab=30", "updated foo=14"];
    assert_eq!(drain(&queue), rest);
}

#[test]
fn a_list_is_one_item_with_its_objects_and_version() {
    let added = queue(vec![Change::Added(foo("a", 10)), list(&[("a", 15)], 15)]);
    assert_eq!(drain(&added), ["added a=10", "replaced [a=15] @15"]);
    let deleted = queue(vec![Change::Deleted(gone("a", 1)), list(&[("b", 2)], 2)]);
    assert_eq!(drain(&deleted), ["deleted a=1", "replaced [b=2] @2"]);
    let empty = queue(vec![list(&[], 3)]);
    assert_eq!(drain(&empty), ["replaced [] @3"]);
    let marked = queue(vec![Change::Bookmark(5_u64.into()), list(&[("a", 1)], 10)]);
    assert_eq!(drain(&marked), ["bookmark @5", "replaced [a=1] @10"]);
}

#[test]
fn several_lists_are_kept_in_order() {
    let queue = queue(vec![list(&[("a", 5)], 10), list(&[("a", 6)], 20), list(&[], 56)]);
    assert_eq!(drain(&queue), ["replaced [a=5] @10", "replaced [a=6] @20", "replaced [] @56"]);
}

#[test]
fn a_list_creates_no_tombstones_in_the_queue() {
    let queue = queue(vec![Change::Added(foo("a", 1)), list(&[], 2), list(&[], 3)]);
    assert_eq!(drain(&queue), ["added a=1", "replaced [] @2", "replaced [] @3"]);
}

#[test]
fn a_resync_is_one_item_after_the_queued_changes() {
    let updated = queue(vec![Change::Updated(foo("a", 5)), Change::Resync]);
    assert_eq!(drain(&updated), ["updated a=5", "resync"]);
    let deleted = queue(vec![Change::Deleted(gone("a", 5)), Change::Resync]);
    assert_eq!(drain(&deleted), ["deleted a=5", "resync"]);
}

#[test]
fn adjacent_bookmarks_and_adjacent_resyncs_are_merged() {
    let queue = queue(vec![
        Change::Bookmark(1_u64.into()),
        Change::Bookmark(2_u64.into()),
        Change::Resync,
        Change::Resync,
        Change::Bookmark(3_u64.into()),
        Change::Added(foo("a", 4)),
        Change::Bookmark(ResourceVersion::from(5)),
    ]);
    assert_eq!(queue.depth(), 5);
    assert_eq!(drain(&queue), ["bookmark @2", "resync", "bookmark @3", "added a=4", "bookmark @5"]);
}

#[test]
fn has_synced_follows_the_first_list() {
    type Case = (&'static str, Vec<Change<Foo>>, &'static [bool]);
    let cases: [Case; 7] = [
        ("nothing", vec![], &[false]),
        ("an event first", vec![Change::Added(foo("a", 1))], &[true, true]),
        ("a delete first", vec![Change::Deleted(missed("a", 1))], &[true, true]),
        ("an empty list", vec![list(&[], 1)], &[false, true]),
        ("a list", vec![list(&[("a", 1), ("b", 2)], 2)], &[false, true]),
        ("a duplicate key", vec![list(&[("a", 1), ("a", 2)], 2)], &[false, true]),
        (
            "a bookmark, a list, an event",
            vec![Change::Bookmark(1_u64.into()), list(&[("a", 1)], 2), Change::Updated(foo("a", 3))],
            &[false, false, true, true],
        ),
    ];
    for (name, changes, expected) in cases {
        let queue = queue(changes);
        let mut seen = vec![queue.has_synced()];
        while let Ok(Some(batch)) = queue.try_pop_batch(1) {
            batch.done();
            seen.push(queue.has_synced());
        }
        assert_eq!(seen, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn has_synced_turns_true_when_the_list_is_processed_not_when_it_is_popped() {
    let queue = queue(vec![list(&[("a", 1)], 1)]);
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.synced().await }
    });
    let batch = queue.pop_batch(1).await.unwrap();
    assert!(batch.is_initial() && !queue.has_synced());
    let (changes, receipt) = batch.into_changes();
    assert_eq!(changes.len(), 1);
    assert!(!queue.has_synced() && pending(queue.synced()));
    receipt.done();
    assert!(queue.has_synced());
    assert_eq!(waiting.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_event_before_any_list_completes_the_initial_sync() {
    let queue = InOrderQueue::new();
    let synced = queue.synced();
    tokio::pin!(synced);
    assert!(pending(&mut synced));
    queue.push(vec![Change::Added(foo("a", 1))]).unwrap();
    assert_eq!(synced.await, Ok(()));
}

#[test]
fn a_dropped_batch_counts_as_processed() {
    let queue = queue(vec![list(&[], 1)]);
    drop(queue.try_pop_batch(1));
    assert!(queue.has_synced());
}

#[test]
fn a_requeued_batch_is_popped_again_unchanged() {
    let queue = queue(vec![list(&[("a", 1)], 1), Change::Updated(foo("a", 2))]);
    let batch = queue.try_pop_batch(10).unwrap().unwrap();
    queue.close();
    queue.requeue(batch);
    assert!(!queue.has_synced());
    let again = queue.try_pop_batch(10).unwrap().unwrap();
    assert!(again.is_initial());
    assert_eq!(again.iter().map(text).collect::<Vec<_>>(), ["replaced [a=1] @1"]);
    again.done();
    assert!(queue.has_synced());
    assert_eq!(drain(&queue), ["updated a=2"]);
}

#[test]
fn a_batch_requeued_before_the_first_list_counts_as_part_of_it() {
    let queue = queue(vec![Change::Resync]);
    let resync = queue.try_pop_batch(1).unwrap().unwrap();
    queue.push(vec![list(&[], 1)]).unwrap();
    queue.requeue(resync);
    queue.try_pop_batch(1).unwrap().unwrap().done();
    assert!(!queue.has_synced(), "the list is still queued");
    assert_eq!(drain(&queue), ["replaced [] @1"]);
    assert!(queue.has_synced());
}

#[tokio::test(start_paused = true)]
async fn closing_wakes_every_waiting_pop() {
    let queue: InOrderQueue<Foo> = InOrderQueue::new();
    let waiting: Vec<_> = (0..10)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.pop_batch(1).await.map(drop) })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.close();
    for pop in waiting {
        let popped = tokio::time::timeout(Duration::from_millis(500), pop).await.unwrap().unwrap();
        assert_eq!(popped, Err(QueueClosed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_is_drained_before_it_returns_an_error() {
    let queue = queue(vec![Change::Added(foo("a", 1)), Change::Resync]);
    queue.close();
    assert!(queue.is_closed());
    assert_eq!(queue.push(vec![Change::Added(foo("b", 1))]), Err(QueueClosed));
    assert_eq!(queue.pop_batch(10).await.unwrap().len(), 1);
    assert_eq!(queue.pop_batch(10).await.unwrap().len(), 1);
    assert_eq!(queue.pop_batch(10).await.err(), Some(QueueClosed));
    assert_eq!(queue.try_pop_batch(10).err(), Some(QueueClosed));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_sync_fails_when_the_queue_is_closed() {
    let queue = queue(vec![list(&[], 1)]);
    let synced = queue.synced();
    tokio::pin!(synced);
    assert!(pending(&mut synced));
    queue.close();
    assert_eq!(synced.await, Err(QueueClosed));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_pop_takes_nothing() {
    let queue = InOrderQueue::new();
    let mut pop = Box::pin(queue.pop_batch(10));
    assert!(pending(&mut pop));
    queue.push(vec![Change::Added(foo("a", 1))]).unwrap();
    drop(pop);
    assert_eq!(queue.depth(), 1);
    assert_eq!(drain(&queue), ["added a=1"]);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_makes_the_source_wait_until_it_is_half_empty() {
    let limit = InOrderQueue::<Foo>::MAX_WEIGHT;
    let changes = |count: usize| (0..count).map(|_| Change::Added(foo("a", 1))).collect::<Vec<_>>();
    let queue = queue(changes(limit - 1));
    queue.ready().await;
    queue.push(changes(1)).unwrap();
    let ready = queue.ready();
    tokio::pin!(ready);
    assert!(pending(&mut ready));
    while queue.depth() > limit / 2 {
        assert!(pending(&mut ready), "{} changes are queued", queue.depth());
        drop(queue.pop_batch(1000).await.unwrap());
    }
    ready.await;
}

#[tokio::test(start_paused = true)]
async fn a_list_weighs_as_much_as_its_objects_and_closing_ends_the_wait() {
    let items: Vec<_> = (0..InOrderQueue::<Foo>::MAX_WEIGHT as u64).map(|value| ("a", value)).collect();
    let queue = queue(vec![list(&items, 1)]);
    assert_eq!(queue.depth(), 1);
    assert!(pending(queue.ready()));
    queue.close();
    queue.ready().await;
}

#[test]
fn debug_output_contains_no_queued_object() {
    let queue = queue(vec![Change::Added(foo("secret", 42))]);
    assert!(!format!("{queue:?}").contains("secret"));
    let batch = queue.try_pop_batch(1).unwrap().unwrap();
    assert_eq!(format!("{batch:?}"), "Batch { changes: [Added(secret @42)], is_initial: false }");
    assert_eq!(Arc::strong_count(&queue.shared), 2);
}
