//! Tests of the behavior that controller-runtime's tests of its priority queue specify.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use informer_workqueue::{AddOptions, Aging, LOW_PRIORITY, WorkQueue, default_item_rate_limiter};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, advance};

const SECOND: Duration = Duration::from_secs(1);

fn queue<K: informer_workqueue::QueueKey>() -> WorkQueue<K> {
    WorkQueue::builder().priorities(Aging::Off).rate_limiter(default_item_rate_limiter()).build()
}

fn add(queue: &WorkQueue<&'static str>, key: &'static str, priority: i32) {
    assert!(queue.add_with(key, AddOptions::new().priority(priority)));
}

fn rest<K: informer_workqueue::QueueKey>(queue: &WorkQueue<K>) -> Vec<(K, i32)> {
    std::iter::from_fn(|| {
        let item = queue.try_get()?;
        let found = (item.key().clone(), item.priority());
        item.done();
        Some(found)
    })
    .collect()
}

#[test]
fn keys_of_one_priority_are_handed_out_first_in_first_out() {
    let queue = queue();
    queue.add_all(["foo", "bar", "baz"]);
    assert_eq!(rest(&queue), [("foo", 0), ("bar", 0), ("baz", 0)]);
}

#[test]
fn higher_priorities_are_handed_out_first() {
    let queue = queue();
    add(&queue, "initial", LOW_PRIORITY);
    add(&queue, "new", 0);
    add(&queue, "urgent", 1);
    add(&queue, "new too", 0);
    assert_eq!(rest(&queue), [("urgent", 1), ("new", 0), ("new too", 0), ("initial", LOW_PRIORITY)]);
}

#[tokio::test(start_paused = true)]
async fn keys_with_and_without_delay_are_handed_out_by_priority_and_arrival() {
    let queue = queue();
    for n in 0..1000_u32 {
        for priority in 0..5 {
            let delay = Duration::from_millis(u64::from(n % 2));
            queue.add_with((priority, n), AddOptions::new().priority(priority).after(delay));
        }
    }
    advance(SECOND).await;
    let seen = rest(&queue);
    assert_eq!(seen.len(), 5000);
    let expected = (0..5).rev().flat_map(|priority| {
        // Keys added without a delay became ready before those with a delay.
        let numbers = (0..1000).step_by(2).chain((1..1000).step_by(2));
        numbers.map(move |n| ((priority, n), priority))
    });
    assert!(seen.into_iter().eq(expected));
}

#[test]
fn a_key_added_several_times_has_the_highest_of_its_priorities() {
    let queue = queue();
    for priority in [1, 3, 2] {
        add(&queue, "foo", priority);
    }
    add(&queue, "bar", 2);
    assert_eq!(rest(&queue), [("foo", 3), ("bar", 2)]);
}

#[test]
fn a_key_whose_priority_rises_moves_to_the_end_of_its_new_level() {
    let queue = queue();
    add(&queue, "foo", 0);
    add(&queue, "bar", 1);
    add(&queue, "baz", 1);
    add(&queue, "foo", 1);
    assert_eq!(rest(&queue), [("bar", 1), ("baz", 1), ("foo", 1)]);
}

