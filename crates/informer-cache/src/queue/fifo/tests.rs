use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use informer_core::KeyError;
use proptest::prelude::*;

use super::Fifo;
use super::state::FifoState;
use crate::Change;
use crate::queue::fixture::{Foo, foo, gone, key, list};
use crate::queue::{
    DeltaFifo, DeltaFifoConfig, EnqueueError, InOrderQueue, Processed, Queue, QueueClosed, ReflectorStore,
};

fn queue(objects: &[(&str, u64)]) -> Fifo<Foo> {
    let queue = Fifo::new();
    objects.iter().for_each(|(name, value)| queue.add(foo(name, *value)).unwrap());
    queue
}

fn drain(queue: &Fifo<Foo>) -> Vec<u64> {
    let mut seen = Vec::new();
    while let Ok(Some(popped)) = queue.try_pop() {
        seen.push(popped.value);
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn items_of_each_writer_are_popped_in_order() {
    let queue = Fifo::new();
    for name in ["a", "b"] {
        let queue = queue.clone();
        tokio::spawn(async move {
            for value in 0..500 {
                queue.add(foo(&format!("{name}{value}"), value)).unwrap();
                tokio::task::yield_now().await;
            }
        });
    }
    let mut next = [0, 0];
    for _ in 0..1000 {
        let popped = queue.pop().await.unwrap();
        let lane = usize::from(popped.key().as_str().starts_with('b'));
        assert_eq!(popped.value, next[lane]);
        next[lane] += 1;
    }
}

#[test]
fn every_queue_reports_that_it_is_closed() {
    fn check(queue: impl Queue) {
        assert!(!queue.is_closed());
        assert!(!queue.has_synced());
        assert_eq!(queue.synced().now_or_never(), None, "nothing was listed yet");
        queue.close();
        assert!(queue.is_closed());
        assert_eq!(queue.synced().now_or_never(), Some(Err(QueueClosed)));
    }
    check(Fifo::<Foo>::new());
    check(DeltaFifo::<Foo>::new(DeltaFifoConfig::default()));
    check(InOrderQueue::<Foo>::new());
}

#[test]
fn only_the_newest_state_of_a_key_is_popped_once() {
    let queue = queue(&[("a", 10)]);
    queue.update(foo("a", 15)).unwrap();
    assert_eq!((queue.list()[0].value, queue.list_keys()), (15, vec![key("a")]));
    assert_eq!(queue.get("a").unwrap().value, 15);
    assert_eq!(drain(&queue), [15]);
    assert!(queue.get("a").is_none());
}

#[test]
fn a_list_replaces_all_queued_objects() {
    let queue = queue(&[("a", 10), ("b", 1)]);
    queue.replace([foo("a", 15)]).unwrap();
    assert_eq!(queue.get("a").unwrap().value, 15);
    assert_eq!(drain(&queue), [15]);
}

#[test]
fn an_item_never_overtakes_earlier_ones() {
    let queue = queue(&[("foo", 10), ("bar", 1), ("foo", 11), ("foo", 13), ("zab", 30)]);
    assert_eq!(queue.try_pop().unwrap().unwrap().value, 13);
    queue.add(foo("foo", 14)).unwrap();
    assert_eq!(drain(&queue), [1, 30, 14]);
}

#[test]
fn a_deleted_object_is_not_popped_and_its_position_is_kept() {
    let queue = queue(&[("a", 1), ("b", 2), ("c", 3)]);
    assert_eq!(queue.delete("a").unwrap().unwrap().value, 1);
    assert!(queue.delete("a").unwrap().is_none() && queue.delete("x").unwrap().is_none());
    queue.delete("b").unwrap();
    queue.add(foo("a", 4)).unwrap();
    assert_eq!(queue.depth(), 2);
    assert_eq!(drain(&queue), [4, 3]);
}

#[test]
fn add_if_not_present_keeps_the_queued_item() {
    let queue = queue(&[("a", 1)]);
    assert!(!queue.add_if_not_present(foo("a", 2)).unwrap());
    assert!(queue.add_if_not_present(foo("b", 3)).unwrap());
    queue.delete("a").unwrap();
    assert!(queue.add_if_not_present(foo("a", 4)).unwrap());
    assert_eq!(drain(&queue), [4, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_requeued_object_is_replaced_by_a_newer_one() {
    let queue = queue(&[("a", 1), ("b", 1)]);
    queue.pop_with(|_, _| Processed::Requeue(())).await.unwrap();
    let result = queue
        .pop_with(|object, initial| {
            queue.add(foo("b", 2)).unwrap();
            Processed::Requeue((object.value, initial))
        })
        .await;
    assert_eq!(result, Ok((1, false)));
    let keys: Vec<_> = queue.list_keys();
    assert_eq!((keys, drain(&queue)), (vec![key("a"), key("b")], vec![1, 2]));
}

#[test]
fn has_synced_counts_the_keys_of_the_first_list() {
    type Case = (&'static str, Vec<Change<Foo>>, &'static [bool]);
    let cases: [Case; 8] = [
        ("nothing", vec![], &[false]),
        ("an event first", vec![Change::Added(foo("a", 1))], &[true, true]),
        ("an empty list", vec![list(&[], 1)], &[true]),
        ("a list of one", vec![list(&[("a", 1)], 1)], &[false, true]),
        ("a list of two", vec![list(&[("a", 1), ("b", 2)], 2)], &[false, false, true]),
        ("a duplicate key", vec![list(&[("a", 1), ("a", 2)], 2)], &[false, true]),
        ("listed and deleted", vec![list(&[("a", 1)], 1), Change::Deleted(gone("a", 2))], &[true]),
        ("a second list", vec![list(&[("a", 1), ("b", 1)], 1), list(&[("c", 1)], 2)], &[false, true]),
    ];
    for (name, changes, expected) in cases {
        let queue = Fifo::new();
        queue.push(changes).unwrap();
        let mut seen = vec![queue.has_synced()];
        while queue.depth() > 0 {
            queue.try_pop().unwrap().unwrap().done();
            seen.push(queue.has_synced());
        }
        assert_eq!(seen, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_wakes_every_waiting_pop() {
    let queue = queue(&[]);
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
    let queue = queue(&[("a", 1)]);
    queue.close();
    assert!(matches!(queue.add(foo("b", 1)), Err(EnqueueError::Closed(_))));
    assert_eq!(queue.push(vec![Change::Resync]), Err(QueueClosed));
    Queue::requeue(&queue, queue.pop().await.unwrap());
    assert_eq!(drain(&queue), [1]);
    assert_eq!(queue.pop().await.err(), Some(QueueClosed));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_pop_takes_nothing() {
    let queue = queue(&[]);
    let mut waiting = Box::pin(queue.pop());
    assert!((&mut waiting).now_or_never().is_none());
    queue.add(foo("a", 1)).unwrap();
    drop(waiting);
    assert_eq!(drain(&queue), [1]);
}

#[test]
fn an_object_without_a_key_is_rejected_and_changes_nothing() {
    let queue = Fifo::with_key_function(Arc::new(|object: &Foo| match object.value {
        0 => Err(KeyError::new("an object without a value", "no value")),
        value => Ok(key(&value.to_string())),
    }));
    queue.add(foo("a", 7)).unwrap();
    assert!(matches!(queue.add(foo("a", 0)), Err(EnqueueError::Key(_))));
    assert!(matches!(queue.replace([foo("a", 1), foo("a", 0)]), Err(EnqueueError::Key(_))));
    assert_eq!(queue.list_keys(), [key("7")]);
}

#[derive(Debug, Clone)]
enum Step {
    Add(usize),
    AddIfNotPresent(usize),
    Delete(usize),
    Replace(Vec<usize>),
    Pop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0_usize..4).prop_map(Step::Add),
        1 => (0_usize..4).prop_map(Step::AddIfNotPresent),
        2 => (0_usize..4).prop_map(Step::Delete),
        1 => prop::collection::vec(0_usize..4, 0..4).prop_map(Step::Replace),
        3 => Just(Step::Pop),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    /// Compares the queue with a model, which is a list of positions. Positions of deleted objects are
    /// dropped once no object is queued.
    #[test]
    fn the_newest_state_of_each_key_is_popped_in_the_order_of_first_enqueue(steps in steps()) {
        let (mut state, mut model) = (FifoState::new(), Vec::<(usize, Option<u64>)>::new());
        let name = |at: usize| ["a", "b", "c", "d"][at];
        for (clock, step) in steps.iter().enumerate() {
            let clock = clock as u64;
            let place = |model: &[(usize, Option<u64>)], at| model.iter().position(|(key, _)| *key == at);
            match step {
                Step::Add(at) | Step::AddIfNotPresent(at) => {
                    let keep = matches!(step, Step::AddIfNotPresent(_));
                    if keep { state.add_if_not_present(key(name(*at)), foo(name(*at), clock)); }
                    else { state.add(key(name(*at)), foo(name(*at), clock)); }
                    match place(&model, *at) {
                        Some(place) if keep && model[place].1.is_some() => {}
                        Some(place) => model[place].1 = Some(clock),
                        None => model.push((*at, Some(clock))),
                    }
                }
                Step::Delete(at) => {
                    state.delete(name(*at));
                    if let Some(place) = place(&model, *at) { model[place].1 = None; }
                }
                Step::Replace(list) => {
                    state.replace(list.iter().map(|at| (key(name(*at)), foo(name(*at), clock))).collect());
                    model.clear();
                    for at in list { if place(&model, *at).is_none() { model.push((*at, Some(clock))); } }
                }
                Step::Pop => {
                    let popped = state.pop().map(|taken| taken.item.value);
                    let next = model.iter().position(|(_, value)| value.is_some());
                    let expected = next.and_then(|at| model.drain(..=at).next_back()).and_then(|(_, value)| value);
                    prop_assert_eq!(popped, expected);
                }
            }
            if model.iter().all(|(_, value)| value.is_none()) { model.clear(); }
            let queued: Vec<_> = state.iter().map(|(_, object)| object.value).collect();
            prop_assert!(queued.iter().copied().eq(model.iter().filter_map(|(_, value)| *value)));
            prop_assert_eq!(state.depth(), queued.len());
        }
    }
}
