//! Tests of user-defined orders, of the crate's orders passed as user-defined ones, and of orders that fail.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use informer_workqueue::{
    AddOptions, Aging, Depths, Entries, EntryId, FairOrder, FifoOrder, Order, PriorityOrder, WorkQueue,
};
use proptest::prelude::*;
use tokio::time::timeout;

const SECOND: Duration = Duration::from_secs(1);

/// Takes all keys out of the queue. Each is finished, since a dropped one would return after a delay in real
/// time.
fn rest<K: informer_workqueue::QueueKey>(queue: &WorkQueue<K>) -> Vec<K> {
    std::iter::from_fn(|| next(queue)).collect()
}

fn next<K: informer_workqueue::QueueKey>(queue: &WorkQueue<K>) -> Option<K> {
    let item = queue.try_get()?;
    let key = item.key().clone();
    item.done();
    Some(key)
}

/// An order that sorts by rank, then by priority, then by entry number.
#[derive(Default)]
struct ByRank(BTreeSet<(u64, i32, EntryId)>);

impl Order for ByRank {
    fn push(&mut self, entries: &mut Entries, id: EntryId) {
        self.0.insert((entries.rank(id), -entries.priority(id), id));
    }

    fn peek(&self, _: &Entries) -> Option<EntryId> {
        self.0.first().map(|&(_, _, id)| id)
    }

    fn remove(&mut self, entries: &mut Entries, id: EntryId) {
        self.0.remove(&(entries.rank(id), -entries.priority(id), id));
    }

    fn raised(&mut self, entries: &mut Entries, id: EntryId, before: i32) {
        self.0.remove(&(entries.rank(id), -before, id));
        self.push(entries, id);
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_order_can_sort_by_ranks_of_the_keys() {
    let queue = WorkQueue::builder().order(ByRank::default()).rank_by(|key: &(u64, u8)| key.0).build();
    queue.add_all([(5, 0), (2, 0), (9, 0)]);
    queue.add_after((1, 0), SECOND);
    let item = queue.get().await.unwrap();
    assert_eq!(*item, (2, 0));
    item.done();
    tokio::time::sleep(SECOND).await;
    let item = queue.get().await.unwrap();
    assert_eq!(*item, (1, 0));
    queue.add((1, 0));
    item.done();
    assert_eq!(rest(&queue), [(1, 0), (5, 0), (9, 0)]);
    assert!(!queue.stats().order_failed);
}

#[test]
fn a_rank_belongs_to_its_key_and_not_to_its_reused_number() {
    let queue = WorkQueue::builder().order(ByRank::default()).rank_by(|&key: &u64| key).build();
    queue.add(9);
    queue.try_get().unwrap().done();
    queue.add_all([3, 4, 1]);
    assert_eq!(rest(&queue), [1, 3, 4]);
}

#[test]
fn a_custom_order_is_notified_of_rising_priorities() {
    let queue = WorkQueue::builder().order(ByRank::default()).build();
    queue.add_all(["a", "b", "c"]);
    queue.add_with("c", AddOptions::new().priority(3));
    queue.add_with("b", AddOptions::new().priority(1));
    queue.add_with("b", AddOptions::new().priority(-4));
    assert_eq!(rest(&queue), ["c", "b", "a"]);
}

#[test]
fn a_custom_order_can_be_nested_in_the_priority_order() {
    let queue = WorkQueue::builder()
        .order(PriorityOrder::<ByRank>::new(Aging::Off))
        .rank_by(|&key: &u64| key)
        .build();
    for (key, priority) in [(7, 0), (3, 0), (8, 1), (9, 0)] {
        queue.add_with(key, AddOptions::new().priority(priority));
    }
    queue.add_with(9, AddOptions::new().priority(1));
    assert_eq!(rest(&queue), [8, 9, 3, 7]);
}

#[test]
fn built_in_orders_behave_the_same_when_passed_as_custom_orders() {
    fn group(key: &(u8, u8)) -> Cow<'_, str> {
        key.0.to_string().into()
    }
    let pairs = [
        (WorkQueue::builder(), WorkQueue::builder().order(FifoOrder::default())),
        (
            WorkQueue::builder().fair_by(group),
            WorkQueue::builder().fair_by(group).order(FairOrder::default()),
        ),
        (
            WorkQueue::builder().priorities(Aging::Every(4)).fair_by(group),
            WorkQueue::builder().fair_by(group).order(PriorityOrder::<FairOrder>::new(Aging::Every(4))),
        ),
    ];
    for (chosen, given) in pairs {
        let (chosen, given) = (chosen.build(), given.build());
        for n in 0..60 {
            let options = AddOptions::new().priority(i32::from(n % 3));
            chosen.add_with((n % 7, n), options);
            given.add_with((n % 7, n), options);
        }
        let depths = |queue: &WorkQueue<_>| {
            let mut rows = queue.stats().depths;
            rows.sort_by(|a, b| (a.priority, &a.group).cmp(&(b.priority, &b.group)));
            rows
        };
        assert_eq!(depths(&chosen), depths(&given));
        assert_eq!(rest(&chosen), rest(&given));
        assert!(!given.stats().order_failed);
    }
}

#[test]
fn a_turn_of_another_group_at_the_same_priority_does_not_count_towards_aging() {
    fn group<'k>(key: &'k &'static str) -> Cow<'k, str> {
        key[..1].into()
    }
    let queue = WorkQueue::builder().priorities(Aging::Every(3)).fair_by(group).build();
    for key in ["a1", "a2", "b1"] {
        queue.add(key);
    }
    // The turn of group `b` comes before `a2`, which is older and has the same priority.
    assert_eq!([next(&queue), next(&queue)], [Some("a1"), Some("b1")]);
    for key in ["h1", "h2", "h3"] {
        queue.add_with(key, AddOptions::new().priority(1));
    }
    assert_eq!(rest(&queue), ["h1", "h2", "a2", "h3"]);
}

/// An order that hands out keys in arrival order, until a switch selects a failure.
#[derive(Default)]
struct Hostile {
    ids: Vec<EntryId>,
    wrong: Arc<AtomicU32>,
}

const PUSH: u32 = 1;
const PEEK: u32 = 2;
const REMOVE: u32 = 4;
const RAISED: u32 = 8;
const DEPTHS: u32 = 16;
const NAME_NOTHING: u32 = 32;
const KEEP_REMOVED: u32 = 64;
const FORGET_PUSHED: u32 = 128;

impl Hostile {
    fn check(&self, what: u32) {
        assert!(!self.is(what), "the order panics in {what}");
    }

