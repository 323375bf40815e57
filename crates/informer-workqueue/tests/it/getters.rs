//! Tests of getters that wait, are dropped, or take many keys at once; and of the guard of a key in process.

use std::time::Duration;

use futures_util::FutureExt;
use informer_workqueue::{OnDrop, WorkQueue, default_item_rate_limiter};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_dropped_get_loses_no_item() {
    let queue = WorkQueue::new();
    let mut dropped = Box::pin(queue.get());
    assert!(dropped.as_mut().now_or_never().is_none());
    queue.add("foo");
    drop(dropped);
    assert_eq!(*queue.get().await.unwrap(), "foo");
}

#[tokio::test(start_paused = true)]
async fn a_get_that_is_dropped_after_it_was_woken_passes_the_wake_up_on() {
    let queue = WorkQueue::new();
    let mut first = Box::pin(queue.get());
    assert!(first.as_mut().now_or_never().is_none());
    let second = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item) }
    });
    tokio::task::yield_now().await;
    queue.add("foo");
    drop(first);
    assert_eq!(timeout(SECOND, second).await.expect("the getter was woken").unwrap(), Some("foo"));
}

#[tokio::test(start_paused = true)]
async fn a_get_that_repeatedly_loses_a_select_loses_no_key() {
    let queue = WorkQueue::new();
    queue.add_all(0..100);
    let mut seen = Vec::new();
    while seen.len() < 100 {
        tokio::select! {
            item = queue.get() => { let item = item.unwrap(); seen.push(*item); item.done(); }
            () = tokio::task::yield_now() => {}
        }
    }
    assert!(seen.into_iter().eq(0..100));
}

/// Uses real threads, to find races between add, get, cancelled gets and shutdown.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_key_is_lost_between_threads_that_add_get_and_cancel() {
    let queue = WorkQueue::<u32>::new();
    let mut getters = JoinSet::new();
    for _ in 0..4 {
        let queue = queue.clone();
        getters.spawn(async move {
            let mut seen = 0;
            loop {
                tokio::select! {
                    biased;
                    item = queue.get() => match item {
                        Some(item) => { seen += 1; item.done() }
                        None => return seen,
                    },
                    () = tokio::task::yield_now() => {}
                }
            }
        });
    }
    let mut adders = JoinSet::new();
    for adder in 0..4_u32 {
        let queue = queue.clone();
        adders.spawn(async move {
            for n in 0..20_000 {
                queue.add(adder * 20_000 + n);
                if n % 64 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    adders.join_all().await;
    queue.shut_down_with_drain(Duration::MAX).await.unwrap();
    assert_eq!(getters.join_all().await.into_iter().sum::<u32>(), 80_000);
}

#[tokio::test(start_paused = true)]
async fn a_batch_takes_the_ready_keys_up_to_its_size() {
    let queue = WorkQueue::new();
    queue.add_all(0..10);
    let mut sizes = Vec::new();
    for max in [4, 0, 100] {
        let items = queue.get_batch(max).await;
        sizes.push(items.len());
        items.into_iter().for_each(informer_workqueue::Item::done);
    }
    assert_eq!(sizes, [4, 1, 5]);
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get_batch(9).await.len() }
    });
    tokio::task::yield_now().await;
    queue.add(1);
    assert_eq!(waiting.await.unwrap(), 1);
    queue.shut_down();
    assert!(queue.get_batch(5).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_item_dropped_without_an_outcome_is_requeued_through_the_rate_limiter() {
    let queue = WorkQueue::builder().rate_limiter(default_item_rate_limiter()).build();
    queue.add("foo");
    let start = Instant::now();
    drop(queue.get().await.unwrap());
    let item = queue.get().await.unwrap();
    assert_eq!((start.elapsed().as_millis(), item.retries()), (1, 1));
    item.forget();
    item.done();
}

#[tokio::test(start_paused = true)]
async fn an_item_of_a_panicked_or_cancelled_task_is_requeued() {
    let queue = WorkQueue::builder().rate_limiter(default_item_rate_limiter()).build();
    queue.add("foo");
    let panicking = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _item = queue.get().await.unwrap();
            panic!("the work failed");
        }
    });
    assert!(panicking.await.unwrap_err().is_panic());
    let cancelled = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _item = queue.get().await.unwrap();
            std::future::pending::<()>().await;
        }
    });
    tokio::time::sleep(SECOND).await;
    cancelled.abort();
    let item = queue.get().await.unwrap();
    assert_eq!((*item, item.retries()), ("foo", 2));
    item.done();
}

#[tokio::test(start_paused = true)]
async fn an_item_dropped_without_an_outcome_is_done_if_configured() {
    let queue = WorkQueue::builder().on_drop(OnDrop::Done).build();
    queue.add("foo");
    drop(queue.get().await.unwrap());
    assert_eq!((queue.len(), queue.waiting_len(), queue.processing_len()), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_detached_item_stays_in_process_until_done_is_called_with_its_key() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let key = queue.get().await.unwrap().detach();
    queue.add("foo");
    assert!(queue.try_get().is_none());
    assert!(queue.done(&key));
    assert_eq!(*queue.try_get().unwrap(), "foo");
}

#[tokio::test(start_paused = true)]
async fn a_getter_waits_after_shutdown_for_a_dirty_key_in_process() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.add("foo");
    queue.shut_down();
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { (queue.get().await.map(|item| item.done()), queue.get().await.is_none()) }
    });
    tokio::task::yield_now().await;
    item.done();
    assert_eq!(getter.await.unwrap(), (Some(()), true));
}

