//! Tests of invalid input and misuse, which have a defined result: no call hangs, and no state is partially
//! changed.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use informer_workqueue::{DrainError, MAX_KEYS, RateLimiter, WorkQueue};
use tokio::time::{Instant, advance, timeout};

const SECOND: Duration = Duration::from_secs(1);
const FOREVER: Duration = Duration::from_secs(86_400 * 365);

#[tokio::test(start_paused = true)]
async fn a_delay_of_zero_makes_the_key_ready_immediately() {
    let queue = WorkQueue::new();
    assert!(queue.add_after("foo", Duration::ZERO));
    assert_eq!((queue.len(), queue.waiting_len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_overflows_never_ends_and_does_not_block_other_keys() {
    let queue = WorkQueue::new();
    assert!(queue.add_after("never", Duration::MAX));
    assert!(queue.due(&"never").unwrap() > Instant::now() + FOREVER * 20);
    assert!(timeout(FOREVER, queue.get()).await.is_err());
    queue.add_after("soon", SECOND);
    assert_eq!(*queue.get().await.unwrap(), "soon");
    assert!(queue.cancel_waiting(&"never"));
}

#[tokio::test(start_paused = true)]
async fn keys_become_ready_by_deadline_when_the_clock_jumps_ahead() {
    let queue = WorkQueue::new();
    queue.add_after(2, SECOND * 2);
    queue.add_after(1, SECOND);
    queue.add_after(3, FOREVER);
    advance(FOREVER - SECOND).await;
    let ready: Vec<_> = std::iter::from_fn(|| queue.try_get().map(|item| *item)).collect();
    assert_eq!(ready, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn done_without_get_and_done_twice_do_nothing() {
    let queue = WorkQueue::new();
    assert!(!queue.done(&"foo"), "the key was never added");
    queue.add("foo");
    assert!(!queue.done(&"foo"), "the key was not handed out");
    let item = queue.get().await.unwrap();
    assert!(queue.done(&"foo"));
    assert!(!queue.done(&"foo"));
    queue.add("foo");
    let second = queue.get().await.unwrap();
    item.done();
    assert_eq!(queue.processing_len(), 1, "the outcome of the first hand-out does not end the second");
    second.done();
    assert_eq!(queue.processing_len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_item_finished_by_key_does_not_add_the_key_again() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    assert!(queue.done(&"foo"));
    assert!(!item.retry(), "the hand-out was already finished");
    assert_eq!((queue.len(), queue.waiting_len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn adds_after_shutdown_are_rejected() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.shut_down();
    queue.shut_down();
    assert!(!queue.add("bar"));
    assert!(!queue.add_after("bar", SECOND));
    assert!(!queue.add_rate_limited("bar"));
    assert_eq!(queue.add_all(["a", "b"]), 0);
    assert!(!item.retry(), "a key in process is not added either");
    assert_eq!((queue.len(), queue.waiting_len(), queue.processing_len()), (0, 0, 0));
    assert!(queue.get().await.is_none());
    queue.closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_rejects_new_keys_until_a_key_is_removed() {
    let queue = WorkQueue::builder().max_keys(3).fair_by(|key: &&str| (*key).into()).build();
    assert!(queue.add("ready") && queue.add("taken") && queue.add_after("waiting", SECOND));
    assert!(!queue.add("new"), "ready, waiting and processed keys count");
    assert!(!queue.add_after("new", SECOND) && !queue.add_rate_limited("new"));
    assert_eq!(queue.add_all(["new", "ready", "newer"]), 1, "a known key is still taken");
    let item = queue.get().await.unwrap();
    assert!(queue.add("ready"), "the key is in process");
    item.done();
    assert!(!queue.add("new"), "the key is ready again");
    queue.get().await.unwrap().done();
    assert!(queue.add("new"));
    assert!(!queue.add("newer"));
    assert!(queue.cancel_waiting(&"waiting") && queue.add("newer"));
    let keys: Vec<_> = std::iter::from_fn(|| queue.try_get().map(|item| *item)).collect();
    assert_eq!(keys, ["ready", "new", "newer"]);
}

#[test]
fn the_key_limit_is_at_most_max_keys() {
    let queue = WorkQueue::<u32>::builder().max_keys(u32::MAX);
    assert!(format!("{queue:?}").contains(&format!("max_keys: {MAX_KEYS}")), "{queue:?}");
    let none = WorkQueue::builder().max_keys(0).build();
    assert!(!none.add(1));
    assert!(none.try_get().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_drain_fails_at_its_deadline() {
    let queue = WorkQueue::new();
    queue.add_all(["foo", "bar"]);
    let item = queue.get().await.unwrap();
    let start = Instant::now();
    let result = queue.shut_down_with_drain(SECOND * 5).await;
    assert_eq!(result, Err(DrainError::DeadlinePassed { ready: 1, processing: 1 }));
    assert_eq!(start.elapsed(), SECOND * 5);
    assert!(queue.is_shutting_down());
    item.done();
    queue.get().await.unwrap().done();
    assert_eq!(queue.shut_down_with_drain(Duration::ZERO).await, Ok(()), "the drain has already completed");
}

#[tokio::test(start_paused = true)]
async fn a_drain_may_begin_after_shutdown() {
    let queue = WorkQueue::new();
    queue.add("foo");
    let item = queue.get().await.unwrap();
    queue.shut_down();
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain(SECOND).await }
    });
    tokio::task::yield_now().await;
    item.done();
    assert_eq!(drain.await.unwrap(), Ok(()));
}

const HASH: u8 = 1;
const EQ: u8 = 2;
const CLONE: u8 = 4;
const CLONE_ONCE: u8 = 8;

/// A key whose operations (such as Eq, Hash and Clone) can panic. The switch `panics` selects which
/// operations panic.
#[derive(Debug)]
struct Spiteful {
    name: &'static str,
    panics: Arc<AtomicU8>,
}

impl Spiteful {
    fn new(name: &'static str, panics: u8) -> (Self, Arc<AtomicU8>) {
        let panics = Arc::new(AtomicU8::new(panics));
        (Self { name, panics: Arc::clone(&panics) }, panics)
    }

    fn check(&self, what: u8) {
        assert!(self.panics.load(Ordering::Relaxed) & what == 0, "panic number {what} of {}", self.name);
    }
}

impl Hash for Spiteful {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.check(HASH);
        state.write_u8(0);
    }
}

impl PartialEq for Spiteful {
    fn eq(&self, other: &Self) -> bool {
        self.check(EQ);
        other.check(EQ);
        self.name == other.name
    }
}

impl Eq for Spiteful {}

impl Clone for Spiteful {
    fn clone(&self) -> Self {
        self.check(CLONE);
        let once = self.panics.fetch_and(!CLONE_ONCE, Ordering::Relaxed) & CLONE_ONCE;
        assert!(once == 0, "the first clone of {} panics", self.name);
        Self { name: self.name, panics: Arc::clone(&self.panics) }
    }
}

fn panics<T>(call: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

#[test]
fn a_key_whose_hash_or_eq_panics_is_not_added_and_leaves_the_queue_usable() {
    let queue = WorkQueue::new();
    assert!(panics(|| queue.add(Spiteful::new("hash", HASH).0)));
    assert!(queue.add(Spiteful::new("good", 0).0));
    assert!(panics(|| queue.add(Spiteful::new("eq", EQ).0)), "it is compared with the good key");
    assert!(panics(|| queue.done(&Spiteful::new("eq", EQ).0)));
    assert!(panics(|| queue.cancel_waiting(&Spiteful::new("eq", EQ).0)));
    assert_eq!(queue.len(), 1);
    let item = queue.try_get().unwrap();
    assert_eq!(item.name, "good");
    item.done();
    assert_eq!((queue.len(), queue.processing_len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_clone_panics_moves_to_the_end_and_is_handed_out_later() {
    let queue = WorkQueue::new();
    let (spiteful, switch) = Spiteful::new("spiteful", CLONE);
    queue.add(spiteful);
    queue.add(Spiteful::new("good", 0).0);
    assert!(panics(|| queue.try_get()));
    assert_eq!((queue.len(), queue.processing_len()), (2, 0));
    let item = queue.try_get().unwrap();
    assert_eq!(item.name, "good");
    item.done();
    switch.store(0, Ordering::Relaxed);
    let item = queue.get().await.unwrap();
    assert_eq!(item.name, "spiteful");
    item.done();
}

#[tokio::test(start_paused = true)]
async fn a_key_is_finished_even_if_the_clone_of_the_next_panics() {
    let queue = WorkQueue::new();
    queue.add(Spiteful::new("good", 0).0);
    let (spiteful, switch) = Spiteful::new("spiteful", CLONE);
    queue.add(spiteful);
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.unwrap().done_then_next().await }
    });
    assert!(worker.await.unwrap_err().is_panic());
    assert_eq!((queue.len(), queue.waiting_len(), queue.processing_len()), (1, 0, 0));
    switch.store(0, Ordering::Relaxed);
    assert_eq!(queue.get().await.unwrap().name, "spiteful");
}

#[tokio::test(start_paused = true)]
async fn keys_of_a_batch_are_requeued_when_a_clone_panics() {
    let queue = WorkQueue::new();
    queue.add(Spiteful::new("good", 0).0);
    let (spiteful, switch) = Spiteful::new("spiteful", CLONE);
    queue.add(spiteful);
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get_batch(2).await.len() }
    });
    assert!(getter.await.unwrap_err().is_panic());
    assert_eq!((queue.len(), queue.waiting_len(), queue.processing_len()), (1, 1, 0));
    switch.store(0, Ordering::Relaxed);
    let names = [queue.get().await.unwrap().name, queue.get().await.unwrap().name];
    assert_eq!(names, ["spiteful", "good"]);
}

#[tokio::test(start_paused = true)]
async fn a_getter_that_panics_wakes_other_getters_for_the_remaining_keys() {
    let queue = WorkQueue::<Spiteful>::new();
    let spawn = || {
        let queue = queue.clone();
        tokio::spawn(async move { queue.get().await.map(|item| item.name) })
    };
    let (first, second) = (spawn(), spawn());
    tokio::task::yield_now().await;
    queue.add(Spiteful::new("spiteful", CLONE_ONCE).0);
    assert!(first.await.unwrap_err().is_panic());
    assert_eq!(timeout(SECOND, second).await.expect("the getter was woken").unwrap(), Some("spiteful"));
}

#[test]
fn a_panicking_group_or_rank_function_adds_no_key() {
    let bad = |key: &u32| assert!(*key != 13, "13 is bad");
    let queue = WorkQueue::builder()
        .fair_by(move |key: &u32| {
            bad(key);
            "group".into()
        })
        .build();
    assert!(panics(|| queue.add(13)));
    assert!(queue.add(1));
    assert_eq!((queue.len(), *queue.try_get().unwrap()), (1, 1));
    let ranked = WorkQueue::builder()
        .rank_by(move |key: &u32| {
            bad(key);
            7
        })
        .build();
    assert!(panics(|| ranked.add(13)));
    assert!(ranked.add(1));
    assert_eq!((ranked.len(), *ranked.try_get().unwrap()), (1, 1));
}

struct PanickingLimiter(Arc<AtomicBool>);

impl RateLimiter<&'static str> for PanickingLimiter {
    fn when(&self, _: &&'static str, _: Instant) -> Duration {
        assert!(!self.0.load(Ordering::Relaxed), "the limiter fails");
        Duration::ZERO
    }

    fn forget(&self, _: &&'static str) {}

    fn retries(&self, _: &&'static str) -> u32 {
        0
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_limiter_that_panics_during_unwinding_does_not_abort() {
    let on = Arc::new(AtomicBool::new(true));
    let queue = WorkQueue::builder().rate_limiter(PanickingLimiter(Arc::clone(&on))).build();
    queue.add("foo");
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _item = queue.get().await.unwrap();
            panic!("the work failed");
        }
    });
    assert!(worker.await.unwrap_err().is_panic());
    assert_eq!((queue.processing_len(), queue.waiting_len()), (0, 1));
    assert_eq!(*queue.get().await.unwrap(), "foo");
}
