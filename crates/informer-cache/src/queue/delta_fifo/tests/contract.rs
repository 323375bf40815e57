//! Tests of the documented contract of the queue: order, compression, `has_synced`, requeue and closing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use informer_core::{KeyError, Object, Tombstone};

use super::{beside, drain, listing, pop, unaided};
use crate::queue::fixture::{Foo, Held, foo, gone, key, list, missed};
use crate::queue::{
    Delta, DeltaFifo, DeltaFifoConfig, Deltas, EnqueueError, Processed, Queue, QueueClosed, ReflectorStore,
};
use crate::{Change, UndecodableLog};

#[tokio::test(start_paused = true)]
async fn items_of_each_writer_are_popped_in_order() {
    let queue = unaided();
    for name in ["a", "b"] {
        let queue = queue.clone();
        tokio::spawn(async move {
            for value in 0..500 {
                queue.add(foo(&format!("{name}{value}"), value)).unwrap();
                tokio::task::yield_now().await;
            }
        });
    }
    let mut next = HashMap::new();
    for _ in 0..1000 {
        let deltas = queue.pop().await.unwrap();
        let due = next.entry(deltas.key().as_str().chars().next()).or_insert(0);
        assert_eq!(deltas.newest().object().map(|object| object.value), Some(*due));
        *due += 1;
    }
}

#[test]
fn all_deltas_of_a_key_are_popped_at_once() {
    let queue = unaided();
    queue.add(foo("a", 10)).unwrap();
    queue.update(foo("a", 12)).unwrap();
    queue.delete(gone("a", 15)).unwrap();
    assert_eq!(queue.list()[0].value, 15);
    assert_eq!(queue.list_keys(), [key("a")]);
    assert_eq!(queue.get("a").unwrap().len(), 3);
    assert_eq!(pop(&queue), "added a=10, updated a=12, deleted a=15");
    assert!(queue.get("a").is_none() && queue.depth() == 0);
}

#[test]
fn without_known_objects_a_delete_of_a_key_that_is_not_queued_is_dropped() {
    let queue = unaided();
    queue.add(foo("foo", 10)).unwrap();
    queue.update(foo("bar", 15)).unwrap();
    queue.add(foo("qux", 17)).unwrap();
    queue.delete(gone("qux", 18)).unwrap();
    queue.delete(gone("baz", 20)).unwrap();
    assert_eq!(drain(&queue), ["added foo=10", "updated bar=15", "added qux=17, deleted qux=18"]);
}

#[test]
fn a_delete_of_a_known_object_is_queued() {
    let queue = beside(&Held::new(&[("foo", 5), ("bar", 6), ("baz", 7)]));
    queue.add(foo("foo", 10)).unwrap();
    queue.update(foo("bar", 15)).unwrap();
    queue.delete(gone("baz", 20)).unwrap();
    queue.delete(gone("unknown", 21)).unwrap();
    assert_eq!(drain(&queue), ["added foo=10", "updated bar=15", "deleted baz=20"]);
}

#[test]
fn a_delete_after_an_unprocessed_add_keeps_both() {
    let queue = beside(&Held::new(&[]));
    queue.add(foo("a", 5)).unwrap();
    queue.delete(gone("a", 6)).unwrap();
    assert_eq!(drain(&queue), ["added a=5, deleted a=6"]);
}

#[test]
fn of_two_consecutive_deletes_the_one_with_more_information_is_kept() {
    let cases: [(Vec<Tombstone<Foo>>, &str); 5] = [
        (vec![gone("a", 1), gone("a", 2)], "deleted a=1"),
        (vec![gone("a", 1), missed("a", 2)], "deleted a=1"),
        (vec![missed("a", 1), gone("a", 2)], "deleted a=2"),
        (vec![missed("a", 1), missed("a", 2)], "missed a=2"),
        (vec![missed("a", 1), gone("a", 2), missed("a", 3)], "deleted a=2"),
    ];
    for (tombstones, expected) in cases {
        let queue = beside(&Held::new(&[("a", 0)]));
        for tombstone in tombstones {
            queue.delete(tombstone).unwrap();
        }
        assert_eq!(drain(&queue), [expected]);
    }
}

#[test]
fn only_consecutive_deletes_are_compressed() {
    let queue = beside(&Held::new(&[("a", 0)]));
    queue.update(foo("a", 1)).unwrap();
    queue.update(foo("a", 1)).unwrap();
    queue.delete(gone("a", 2)).unwrap();
    queue.add(foo("a", 3)).unwrap();
    queue.delete(gone("a", 4)).unwrap();
    assert_eq!(drain(&queue), ["updated a=1, updated a=1, deleted a=2, added a=3, deleted a=4"]);
}