#[tokio::test(start_paused = true)]
async fn getters_that_wait_after_shutdown_end_when_the_last_key_is_taken() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.add("foo");
    queue.shut_down();
    let mut getters = JoinSet::new();
    for _ in 0..3 {
        let queue = queue.clone();
        getters.spawn(async move { queue.get().await.map(|item| item.done()) });
    }
    tokio::task::yield_now().await;
    item.done();
    let ends = timeout(SECOND, getters.join_all()).await.expect("all getters end");
    assert_eq!(ends.into_iter().flatten().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_never_finds_the_queue_empty_lets_other_tasks_run() {
    let queue = WorkQueue::new();
    queue.add(0);
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            while let Some(item) = queue.get().await {
                queue.add(*item + 1);
                item.done();
            }
        }
    });
    tokio::task::yield_now().await;
    queue.shut_down();
    assert!(timeout(SECOND, worker).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_idle_when_nothing_is_ready_waits_or_is_in_process() {
    let queue = WorkQueue::new();
    queue.idle().await;
    queue.add("ready");
    queue.add_after("waiting", SECOND);
    queue.add_after("cancelled", SECOND * 9);
    let start = Instant::now();
    let idle = tokio::spawn({
        let queue = queue.clone();
        async move {
            queue.idle().await;
            start.elapsed()
        }
    });
    for _ in 0..2 {
        let item = queue.get().await.unwrap();
        tokio::time::sleep(SECOND).await;
        assert!(!idle.is_finished());
        item.done();
    }
    queue.cancel_waiting(&"cancelled");
    assert_eq!(idle.await.unwrap(), SECOND * 2);
}

#[test]
fn handles_and_items_are_send_and_sync() {
    fn check<T: Send + Sync + Clone>() {}
    fn check_item<T: Send>() {}
    check::<WorkQueue<String>>();
    check_item::<informer_workqueue::Item<String>>();
    fn check_future<T: Send>(_: &T) {}
    let queue = WorkQueue::<String>::new();
    check_future(&queue.get());
    check_future(&queue.get_batch(3));
    check_future(&queue.shut_down_with_drain(SECOND));
}

#[tokio::test(start_paused = true)]
async fn done_then_next_ends_a_key_and_waits_for_the_next() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let mut item = queue.get().await.unwrap();
    queue.add("foo"); // While `foo` is in process, it is added again and thus handed out again.
    assert!(item.done_then_next().await);
    assert_eq!((*item, queue.processing_len()), ("foo", 1));
    queue.add_after("bar", SECOND);
    let start = Instant::now();
    assert!(item.done_then_next().await);
    assert_eq!((*item, queue.processing_len(), start.elapsed()), ("bar", 1, SECOND));
    queue.shut_down();
    assert!(!item.done_then_next().await, "the queue has ended");
    assert!(!item.done_then_next().await, "the queue stays ended");
    assert_eq!(queue.processing_len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_item_that_became_the_next_key_is_a_guard_for_that_key() {
    let queue = WorkQueue::builder().rate_limiter(default_item_rate_limiter()).build();
    queue.add_all(["foo", "bar"]);
    let mut item = queue.get().await.unwrap();
    assert!(item.done_then_next().await);
    drop(item);
    assert_eq!((queue.retries(&"foo"), queue.retries(&"bar")), (0, 1));
    assert_eq!(*queue.get().await.unwrap(), "bar");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_done_then_next_finishes_its_key_and_loses_no_other() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let mut item = queue.get().await.unwrap();
    assert!(item.done_then_next().now_or_never().is_none());
    assert_eq!(queue.processing_len(), 0, "foo is done");
    queue.add("bar");
    drop(item);
    assert_eq!((queue.len(), queue.waiting_len()), (1, 0), "a finished item is not added again");
    assert_eq!(*queue.get().await.unwrap(), "bar");
}

#[tokio::test(start_paused = true)]
async fn a_loop_of_done_then_next_lets_other_tasks_run() {
    let queue = WorkQueue::new();
    queue.add_all(0..10_000);
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut item = queue.get().await.unwrap();
            while item.done_then_next().await {}
        }
    });
    tokio::task::yield_now().await;
    assert!(queue.len() > 5_000, "it yielded early, with {} keys left", queue.len());
    queue.shut_down();
    worker.await.unwrap();
    assert_eq!((queue.len(), queue.processing_len()), (0, 0));
}

/// Uses real threads, to find races in `done_then_next`, which finishes one key and takes the next under one
/// lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_key_is_lost_or_duplicated_between_threads_that_use_done_then_next() {
    let queue = WorkQueue::<u32>::new();
    let mut workers = JoinSet::new();
    for _ in 0..4 {
        let queue = queue.clone();
        workers.spawn(async move {
            let mut seen = Vec::new();
            let Some(mut item) = queue.get().await else { return seen };
            loop {
                seen.push(*item);
                if !item.done_then_next().await {
                    return seen;
                }
            }
        });
    }
    let mut adders = JoinSet::new();
    for adder in 0..4_u32 {
        let queue = queue.clone();
        adders.spawn(async move {
            for n in 0..20_000 {
                queue.add(adder * 20_000 + n);
                tokio::task::coop::consume_budget().await;
            }
        });
    }
    adders.join_all().await;
    queue.shut_down();
    let mut seen = workers.join_all().await.concat();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..80_000));
}
