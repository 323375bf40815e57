//! Tests of the behavior that client-go's tests of its work queue specify.

use std::time::Duration;

use informer_workqueue::{DrainError, WorkQueue, default_item_rate_limiter};
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, timeout};

const MS: Duration = Duration::from_millis(1);

fn ms(n: u32) -> Duration {
    MS * n
}

/// Creates a queue whose rate limiter has no token bucket.
fn queue<K: informer_workqueue::QueueKey>() -> WorkQueue<K> {
    WorkQueue::builder().rate_limiter(default_item_rate_limiter()).build()
}

async fn next<K: informer_workqueue::QueueKey>(queue: &WorkQueue<K>) -> K {
    let item = queue.get().await.expect("the queue is not shut down");
    let key = item.key().clone();
    item.done();
    key
}

/// Runs 50 producers of 50 keys each and 10 consumers; returns how many keys were handed out.
async fn fifty_producers_and_ten_consumers(drain: bool) -> usize {
    let queue = queue::<u32>();
    let mut consumers = JoinSet::new();
    for _ in 0..10 {
        let queue = queue.clone();
        consumers.spawn(async move {
            let mut seen = 0;
            while let Some(item) = queue.get().await {
                assert_ne!(*item, u32::MAX, "an item added after shutdown was handed out");
                tokio::time::sleep(ms(3)).await;
                item.done();
                seen += 1;
            }
            seen
        });
    }
    let mut producers = JoinSet::new();
    for producer in 0..50_u32 {
        let queue = queue.clone();
        producers.spawn(async move {
            for n in 0..50 {
                assert!(queue.add(producer * 50 + n));
                tokio::time::sleep(MS).await;
            }
        });
    }
    producers.join_all().await;
    if drain {
        queue.shut_down_with_drain(Duration::from_secs(60)).await.expect("consumers process the keys");
    } else {
        queue.shut_down();
    }
    assert!(!queue.add(u32::MAX), "no key is accepted after shutdown");
    let seen = consumers.join_all().await.into_iter().sum();
    assert_eq!(queue.len(), 0);
    seen
}

#[tokio::test(start_paused = true)]
async fn every_key_of_many_producers_is_handed_out_once_before_shutdown() {
    assert_eq!(fifty_producers_and_ten_consumers(false).await, 2500);
}

#[tokio::test(start_paused = true)]
async fn every_key_of_many_producers_is_handed_out_once_before_a_drain_ends() {
    assert_eq!(fifty_producers_and_ten_consumers(true).await, 2500);
}

#[tokio::test(start_paused = true)]
async fn keys_added_during_a_shutdown_or_a_drain_are_rejected() {
    for drain in [false, true] {
        let queue = queue::<&str>();
        queue.add("foo");
        let item = queue.get().await.expect("the queue is open");
        let ending = tokio::spawn({
            let queue = queue.clone();
            async move {
                if drain {
                    queue.shut_down_with_drain(Duration::from_secs(60)).await.is_ok()
                } else {
                    queue.shut_down();
                    true
                }
            }
        });
        tokio::task::yield_now().await;
        assert_eq!(ending.is_finished(), !drain, "a drain waits for the key in process");
        assert!(!queue.add("bar") && !queue.add("foo"), "a key was accepted, drain: {drain}");
        assert!(!queue.add_after("bar", MS), "a delayed key was accepted, drain: {drain}");
        item.done();
        assert!(ending.await.expect("the task does not panic"));
        assert!(queue.get().await.is_none() && queue.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_added_again_by_its_worker_is_handed_out_once_more() {
    let queue = queue::<u32>();
    let mut workers = JoinSet::new();
    for worker in 0..10_u32 {
        let queue = queue.clone();
        workers.spawn(async move {
            let mut counts = std::collections::HashMap::new();
            while let Some(item) = queue.get().await {
                let count = counts.entry(*item).or_insert(0);
                *count += 1;
                if *count < 2 {
                    queue.add(*item);
                }
                tokio::time::sleep(ms(worker)).await;
                item.done();
            }
            counts.values().sum::<u32>()
        });
    }
    for key in 0..100 {
        queue.add(key);
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(queue.len(), 0, "no worker adds a key forever");
    queue.shut_down();
    assert!(workers.join_all().await.into_iter().sum::<u32>() >= 200);
}

#[test]
fn len_counts_a_key_once() {
    let queue = queue();
    let mut lens = Vec::new();
    for key in ["foo", "bar", "foo"] {
        queue.add(key);
        lens.push(queue.len());
    }
    assert_eq!(lens, [1, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_in_process_is_handed_out_again_after_done() {
    let queue = queue();
    queue.add("foo");
    let first = queue.get().await.unwrap();
    queue.add("foo");
    assert_eq!(queue.len(), 0);
    assert!(queue.try_get().is_none(), "the key is in process");
    first.done();
    assert_eq!(next(&queue).await, "foo");
    assert!(queue.is_empty());
}

#[test]
fn a_key_added_twice_before_hand_out_is_handed_out_once() {
    let queue = queue();
    queue.add("foo");
    queue.add("foo");
    queue.try_get().unwrap().done();
    assert!(queue.try_get().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_second_worker_waits_for_a_key_in_process_and_gets_it_once() {
    let queue = queue();
    queue.add("foo");
    let first = queue.get().await.unwrap();
    queue.add("foo");
    queue.add("foo");
    let second = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item) }
    });
    tokio::time::sleep(MS).await;
    assert!(!second.is_finished(), "the key is in process");
    first.done();
    assert_eq!(second.await.unwrap(), Some("foo"));
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_when_every_key_in_process_is_done() {
    let queue = queue();
    queue.add("foo");
    queue.add("bar");
    let (first, second) = (queue.get().await.unwrap(), queue.get().await.unwrap());
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain(Duration::from_secs(10)).await }
    });
    tokio::time::sleep(MS).await;
    assert!(queue.is_shutting_down());
    first.done();
    tokio::time::sleep(MS).await;
    assert!(!drain.is_finished(), "one key is still in process");
    second.done();
    assert_eq!(drain.await.unwrap(), Ok(()));
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn shut_down_does_not_wait_for_keys_in_process() {
    let queue = queue();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.shut_down();
    assert!(queue.get().await.is_none());
    assert_eq!(queue.processing_len(), 1);
    item.done();
}

#[tokio::test(start_paused = true)]
async fn shut_down_interrupts_a_drain() {
    let queue = queue();
    queue.add("foo");
    queue.add("bar");
    let item = queue.get().await.unwrap();
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain(Duration::MAX).await }
    });
    tokio::time::sleep(MS).await;
    queue.shut_down();
    assert_eq!(drain.await.unwrap(), Err(DrainError::BrokenOff { ready: 1, processing: 1 }));
    item.done();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_became_dirty_is_handed_out_again_during_a_drain() {
    let queue = queue();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.add("foo");
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain(Duration::from_secs(10)).await }
    });
    tokio::time::sleep(MS).await;
    item.done();
    tokio::time::sleep(MS).await;
    assert!(!drain.is_finished(), "foo is ready again");
    assert_eq!(next(&queue).await, "foo");
    assert_eq!(drain.await.unwrap(), Ok(()));
    assert!(queue.get().await.is_none());
}