#[test]
fn an_item_never_overtakes_earlier_ones() {
    let queue = unaided();
    for (name, value) in [("foo", 10), ("bar", 1), ("foo", 11), ("foo", 13), ("zab", 30)] {
        queue.add(foo(name, value)).unwrap();
    }
    assert_eq!(pop(&queue), "added foo=10, added foo=11, added foo=13");
    queue.add(foo("foo", 14)).unwrap();
    assert_eq!(drain(&queue), ["added bar=1", "added zab=30", "added foo=14"]);
}

#[test]
fn a_resync_queues_known_keys_without_queued_deltas() {
    let queue = beside(&Held::new(&[("bar", 1), ("baz", 2), ("foo", 5)]));
    queue.delete(gone("foo", 10)).unwrap();
    queue.update(foo("baz", 3)).unwrap();
    queue.resync().unwrap();
    assert_eq!(drain(&queue), ["deleted foo=10", "updated baz=3", "sync bar=1"]);
    let queue = unaided();
    queue.resync().unwrap();
    assert_eq!(queue.depth(), 0);
}

#[test]
fn has_synced_counts_the_keys_of_the_first_list() {
    type Case = (&'static str, Vec<Change<Foo>>, &'static [bool]);
    let cases: [Case; 6] = [
        ("nothing", vec![], &[false]),
        ("an event first", vec![Change::Added(foo("a", 1))], &[true, true]),
        ("an empty list", vec![list(&[], 1)], &[true]),
        ("a list of one", vec![list(&[("a", 1)], 1)], &[false, true]),
        ("a list of two", vec![list(&[("a", 1), ("b", 2)], 2)], &[false, false, true]),
        ("a duplicate key", vec![list(&[("a", 1), ("a", 2)], 2)], &[false, true]),
    ];
    for (name, changes, expected) in cases {
        let queue = unaided();
        queue.push(changes).unwrap();
        let mut seen = vec![queue.has_synced()];
        while queue.depth() > 0 {
            pop(&queue);
            seen.push(queue.has_synced());
        }
        assert_eq!(seen, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn has_synced_turns_true_when_the_last_key_is_processed_not_when_it_is_popped() {
    let queue = unaided();
    queue.replace(listing(&[("a", 1)])).unwrap();
    let popped = queue.pop().await.unwrap();
    assert!(popped.is_initial() && !queue.has_synced());
    assert!(queue.synced().now_or_never().is_none());
    let (deltas, receipt) = popped.into_parts();
    assert_eq!(deltas.len(), 1);
    receipt.done();
    queue.synced().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_item_requeued_by_the_process_function_is_popped_again_after_the_others() {
    let queue = unaided();
    queue.add(foo("a", 1)).unwrap();
    queue.add(foo("b", 1)).unwrap();
    let asked = queue.pop_with(|deltas, _| Processed::Requeue(deltas.key().clone())).await.unwrap();
    assert_eq!(asked, key("a"));
    assert_eq!(drain(&queue), ["added b=1", "added a=1"]);
}

#[tokio::test(start_paused = true)]
async fn requeued_deltas_precede_those_queued_while_they_were_processed() {
    let queue = unaided();
    queue.add(foo("a", 1)).unwrap();
    let process = |_: &Deltas<Foo>, _| {
        queue.update(foo("a", 2)).unwrap();
        Processed::Requeue(())
    };
    queue.pop_with(process).await.unwrap();
    assert_eq!(drain(&queue), ["added a=1, updated a=2"]);
}

#[test]
fn add_if_not_present_keeps_the_queued_item() {
    let queue = unaided();
    let old = || Deltas::new(key("a"), Delta::Added(foo("a", 1)));
    queue.update(foo("a", 2)).unwrap();
    assert!(!queue.add_if_not_present(old()).unwrap());
    assert_eq!(drain(&queue), ["updated a=2"]);
    assert!(queue.add_if_not_present(old()).unwrap());
    assert_eq!(drain(&queue), ["added a=1"]);
}

#[tokio::test(start_paused = true)]
async fn closing_wakes_every_waiting_pop() {
    let queue = unaided();
    let pops: Vec<_> = (0..10)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.pop().await.map(drop) })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.close();
    for pop in pops {
        let popped = tokio::time::timeout(Duration::from_millis(500), pop).await.unwrap().unwrap();
        assert_eq!(popped, Err(QueueClosed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_is_drained_and_accepts_requeued_items() {
    let queue = unaided();
    queue.add(foo("a", 1)).unwrap();
    queue.close();
    assert!(queue.is_closed());
    assert!(matches!(queue.add(foo("b", 1)), Err(EnqueueError::Closed(_))));
    assert!(matches!(queue.replace(listing(&[])), Err(EnqueueError::Closed(_))));
    assert_eq!(queue.push(vec![Change::Bookmark("1".into())]), Err(QueueClosed));
    Queue::requeue(&queue, queue.pop().await.unwrap());
    assert_eq!(pop(&queue), "added a=1");
    assert_eq!(queue.pop().await.err(), Some(QueueClosed));
    assert_eq!(queue.try_pop().err(), Some(QueueClosed));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_pop_takes_nothing() {
    let queue = unaided();
    let mut waiting = Box::pin(queue.pop());
    assert!((&mut waiting).now_or_never().is_none());
    queue.add(foo("a", 1)).unwrap();
    drop(waiting);
    assert_eq!(drain(&queue), ["added a=1"]);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_makes_the_source_wait_until_it_is_half_empty() {
    let queue = unaided();
    let items: Vec<_> = (0..10_000).map(|value| format!("a{value}")).collect();
    let items: Vec<_> = items.iter().map(|name| (name.as_str(), 1)).collect();
    queue.replace(listing(&items)).unwrap();
    let ready = queue.ready();
    tokio::pin!(ready);
    while queue.depth() > 5000 {
        assert!((&mut ready).now_or_never().is_none(), "{} keys are queued", queue.depth());
        pop(&queue);
    }
    ready.await;
}

#[test]
fn every_object_is_transformed_once_except_tombstones_of_missed_deletions() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let config = DeltaFifoConfig::default().with_known_objects(Held::new(&[("old", 1)]));
    let queue = DeltaFifo::new(config.with_transform(
        "Foo",
        Arc::new(move |object: Arc<Foo>| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(foo(object.key().as_str(), object.value + 100))
        }),
    ));
    queue.add(foo("foo", 1)).unwrap();
    queue.add(foo("bar", 2)).unwrap();
    queue.update(foo("foo", 3)).unwrap();
    queue.replace(listing(&[("foo", 4)])).unwrap();
    let expected =
        ["added foo=101, updated foo=103, replaced foo=104", "added bar=102, missed bar=102", "missed old=1"];
    assert_eq!(drain(&queue), expected);
    assert_eq!(calls.load(Ordering::Relaxed), 4);
    queue.delete(gone("old", 5)).unwrap();
    assert_eq!(drain(&queue), ["deleted old=105"]);
}

#[test]
fn an_object_that_cannot_be_queued_is_quarantined_and_counts_as_present() {
    let log = UndecodableLog::default();
    let config = DeltaFifoConfig::default().with_known_objects(Held::new(&[("bad", 1), ("old", 1)]));
    let queue = DeltaFifo::new(config.with_undecodable(log.clone()).with_transform(
        "Foo",
        Arc::new(|object: Arc<Foo>| match object.key().as_str() {
            "bad" => Err("no label".into()),
            _ => Ok(object),
        }),
    ));
    queue.push(vec![Change::Added(foo("bad", 2)), list(&[("a", 1), ("bad", 3)], 3)]).unwrap();
    assert_eq!(drain(&queue), ["replaced a=1", "missed old=1"]);
    assert_eq!((log.total(), log.entries()[0].resource_version().to_string()), (2, "3".to_owned()));
    let error = queue.add(foo("bad", 4)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "bad was not queued: the transform failed; fix the transform or let it accept such objects"
    );
}

#[test]
fn a_key_function_determines_keys_of_objects_and_observed_tombstones() {
    let by_value: crate::queue::KeyFunction<Foo> = Arc::new(|object: &Foo| match object.value {
        0 => Err(KeyError::new(object.key().as_str(), "no value")),
        value => Ok(key(&format!("v{value}"))),
    });
    let queue = DeltaFifo::new(DeltaFifoConfig::default().with_key_function(by_value));
    queue.add(foo("a", 1)).unwrap();
    queue.update(foo("b", 1)).unwrap();
    queue.delete(gone("c", 1)).unwrap();
    queue.delete(Tombstone::missed(key("v1"), None)).unwrap();
    let deltas = queue.get("v1").unwrap();
    assert_eq!((deltas.len(), deltas.key()), (3, &key("v1")));
    let Delta::Deleted(tombstone) = deltas.newest() else { panic!("a deletion was last: {deltas:?}") };
    assert_eq!(tombstone.key(), deltas.key());
    assert!(matches!(queue.add(foo("a", 0)), Err(EnqueueError::Key(_))));
}
