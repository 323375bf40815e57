use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::Offload;

fn begin<T: Send + 'static>(offload: &mut Offload<T>, work: impl FnOnce() -> T + Send + 'static) {
    offload.room().expect("room").begin(work);
}

async fn all<T: Send + 'static>(offload: &mut Offload<T>) -> Vec<T> {
    let mut outcomes = Vec::new();
    while let Some(outcome) = poll_fn(|context| offload.poll_next(context)).await {
        outcomes.push(outcome.unwrap());
    }
    outcomes
}

#[tokio::test]
async fn nothing_is_spawned_on_a_single_threaded_runtime() {
    let mut offload = Offload::<()>::here();
    assert!(!offload.has_room());
    assert!(offload.room().is_none());
}

#[test]
fn nothing_is_spawned_outside_of_a_runtime() {
    assert!(!Offload::<()>::here().has_room());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_returned_in_the_order_in_which_tasks_were_spawned() {
    // The first decoding task blocks until the second task runs, so the second one finishes first.
    let (sender, receiver) = mpsc::channel();
    tokio::spawn(async {
        let mut offload = Offload::here();
        let first = move || {
            receiver.recv().expect("the second task runs in parallel");
            1
        };
        begin(&mut offload, first);
        let second = move || {
            sender.send(()).expect("the first task waits");
            2
        };
        begin(&mut offload, second);
        assert_eq!(all(&mut offload).await, [1, 2]);
        assert!(offload.is_idle());
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn number_of_tasks_in_flight_is_limited() {
    let mut offload = Offload::here();
    let mut begun = 0;
    while offload.has_room() {
        begin(&mut offload, || ());
        begun += 1;
    }
    assert_eq!(begun, 3);
    assert!(offload.room().is_none());
    assert_eq!(all(&mut offload).await.len(), 3);
    assert!(offload.has_room());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[should_panic(expected = "a bug of the decoder")]
async fn panic_of_a_task_is_resumed_in_the_polling_task() {
    let mut offload = Offload::<()>::here();
    begin(&mut offload, || panic!("a bug of the decoder"));
    all(&mut offload).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_an_offload_aborts_its_tasks() {
    let held = Arc::new(AtomicUsize::new(0));
    let mut offload = Offload::here();
    while offload.has_room() {
        let held = Arc::clone(&held);
        begin(&mut offload, move || held.fetch_add(1, Ordering::Relaxed));
    }
    drop(offload);
    while Arc::strong_count(&held) > 1 {
        tokio::task::yield_now().await;
    }
}