#[test]
fn the_queue_drops_a_key_that_was_handed_out() {
    let queue = queue();
    let key = std::sync::Arc::new("foo");
    let weak = std::sync::Arc::downgrade(&key);
    queue.add(key);
    assert!(weak.upgrade().is_some());
    queue.try_get().unwrap().done();
    assert!(weak.upgrade().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_handed_out_once_after_its_delay() {
    let queue = queue();
    queue.add_after("foo", ms(50));
    assert_eq!(queue.len(), 0);
    assert_eq!(queue.waiting_len(), 1);
    advance(ms(49)).await;
    assert!(queue.try_get().is_none());
    advance(ms(1)).await;
    assert_eq!(queue.len(), 1);
    queue.try_get().unwrap().done();
    advance(Duration::from_secs(10)).await;
    assert_eq!((queue.len(), queue.waiting_len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_earlier_of_two_delays_of_a_key_counts() {
    for delays in [[50, 70], [50, 30]] {
        let queue = queue();
        let start = Instant::now();
        delays.iter().for_each(|&delay| assert!(queue.add_after("foo", ms(delay))));
        assert_eq!(queue.waiting_len(), 1);
        assert_eq!(next(&queue).await, "foo");
        assert_eq!(start.elapsed(), ms(*delays.iter().min().unwrap()));
        assert!(timeout(Duration::from_secs(1), queue.get()).await.is_err(), "the key is handed out once");
    }
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_are_handed_out_by_deadline() {
    let queue = queue();
    queue.add_after("foo", Duration::from_secs(1));
    queue.add_after("bar", ms(50));
    queue.add_after("baz", Duration::from_secs(2));
    let start = Instant::now();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push((next(&queue).await, start.elapsed().as_millis()));
    }
    assert_eq!(seen, [("bar", 50), ("foo", 1000), ("baz", 2000)]);
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_that_are_all_due_are_handed_out_by_deadline() {
    let queue = queue();
    queue.add_after("foo", Duration::from_secs(1));
    queue.add_after("bar", ms(500));
    queue.add_after("baz", ms(250));
    advance(Duration::from_secs(2)).await;
    assert_eq!(queue.len(), 3);
    assert_eq!([next(&queue).await, next(&queue).await, next(&queue).await], ["baz", "bar", "foo"]);
}

#[tokio::test(start_paused = true)]
async fn rate_limited_adds_wait_longer_for_each_failure_of_their_own_key() {
    let queue = queue();
    let mut waits = Vec::new();
    for key in ["one", "one", "two", "two"] {
        queue.add_rate_limited(key);
        waits.push(queue.due(&key).unwrap() - Instant::now());
        queue.cancel_waiting(&key);
    }
    assert_eq!(waits, [ms(1), ms(2), ms(1), ms(2)]);
    assert_eq!((queue.retries(&"one"), queue.retries(&"two")), (2, 2));
    queue.forget(&"one");
    assert_eq!((queue.retries(&"one"), queue.retries(&"two")), (0, 2));
    queue.add_rate_limited("one");
    assert_eq!(queue.due(&"one").unwrap() - Instant::now(), ms(1));
}
