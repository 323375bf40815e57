use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use informer_core::KeyError;
use proptest::prelude::*;

use super::Heap;
use super::state::HeapState;
use crate::queue::fixture::{Foo, foo, key};
use crate::queue::{EnqueueError, QueueClosed};

fn heap(items: &[(&str, u64)]) -> Heap<Foo, u64> {
    let heap = Heap::new(|item: &Foo| item.value);
    items.iter().for_each(|(name, value)| heap.add(foo(name, *value)).unwrap());
    heap
}

fn drain(heap: &Heap<Foo, u64>) -> Vec<u64> {
    std::iter::from_fn(|| heap.try_pop().unwrap()).map(|item| item.value).collect()
}

#[tokio::test(start_paused = true)]
async fn items_of_two_writers_are_popped_by_rank() {
    let heap = heap(&[]);
    let one = tokio::spawn({
        let heap = heap.clone();
        async move {
            for value in (1..=500).rev() {
                heap.add(foo(&format!("a{value}"), value)).unwrap();
                tokio::task::yield_now().await;
            }
        }
    });
    heap.bulk_add((1..=500).rev().map(|value| foo(&format!("b{value}"), value))).unwrap();
    one.await.unwrap();
    let seen = drain(&heap);
    assert_eq!(seen.len(), 1000);
    assert!(seen.is_sorted());
}

#[test]
fn an_item_added_again_moves_to_its_new_rank() {
    let heap = heap(&[("foo", 10), ("bar", 1), ("baz", 11), ("zab", 30), ("foo", 13)]);
    assert_eq!(heap.try_pop().unwrap().unwrap().value, 1);
    assert_eq!(heap.try_pop().unwrap().unwrap().value, 11);
    heap.delete("foo").unwrap();
    heap.add(foo("foo", 14)).unwrap();
    assert_eq!(drain(&heap), [14, 30]);
}

#[test]
fn a_bulk_addition_moves_existing_items() {
    let heap = heap(&[]);
    heap.bulk_add([("foo", 10), ("bar", 1), ("baz", 11), ("foo", 14)].map(|(name, value)| foo(name, value)))
        .unwrap();
    assert_eq!(drain(&heap), [1, 11, 14]);
}

#[test]
fn add_if_not_present_keeps_the_existing_item() {
    let heap = heap(&[("foo", 10)]);
    assert!(!heap.add_if_not_present(foo("foo", 13)).unwrap());
    assert!(heap.add_if_not_present(foo("bar", 1)).unwrap());
    assert_eq!(drain(&heap), [1, 10]);
}

#[test]
fn among_equal_ranks_the_first_added_is_popped_first() {
    let heap = heap(&[("b", 1), ("c", 1), ("a", 1)]);
    assert_eq!(heap.list_keys(), [key("b"), key("c"), key("a")]);
}

#[test]
fn items_are_deleted_at_any_position() {
    for (name, expected) in
        [("head", vec![10, 11, 30]), ("tail", vec![1, 10, 11]), ("middle", vec![1, 10, 30])]
    {
        let heap = heap(&[("head", 1), ("other", 10), ("middle", 11), ("tail", 30)]);
        heap.delete(name).unwrap();
        assert_eq!(drain(&heap), expected);
    }
    let error = heap(&[("a", 1)]).delete("b").unwrap_err();
    assert_eq!(error.to_string(), "the heap contains no item with the key \"b\"");
}

#[test]
fn an_update_moves_an_item_to_or_away_from_the_head() {
    let heap = heap(&[("foo", 10), ("bar", 1), ("bal", 31), ("baz", 11)]);
    heap.update(foo("baz", 0)).unwrap();
    assert_eq!(heap.list_keys()[0], key("baz"));
    heap.update(foo("baz", 100)).unwrap();
    assert_eq!(drain(&heap), [1, 10, 31, 100]);
}

