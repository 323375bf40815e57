//! Tests of writes to the queue while popped deltas are being processed. client-go's queue is locked during
//! that time.

use std::sync::Arc;

use futures_util::FutureExt;
use informer_core::ObjectKey;
use parking_lot::Mutex;

use super::{beside, drain, listing};
use crate::queue::fixture::{Foo, Held, foo, gone};
use crate::queue::{DeltaFifo, DeltaFifoConfig};
use crate::source::KnownObjects;

#[test]
fn a_delete_of_an_object_whose_add_is_in_process_is_kept() {
    let held = Held::new(&[]);
    let queue = beside(&held);
    queue.add(foo("a", 1)).unwrap();
    let popped = queue.try_pop().unwrap().unwrap();
    queue.delete(gone("a", 2)).unwrap();
    held.apply(&popped);
    popped.done();
    assert_eq!(drain(&queue), ["deleted a=2"]);
}

#[test]
fn a_second_delete_while_the_first_is_in_process_is_dropped() {
    let held = Held::new(&[("a", 1)]);
    let queue = beside(&held);
    queue.delete(gone("a", 2)).unwrap();
    let popped = queue.try_pop().unwrap().unwrap();
    queue.delete(gone("a", 3)).unwrap();
    queue.replace(listing(&[])).unwrap();
    queue.resync().unwrap();
    popped.done();
    assert_eq!(queue.depth(), 0);
}

#[test]
fn a_list_without_an_object_whose_add_is_in_process_deletes_it() {
    let held = Held::new(&[("b", 1)]);
    let queue = beside(&held);
    queue.add(foo("a", 1)).unwrap();
    queue.update(foo("b", 2)).unwrap();
    let popped = [queue.try_pop().unwrap().unwrap(), queue.try_pop().unwrap().unwrap()];
    queue.replace(listing(&[])).unwrap();
    popped.iter().for_each(|popped| held.apply(popped));
    drop(popped);
    assert_eq!(drain(&queue), ["missed a=1", "missed b=2"]);
}

#[test]
fn a_resync_queues_the_state_that_is_in_process() {
    let held = Held::new(&[("a", 1)]);
    let queue = beside(&held);
    queue.update(foo("a", 2)).unwrap();
    let popped = queue.try_pop().unwrap().unwrap();
    queue.resync().unwrap();
    drop(popped);
    assert_eq!(drain(&queue), ["sync a=2"]);
}

/// A known-objects view that runs a closure of the test while the queue reads the keys of the view. At that
/// moment, the closure changes the queue or the stored objects, or panics.
struct Meddling {
    held: Arc<Held>,
    meddle: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl KnownObjects<Foo> for Meddling {
    fn get(&self, key: &str) -> Option<Arc<Foo>> {
        self.held.get(key)
    }

    fn keys(&self) -> Vec<ObjectKey> {
        let before = self.held.keys();
        let meddle = self.meddle.lock().take();
        meddle.into_iter().for_each(|meddle| meddle());
        before
    }
}

fn meddling(held: &Arc<Held>) -> (DeltaFifo<Foo>, Arc<Meddling>) {
    let view = Arc::new(Meddling { held: Arc::clone(held), meddle: Mutex::default() });
    (DeltaFifo::new(DeltaFifoConfig::default().with_known_objects(Arc::clone(&view) as _)), view)
}

#[test]
fn a_list_includes_deltas_processed_while_the_view_was_read() {
    let held = Held::new(&[]);
    let (queue, view) = meddling(&held);
    queue.add(foo("a", 1)).unwrap();
    let popped = queue.try_pop().unwrap().unwrap();
    *view.meddle.lock() = Some(Box::new(move || {
        held.apply(&popped);
        popped.done();
    }));
    queue.replace(listing(&[])).unwrap();
    assert_eq!(drain(&queue), ["missed a=1"], "the keys were read before the addition was stored");
}

#[tokio::test(start_paused = true)]
async fn pops_wait_while_the_view_is_read() {
    let (queue, view) = meddling(&Held::new(&[]));
    queue.add(foo("a", 1)).unwrap();
    let (popping, seen) = (queue.clone(), Arc::new(Mutex::new(None)));
    let result = Arc::clone(&seen);
    *view.meddle.lock() = Some(Box::new(move || {
        *result.lock() = Some(popping.try_pop().unwrap().is_none() && popping.pop().now_or_never().is_none());
    }));
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move {
            let popped = queue.pop().await.unwrap();
            popped.len()
        }
    });
    queue.replace(listing(&[])).unwrap();
    assert_eq!(*seen.lock(), Some(true));
    assert_eq!(waiting.await.unwrap(), 2);
}

#[test]
fn a_view_that_panics_does_not_stop_the_queue() {
    let (queue, view) = meddling(&Held::new(&[]));
    queue.add(foo("a", 1)).unwrap();
    *view.meddle.lock() = Some(Box::new(|| panic!("the view of the test")));
    let relist = std::panic::AssertUnwindSafe(|| queue.replace(listing(&[])));
    assert!(std::panic::catch_unwind(relist).is_err());
    assert_eq!(drain(&queue), ["added a=1"]);
}