    fn is(&self, what: u32) -> bool {
        self.wrong.load(Ordering::Relaxed) & what != 0
    }
}

impl Order for Hostile {
    fn push(&mut self, _: &mut Entries, id: EntryId) {
        if !self.is(FORGET_PUSHED) {
            self.ids.push(id);
        }
        self.check(PUSH);
    }

    fn peek(&self, _: &Entries) -> Option<EntryId> {
        self.check(PEEK);
        self.ids.first().copied().filter(|_| !self.is(NAME_NOTHING))
    }

    fn remove(&mut self, _: &mut Entries, id: EntryId) {
        self.check(REMOVE);
        if !self.is(KEEP_REMOVED) {
            self.ids.retain(|&other| other != id);
        }
    }

    fn raised(&mut self, _: &mut Entries, _: EntryId, _: i32) {
        self.check(RAISED);
    }

    fn len(&self) -> usize {
        self.ids.len()
    }

    fn depths(&self, row: &mut Depths<'_>) {
        row(None, None, 1);
        self.check(DEPTHS);
    }
}

fn hostile() -> (WorkQueue<u32>, Arc<AtomicU32>) {
    let order = Hostile::default();
    let wrong = Arc::clone(&order.wrong);
    (WorkQueue::builder().order(order).build(), wrong)
}

type Call = fn(&WorkQueue<u32>);

fn panics<T>(call: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

#[test]
fn an_order_that_panics_is_replaced_by_fifo_and_the_panic_reaches_the_caller() {
    let calls: [(u32, Call); 5] = [
        (PUSH, |queue| assert!(queue.add(3))),
        (PEEK, |queue| drop(queue.try_get())),
        (REMOVE, |queue| drop(queue.try_get())),
        (RAISED, |queue| assert!(queue.add_with(2, AddOptions::new().priority(1)))),
        (DEPTHS, |queue| drop(queue.stats())),
    ];
    for (what, call) in calls {
        let (queue, wrong) = hostile();
        queue.add_all([1, 2]);
        wrong.store(what, Ordering::Relaxed);
        assert!(panics(|| call(&queue)), "{what} reaches the caller");
        let stats = queue.stats();
        assert!(stats.order_failed);
        assert_eq!(stats.depths.iter().map(|row| row.len).sum::<usize>(), stats.ready);
        queue.add(9);
        // A getter had taken a key when the order panicked. The key is retried, as after any dropped item.
        let again = queue.waiting_len();
        let expected: &[u32] = match what {
            PUSH => &[1, 2, 3, 9],
            PEEK | REMOVE => &[2, 9],
            _ => &[1, 2, 9],
        };
        assert_eq!((rest(&queue), again), (expected.to_vec(), usize::from(expected.len() == 2)), "{what}");
    }
}

#[test]
fn an_order_that_violates_its_contract_is_replaced_by_fifo() {
    for what in [NAME_NOTHING, KEEP_REMOVED, FORGET_PUSHED] {
        let (queue, wrong) = hostile();
        wrong.store(what, Ordering::Relaxed);
        queue.add_all([1, 2, 3]);
        assert_eq!(rest(&queue), [1, 2, 3], "{what}");
        assert!(queue.stats().order_failed, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_getter_is_woken_by_an_add_whose_order_panics() {
    let (queue, wrong) = hostile();
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item) }
    });
    tokio::task::yield_now().await;
    wrong.store(PUSH, Ordering::Relaxed);
    assert!(panics(|| queue.add(1)));
    assert_eq!(timeout(SECOND, getter).await.expect("the getter was woken").unwrap(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_becomes_ready_when_the_order_panics_is_not_lost() {
    let (queue, wrong) = hostile();
    queue.add_after(1, SECOND);
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item) }
    });
    tokio::task::yield_now().await;
    wrong.store(PUSH, Ordering::Relaxed);
    assert!(getter.await.unwrap_err().is_panic(), "this getter promoted the key");
    assert_eq!(*timeout(SECOND, queue.get()).await.expect("the key is handed out").unwrap(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_key_is_handed_out_once_with_any_order(
        good in 0_usize..20,
        wrong in prop::sample::select(vec![PUSH, PEEK, REMOVE, RAISED, NAME_NOTHING, KEEP_REMOVED, FORGET_PUSHED]),
        steps in prop::collection::vec((any::<bool>(), 0_i32..3), 1..60),
    ) {
        let order = Hostile::default();
        let switch = Arc::clone(&order.wrong);
        let queue = WorkQueue::builder()
            .order(order)
            .on_drop(informer_workqueue::OnDrop::Done)
            .build();
        let (mut added, mut seen, mut dropped) = (0_u32, BTreeSet::new(), 0);
        for (step, &(add, priority)) in steps.iter().enumerate() {
            switch.store(if step < good { 0 } else { wrong }, Ordering::Relaxed);
            if add {
                let _ = catch_unwind(AssertUnwindSafe(|| queue.add_with(added, AddOptions::new().priority(priority))));
                added += 1;
                continue;
            }
            let before = queue.len();
            match catch_unwind(AssertUnwindSafe(|| queue.try_get().map(|item| { let key = *item; item.done(); key }))) {
                Ok(Some(key)) => prop_assert!(seen.insert(key), "{} was handed out twice", key),
                Ok(None) => prop_assert_eq!(before, 0),
                Err(_) => dropped += 1,
            }
        }
        prop_assert!(dropped <= 1, "an order fails once");
        switch.store(0, Ordering::Relaxed);
        for key in rest(&queue) {
            prop_assert!(seen.insert(key), "{} was handed out twice", key);
        }
        prop_assert_eq!(seen.len() + dropped, added as usize);
        prop_assert_eq!((queue.len(), queue.processing_len()), (0, 0));
    }
}

thread_local! {
    /// The number of nested orders that exist on this thread.
    static NESTED_ORDERS: Cell<usize> = const { Cell::new(0) };
}

/// An order that counts how many of its kind exist.
struct CountedOrder(FifoOrder);

impl Default for CountedOrder {
    fn default() -> Self {
        NESTED_ORDERS.set(NESTED_ORDERS.get() + 1);
        Self(FifoOrder::default())
    }
}

impl Drop for CountedOrder {
    fn drop(&mut self) {
        NESTED_ORDERS.set(NESTED_ORDERS.get() - 1);
    }
}

impl Order for CountedOrder {
    fn push(&mut self, entries: &mut Entries, id: EntryId) {
        self.0.push(entries, id);
    }

    fn peek(&self, entries: &Entries) -> Option<EntryId> {
        self.0.peek(entries)
    }

    fn remove(&mut self, entries: &mut Entries, id: EntryId) {
        self.0.remove(entries, id);
    }

    fn raised(&mut self, entries: &mut Entries, id: EntryId, before: i32) {
        self.0.raised(entries, id, before);
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_has_used_many_priorities_keeps_few_empty_orders() {
    let queue = WorkQueue::builder().order(PriorityOrder::<CountedOrder>::new(Aging::Off)).build();
    for priority in 0..100 {
        queue.add_with(priority, AddOptions::new().priority(priority));
    }
    assert_eq!((NESTED_ORDERS.get(), queue.is_empty()), (100, false));
    assert_eq!(rest(&queue), (0..100).rev().collect::<Vec<_>>());
    assert!(NESTED_ORDERS.get() <= 8, "{} orders", NESTED_ORDERS.get());
    assert!(queue.is_empty());
}