#[test]
fn items_and_keys_are_listed_without_popping_them() {
    let heap = heap(&[("foo", 10), ("bar", 1)]);
    assert_eq!(heap.get("foo").unwrap().value, 10);
    assert!(heap.get("baz").is_none());
    assert_eq!(heap.list().iter().map(|item| item.value).collect::<Vec<_>>(), [1, 10]);
    assert_eq!(heap.list_keys(), [key("bar"), key("foo")]);
    assert_eq!(heap.depth(), 2);
}

#[tokio::test(start_paused = true)]
async fn closing_wakes_a_waiting_pop() {
    let heap = heap(&[]);
    tokio::spawn({
        let heap = heap.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            heap.close();
        }
    });
    assert_eq!(heap.pop().await.err(), Some(QueueClosed));
}

#[tokio::test(start_paused = true)]
async fn a_closed_heap_rejects_additions_and_is_drained() {
    let heap = heap(&[("a", 1)]);
    assert!(!heap.is_closed());
    heap.close();
    assert!(heap.is_closed());
    let closed = |outcome: Result<(), EnqueueError>| matches!(outcome, Err(EnqueueError::Closed(_)));
    assert!(closed(heap.add(foo("b", 1))));
    assert!(closed(heap.update(foo("a", 2))));
    assert!(closed(heap.bulk_add([foo("b", 1)])));
    assert!(closed(heap.add_if_not_present(foo("b", 1)).map(drop)));
    assert_eq!(heap.pop().await.unwrap().value, 1);
    assert_eq!(heap.pop().await.err(), Some(QueueClosed));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_pop_takes_nothing() {
    let heap = heap(&[]);
    let mut waiting = Box::pin(heap.pop());
    assert!((&mut waiting).now_or_never().is_none());
    heap.add(foo("a", 1)).unwrap();
    drop(waiting);
    assert_eq!(drain(&heap), [1]);
}

#[test]
fn a_bulk_addition_with_an_item_without_a_key_adds_nothing() {
    let key = |item: &u64| match item {
        0 => Err(KeyError::new("zero", "no name")),
        item => Ok(informer_core::ObjectKey::explicit(item.to_string())),
    };
    let heap = Heap::with_key_function(Arc::new(key), |item: &u64| *item);
    assert!(matches!(heap.bulk_add([Arc::new(1), Arc::new(0)]), Err(EnqueueError::Key(_))));
    assert_eq!(heap.depth(), 0);
}

proptest! {
    #[test]
    fn a_heap_is_a_stable_sort(steps in prop::collection::vec((0_usize..6, 0_u64..4, 0_u8..6), 0..60)) {
        let name = |at: usize| ["a", "b", "c", "d", "e", "f"][at];
        let (mut state, mut model) = (HeapState::new(), Vec::<(usize, u64)>::new());
        for (at, rank, what) in steps {
            match what {
                0..3 => {
                    state.add(key(name(at)), rank, foo(name(at), rank));
                    model.retain(|(key, _)| *key != at);
                    model.push((at, rank));
                }
                3 => {
                    state.add_if_not_present(key(name(at)), rank, foo(name(at), rank));
                    if !model.iter().any(|(key, _)| *key == at) { model.push((at, rank)); }
                }
                4 => {
                    prop_assert_eq!(state.delete(name(at)).is_some(), model.iter().any(|(key, _)| *key == at));
                    model.retain(|(key, _)| *key != at);
                }
                _ => {
                    let first = (0..model.len()).min_by_key(|at| model[*at].1).map(|at| model.remove(at));
                    let popped = state.pop().map(|item| item.value);
                    prop_assert_eq!(popped, first.map(|(_, rank)| rank));
                }
            }
            let mut sorted = model.clone();
            sorted.sort_by_key(|(_, rank)| *rank);
            let keys: Vec<_> = state.iter().map(|(key, _)| key.to_string()).collect();
            prop_assert!(keys.iter().map(String::as_str).eq(sorted.iter().map(|(at, _)| name(*at))));
            prop_assert_eq!(state.len(), model.len());
        }
    }
}
