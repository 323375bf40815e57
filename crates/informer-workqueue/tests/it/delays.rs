//! Tests of waiting keys: inspection, cancellation, and the timer that waiting getters share.

use std::time::Duration;

use informer_workqueue::WorkQueue;
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, timeout};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn waiting_keys_are_listed_by_deadline() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    for (key, seconds) in [("c", 3), ("a", 1), ("b", 2)] {
        queue.add_after(key, SECOND * seconds);
    }
    let seen: Vec<_> =
        queue.waiting(2).into_iter().map(|waiting| (waiting.key, waiting.due - start)).collect();
    assert_eq!(seen, [("a", SECOND), ("b", SECOND * 2)]);
    assert_eq!(queue.waiting(usize::MAX).len(), 3);
    assert_eq!(queue.due(&"c"), Some(start + SECOND * 3));
    assert_eq!(queue.due(&"d"), None);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_waiting_key_never_becomes_ready() {
    let queue = WorkQueue::new();
    queue.add_after("foo", SECOND);
    queue.add_after("bar", SECOND * 2);
    assert!(queue.cancel_waiting(&"foo"));
    assert!(!queue.cancel_waiting(&"foo"), "the key does not wait any more");
    let start = Instant::now();
    let item = queue.get().await.unwrap();
    assert_eq!((*item, start.elapsed()), ("bar", SECOND * 2));
    item.done();
}

#[tokio::test(start_paused = true)]
async fn cancel_waiting_ignores_ready_and_processed_keys() {
    let queue = WorkQueue::new();
    queue.add("foo");
    assert!(!queue.cancel_waiting(&"foo"));
    let item = queue.get().await.unwrap();
    queue.add_after("foo", SECOND);
    assert!(queue.cancel_waiting(&"foo"), "the key waits for its next hand-out");
    assert_eq!(queue.processing_len(), 1);
    item.done();
    assert!(timeout(SECOND * 5, queue.get()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn cancel_all_waiting_removes_all_waiting_keys() {
    let queue = WorkQueue::new();
    for n in 0..500 {
        queue.add_after(n, SECOND);
    }
    assert_eq!(queue.cancel_all_waiting(), 500);
    assert_eq!(queue.waiting_len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_ends_while_the_key_is_in_process_makes_it_ready_when_done() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.add_after("foo", SECOND);
    advance(SECOND * 2).await;
    assert!(queue.try_get().is_none());
    item.done();
    queue.get().await.unwrap().done();
}

#[tokio::test(start_paused = true)]
async fn a_getter_that_waits_for_a_deadline_meets_an_earlier_one() {
    let queue = WorkQueue::new();
    queue.add_after("late", SECOND * 60);
    let start = Instant::now();
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { (*queue.get().await.unwrap(), start.elapsed()) }
    });
    tokio::task::yield_now().await;
    queue.add_after("soon", SECOND);
    assert_eq!(getter.await.unwrap(), ("soon", SECOND));
}

#[tokio::test(start_paused = true)]
async fn the_timer_is_handed_over_when_its_keeper_is_cancelled() {
    let queue = WorkQueue::new();
    queue.add_after("foo", SECOND);
    let start = Instant::now();
    let spawn = || {
        let queue = queue.clone();
        tokio::spawn(async move { (*queue.get().await.unwrap(), start.elapsed()) })
    };
    let (keeper, other) = (spawn(), spawn());
    tokio::task::yield_now().await;
    keeper.abort();
    assert!(keeper.await.is_err());
    assert_eq!(other.await.unwrap(), ("foo", SECOND));
}

#[tokio::test(start_paused = true)]
async fn the_timer_is_handed_over_when_its_keeper_gets_a_key() {
    let queue = WorkQueue::new();
    queue.add_after("delayed", SECOND);
    let start = Instant::now();
    let mut getters = JoinSet::new();
    for _ in 0..2 {
        let queue = queue.clone();
        getters.spawn(async move {
            let item = queue.get().await.unwrap();
            let found = (*item, start.elapsed());
            item.done();
            found
        });
    }
    tokio::task::yield_now().await;
    queue.add("at once");
    assert_eq!(getters.join_next().await.unwrap().unwrap(), ("at once", Duration::ZERO));
    assert_eq!(getters.join_next().await.unwrap().unwrap(), ("delayed", SECOND));
}

#[tokio::test(start_paused = true)]
async fn many_keys_due_together_wake_every_getter() {
    let queue = WorkQueue::new();
    for n in 0..8 {
        queue.add_after(n, SECOND);
    }
    let start = Instant::now();
    let mut getters = JoinSet::new();
    for _ in 0..8 {
        let queue = queue.clone();
        getters.spawn(async move {
            let item = queue.get().await.unwrap();
            tokio::time::sleep(SECOND).await;
            item.done();
        });
    }
    getters.join_all().await;
    assert_eq!(start.elapsed(), SECOND * 2, "the workers ran concurrently");
}

#[tokio::test(start_paused = true)]
async fn shutdown_drops_waiting_keys_but_not_due_ones() {
    let queue = WorkQueue::new();
    queue.add_after("due", SECOND);
    queue.add_after("later", SECOND * 9);
    advance(SECOND).await;
    queue.shut_down();
    assert_eq!(queue.waiting_len(), 0);
    queue.get().await.unwrap().done();
    assert!(queue.get().await.is_none());
}

#[test]
fn the_timer_works_on_a_multi_thread_runtime_and_add_needs_no_runtime() {
    let queue = WorkQueue::new();
    queue.add_after("foo", Duration::from_millis(1));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let other = tokio::spawn({
            let queue = queue.clone();
            async move { queue.get().await.map(|item| *item) }
        });
        assert_eq!(other.await.unwrap(), Some("foo"));
    });
}

/// The runtime of this test has no timer: it panics if the queue requests one.
#[test]
fn an_immediate_add_never_touches_the_timer_even_while_others_wait_for_theirs() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let queue = WorkQueue::new();
        let getter = tokio::spawn({
            let queue = queue.clone();
            async move {
                let item = queue.get().await.unwrap();
                let key: &str = *item;
                item.done();
                key
            }
        });
        tokio::task::yield_now().await;
        queue.add("to a getter that waits");
        assert_eq!(getter.await.unwrap(), "to a getter that waits");
        queue.add_after("later", SECOND * 3600);
        queue.add("at once");
        let item = queue.get().await.unwrap();
        assert_eq!(*item, "at once");
        item.done();
        queue.add("later");
        queue.get().await.unwrap().done();
        assert_eq!((queue.len(), queue.waiting_len()), (0, 0));
    });
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_waiting_keys_are_handed_out_by_deadline() {
    const KEYS: u64 = 100_000;
    let queue = WorkQueue::new();
    let delay = |key: u64| Duration::from_millis(1 + key.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 60_000);
    for key in 0..KEYS {
        queue.add_after(key, delay(key));
    }
    assert_eq!(queue.waiting_len(), 100_000);
    let (mut last, mut seen) = (Duration::ZERO, 0);
    advance(SECOND * 61).await;
    while let Some(item) = queue.try_get() {
        assert!(delay(*item) >= last, "{} is handed out too late", *item);
        (last, seen) = (delay(*item), seen + 1);
        item.done();
    }
    assert_eq!(seen, KEYS);
}