#[tokio::test(start_paused = true)]
async fn the_shortest_of_several_delays_counts() {
    let queue = queue();
    for seconds in [3, 1, 2] {
        queue.add_after("foo", SECOND * seconds);
    }
    let start = Instant::now();
    queue.get().await.unwrap().done();
    assert_eq!(start.elapsed(), SECOND);
    assert_eq!((queue.len(), queue.waiting_len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_immediate_add_makes_a_waiting_key_ready_once() {
    let queue = queue();
    queue.add_after("foo", SECOND);
    queue.add("foo");
    assert_eq!(rest(&queue), [("foo", 0)]);
    advance(SECOND * 2).await;
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_key_keeps_its_priority_when_added_with_a_lower_one() {
    let queue = queue();
    queue.add_with("foo", AddOptions::new().priority(4).after(SECOND));
    add(&queue, "foo", 1);
    assert_eq!(rest(&queue), [("foo", 4)]);
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_of_one_priority_are_handed_out_in_the_order_they_became_ready() {
    let queue = queue();
    queue.add_after("second", SECOND * 2);
    queue.add_after("first", SECOND);
    advance(SECOND * 3).await;
    queue.add("third");
    assert_eq!(queue.len(), 3);
    assert_eq!(rest(&queue).iter().map(|row| row.0).collect::<Vec<_>>(), ["first", "second", "third"]);
}

#[tokio::test(start_paused = true)]
async fn a_high_priority_key_that_becomes_ready_overtakes_ready_low_ones() {
    let queue = queue();
    queue.add_with("high", AddOptions::new().priority(10).after(SECOND));
    queue.add_all(["low", "low too"]);
    advance(SECOND).await;
    assert_eq!(rest(&queue), [("high", 10), ("low", 0), ("low too", 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_handed_out_without_another_add() {
    let queue = queue();
    let start = Instant::now();
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { (queue.get().await.map(|item| *item), start.elapsed()) }
    });
    tokio::task::yield_now().await;
    queue.add_after("foo", SECOND);
    assert_eq!(getter.await.unwrap(), (Some("foo"), SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_key_in_process_is_handed_out_only_after_done() {
    let queue = queue();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    add(&queue, "foo", 1);
    add(&queue, "bar", 0);
    assert_eq!(queue.len(), 1);
    assert_eq!(rest(&queue), [("bar", 0)]);
    item.done();
    assert_eq!(rest(&queue), [("foo", 1)]);
}

#[tokio::test(start_paused = true)]
async fn len_counts_ready_keys_only() {
    let queue = queue();
    queue.add_after("later", SECOND);
    assert_eq!(queue.len(), 0);
    queue.add("now");
    assert_eq!(queue.len(), 1);
    advance(SECOND).await;
    assert_eq!(queue.len(), 2);
    add(&queue, "later", 3);
    add(&queue, "later", 5);
    assert_eq!(queue.len(), 2, "a raised priority is not another key");
    let item = queue.try_get().unwrap();
    assert_eq!((*item, queue.len()), ("later", 1));
    item.done();
}

#[tokio::test(start_paused = true)]
async fn the_rate_limit_of_one_key_does_not_delay_another() {
    let queue = queue();
    for _ in 0..8 {
        queue.add_rate_limited("often");
        queue.cancel_waiting(&"often");
    }
    let limited = AddOptions::new().rate_limited();
    queue.add_with("often", limited);
    queue.add_with("once", limited);
    let start = Instant::now();
    let item = queue.get().await.unwrap();
    assert_eq!((*item, start.elapsed().as_millis()), ("once", 1));
    item.done();
}

#[tokio::test(start_paused = true)]
async fn the_shorter_of_delay_and_rate_limit_counts() {
    let queue = queue();
    let due = |options: AddOptions| {
        queue.add_with("foo", options.rate_limited());
        let due = queue.due(&"foo").unwrap() - Instant::now();
        queue.cancel_waiting(&"foo");
        due
    };
    assert_eq!(due(AddOptions::new().after(SECOND)), Duration::from_millis(1));
    assert_eq!(due(AddOptions::new().after(Duration::from_micros(5))), Duration::from_micros(5));
}

#[tokio::test(start_paused = true)]
async fn a_getter_of_an_empty_queue_returns_at_shutdown() {
    let queue = queue::<u8>();
    let getters: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.is_none() })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.shut_down();
    for getter in getters {
        assert!(getter.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_during_many_hand_outs_ends_every_getter() {
    let queue = queue::<u32>();
    let mut getters = JoinSet::new();
    for _ in 0..10 {
        let queue = queue.clone();
        getters.spawn(async move {
            while let Some(item) = queue.get().await {
                tokio::task::yield_now().await;
                item.done();
            }
        });
    }
    queue.add_all(0..100);
    tokio::task::yield_now().await;
    queue.shut_down();
    getters.join_all().await;
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_retry_keeps_the_priority_of_the_hand_out() {
    let queue = queue();
    add(&queue, "foo", 7);
    queue.get().await.unwrap().retry();
    let mut item = queue.get().await.unwrap();
    assert_eq!(item.priority(), 7);
    item.set_priority(9);
    item.requeue_after(SECOND);
    let item = queue.get().await.unwrap();
    assert_eq!(item.priority(), 9);
    item.done();
}

/// 10 producers and 100 consumers, as in controller-runtime's test; seeded random numbers determine the
/// schedule.
#[tokio::test(start_paused = true)]
async fn no_key_is_in_process_twice_and_each_has_its_highest_priority() {
    let queue = queue::<u32>();
    let wanted = Arc::new(Mutex::new(HashMap::<u32, i32>::new()));
    let in_process = Arc::new(Mutex::new(std::collections::HashSet::new()));
    let mut consumers = JoinSet::new();
    for _ in 0..100 {
        let (queue, wanted, in_process) = (queue.clone(), Arc::clone(&wanted), Arc::clone(&in_process));
        consumers.spawn(async move {
            while let Some(item) = queue.get().await {
                let highest = wanted.lock().remove(&item);
                assert_eq!(highest, Some(item.priority()));
                assert!(in_process.lock().insert(*item), "handed out twice");
                tokio::time::sleep(Duration::from_millis(u64::from(*item % 5))).await;
                in_process.lock().remove(&item);
                item.done();
            }
        });
    }
    let mut producers = JoinSet::new();
    for producer in 0..10_u32 {
        let (queue, wanted) = (queue.clone(), Arc::clone(&wanted));
        producers.spawn(async move {
            let mut random = 0x9e37_79b9_u32.wrapping_mul(producer + 1);
            for _ in 0..1000 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let (key, priority) = (random >> 24, i32::try_from((random >> 16) % 10).unwrap());
                {
                    let mut wanted = wanted.lock();
                    let highest = wanted.entry(key).or_insert(priority);
                    *highest = priority.max(*highest);
                    let delay = Duration::from_millis(u64::from((random >> 8) % 3));
                    queue.add_with(key, AddOptions::new().priority(priority).after(delay));
                }
                if random.is_multiple_of(3) {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    producers.join_all().await;
    tokio::time::sleep(SECOND).await;
    queue.shut_down_with_drain(SECOND).await.unwrap();
    consumers.join_all().await;
    assert!(wanted.lock().is_empty(), "every key that was added was handed out");
}

#[test]
fn a_group_with_many_keys_does_not_delay_another() {
    let queue = WorkQueue::builder().fair_by(|key: &(&'static str, u32)| key.0.into()).build();
    queue.add_all((0..50_000).map(|n| ("big", n)));
    queue.add_all((0..3).map(|n| ("small", n)));
    let first: Vec<_> = rest(&queue).into_iter().take(6).map(|(key, _)| key.0).collect();
    assert_eq!(first, ["big", "small", "big", "small", "big", "small"]);
}

#[test]
fn groups_take_turns_within_each_priority() {
    let queue =
        WorkQueue::builder().priorities(Aging::Off).fair_by(|key: &(&'static str, i32)| key.0.into()).build();
    for (group, priority) in [("a", 0), ("a", 1), ("b", 0), ("a", 2), ("b", 1)] {
        queue.add_with((group, priority), AddOptions::new().priority(priority));
        queue.add_with((group, priority + 10), AddOptions::new().priority(priority));
    }
    let order: Vec<_> = rest(&queue).into_iter().map(|((group, _), priority)| (priority, group)).collect();
    let expected = [(2, "a"), (2, "a"), (1, "a"), (1, "b"), (1, "a"), (1, "b"), (0, "a"), (0, "b"), (0, "a")];
    assert_eq!(order[..9], expected);
}

#[test]
fn low_priorities_get_a_share_only_with_aging() {
    for (aging, expected) in [(Aging::Every(4), 25), (Aging::default(), 6), (Aging::Off, 0)] {
        let queue = WorkQueue::builder().priorities(aging).build();
        for n in 0..1000 {
            queue.add_with(n, AddOptions::new().priority(LOW_PRIORITY));
        }
        let mut low = 0;
        for n in 0..100 {
            queue.add(1000 + n);
            let item = queue.try_get().unwrap();
            low += u32::from(item.priority() == LOW_PRIORITY);
            item.done();
        }
        assert_eq!(low, expected, "{aging:?}");
    }
}

#[test]
fn new_and_changed_keys_overtake_the_initial_list() {
    let queue = WorkQueue::builder().priorities(Aging::Off).build();
    for key in ["a", "b", "c"] {
        add(&queue, key, LOW_PRIORITY);
    }
    queue.add("new");
    queue.add("c");
    assert_eq!(rest(&queue), [("new", 0), ("c", 0), ("a", LOW_PRIORITY), ("b", LOW_PRIORITY)]);
}
