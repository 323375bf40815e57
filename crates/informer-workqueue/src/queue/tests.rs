//! Compares the pure state of the queue with a naive model, and tests internals that the public API does not
//! show.

mod model;

use std::borrow::Cow;

use proptest::prelude::*;

use self::model::{Model, Shape};
use super::MAX_KEYS;
use super::groups::NO_GROUP;
use super::index::{Index, KeyHash};
use super::order::{Aging, FairOrder, FifoOrder, Order, PriorityOrder, ReadyKeys};
use super::slots::NewKey;
use super::state::{Phase, Schedule, State, Ticket};
use crate::clock::Nanos;

#[derive(Clone, Debug)]
enum Op {
    Add {
        key: u8,
        delay: u64,
        priority: i32,
    },
    Take,
    /// Finishes the n-th of the current hand-outs, optionally with a new request for its key.
    Finish {
        nth: usize,
        again: Option<(u64, i32)>,
    },
    FinishAgain {
        nth: usize,
    },
    Cancel {
        key: u8,
    },
    /// Advances the simulated clock, or turns it back.
    Advance {
        by: i64,
    },
    ShutDown,
}

fn op() -> impl Strategy<Value = Op> {
    let (key, delay, priority, nth) = (0_u8..12, 0_u64..40, -2_i32..3, 0_usize..6);
    let again = prop::option::of((delay.clone(), priority.clone()));
    prop_oneof![
        12 => (key.clone(), priority.clone()).prop_map(|(key, priority)| Op::Add { key, delay: 0, priority }),
        8 => (key.clone(), delay, priority).prop_map(|(key, delay, priority)| Op::Add { key, delay, priority }),
        12 => Just(Op::Take),
        8 => (nth.clone(), again).prop_map(|(nth, again)| Op::Finish { nth, again }),
        1 => nth.prop_map(|nth| Op::FinishAgain { nth }),
        2 => key.prop_map(|key| Op::Cancel { key }),
        6 => (-5_i64..30).prop_map(|by| Op::Advance { by }),
        1 => Just(Op::ShutDown),
    ]
}

struct Pair {
    state: State<u8>,
    model: Model,
    now: u64,
    in_process: Vec<(u8, Ticket)>,
    ended: Vec<Ticket>,
}

/// Returns a hash that is the same for several keys, to test collisions.
fn hash(key: u8) -> KeyHash {
    KeyHash::new(u64::from(key % 3))
}

fn group(key: u8) -> Cow<'static, str> {
    Cow::Owned(format!("group-{}", key % 4))
}

impl Pair {
    fn new(shape: Shape) -> Self {
        Self::guarded(shape, false)
    }

    /// Creates a pair of queue and model. If `untrusted` is set, the queue treats its order as user-defined.
    fn guarded(shape: Shape, untrusted: bool) -> Self {
        let order: Box<dyn Order> = match shape {
            Shape { priorities: None, fair: false } => Box::<FifoOrder>::default(),
            Shape { priorities: None, fair: true } => Box::<FairOrder>::default(),
            Shape { priorities: Some(aging), fair: false } => {
                Box::new(PriorityOrder::<FifoOrder>::new(aging))
            }
            Shape { priorities: Some(aging), fair: true } => Box::new(PriorityOrder::<FairOrder>::new(aging)),
        };
        let (in_process, ended) = (Vec::new(), Vec::new());
        let order = if untrusted { ReadyKeys::untrusted(order) } else { ReadyKeys::trusted(order) };
        Self {
            state: State::new(order, MAX_KEYS, true),
            model: Model::new(shape),
            now: 100,
            in_process,
            ended,
        }
    }

    fn apply(&mut self, op: &Op) {
        let now = Nanos(self.now);
        match *op {
            Op::Add { key, delay, priority } => self.add(key, delay, priority),
            Op::Take => {
                let taken = self.state.take(now);
                let expected = self.model.take();
                assert_eq!(taken.as_ref().map(|taken| (taken.key, taken.priority)), expected);
                self.in_process.extend(taken.map(|taken| (taken.key, taken.ticket)));
            }
            Op::Finish { nth, again } if nth < self.in_process.len() => {
                let (key, ticket) = self.in_process.remove(nth);
                let wish = again.map(|(delay, priority)| Schedule { due: self.due(delay), priority });
                let finished = self.state.finish(ticket, wish, now).expect("the key is in process");
                let kept =
                    self.model.finish(key, wish.map(|wish| (wish.due.map(|due| due.0), wish.priority)));
                assert_eq!(finished.kept, kept);
                self.ended.push(ticket);
            }
            Op::FinishAgain { nth } if nth < self.ended.len() => {
                assert!(self.state.finish(self.ended[nth], None, now).is_none());
            }
            Op::Finish { .. } | Op::FinishAgain { .. } => {}
            Op::Cancel { key } => {
                let waited = match self.state.find(hash(key), &key) {
                    Some(id) => self.state.cancel_waiting(id).0,
                    None => false,
                };
                assert_eq!(waited, self.model.cancel(key));
            }
            Op::Advance { by } => {
                self.now = self.now.saturating_add_signed(by);
                let effect = self.state.promote(Nanos(self.now));
                assert_eq!(effect.added as usize, self.model.promote(self.now));
            }
            Op::ShutDown => {
                self.state.phase = Phase::Closed;
                while self.state.cancel_any().is_some() {}
                self.model.shut_down();
            }
        }
        self.compare();
    }

    fn due(&self, delay: u64) -> Option<Nanos> {
        (delay > 0).then(|| Nanos(self.now + delay))
    }

    fn add(&mut self, key: u8, delay: u64, priority: i32) {
        if self.state.phase != Phase::Open {
            return;
        }
        let number = if self.model.shape.fair { u64::from(key % 4) } else { u64::MAX };
        let id = self.state.find(hash(key), &key).unwrap_or_else(|| {
            let group = match number {
                u64::MAX => NO_GROUP,
                number => self.state.groups.enter(&group(key), number),
            };
            self.state
                .insert(NewKey { key, hash: hash(key).0, group, rank: None })
                .expect("the queue is not full")
        });
        let due = self.due(delay);
        let _ = self.state.mark(id, Schedule { due, priority }, Nanos(self.now));
        self.model.add(key, due.map(|due| due.0), priority);
    }

    fn compare(&mut self) {
        self.state.assert_invariants();
        assert_eq!(self.state.ready(), self.model.ready());
        assert_eq!(self.state.processing(), self.in_process.len());
        assert_eq!(self.state.is_finished(), self.model.is_finished());
        assert_eq!(self.state.is_drained(), self.model.is_drained());
        let first = self.state.delays.first(usize::MAX);
        let waiting: Vec<_> =
            first.iter().map(|&(id, due)| (*self.state.slots.key(id).unwrap(), due.0)).collect();
        assert_eq!(waiting, self.model.waiting());
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    let aging = prop_oneof![Just(Aging::Off), (0_u32..5).prop_map(Aging::Every)];
    (prop::option::of(aging), any::<bool>()).prop_map(|(priorities, fair)| Shape { priorities, fair })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_state_behaves_like_the_naive_model(
        shape in shape(),
        untrusted in any::<bool>(),
        ops in prop::collection::vec(op(), 1..150),
    ) {
        let mut pair = Pair::guarded(shape, untrusted);
        ops.iter().for_each(|op| pair.apply(op));
        prop_assert!(!pair.state.order.has_failed());
    }

    #[test]
    fn the_index_behaves_like_a_map_with_colliding_hashes(
        ops in prop::collection::vec((any::<bool>(), 0_u32..300, prop_oneof![Just(0_u32), Just(u32::MAX), any::<u32>()]), 1..600),
    ) {
        let (mut index, mut model) = (Index::default(), std::collections::BTreeMap::new());
        for (add, slot, hash) in ops {
            let known = model.get(&slot).copied();
            match known {
                Some(hash) if !add => {
                    index.remove(hash, slot);
                    model.remove(&slot);
                }
                None if add => {
                    index.insert(KeyHash(hash), slot);
                    model.insert(slot, KeyHash(hash));
                }
                _ => index.remove(KeyHash(hash), 1000),
            }
            prop_assert_eq!(index.len(), model.len());
            for (&slot, &hash) in &model {
                prop_assert_eq!(index.find(hash, |other| other == slot), Some(slot));
            }
        }
    }

    #[test]
    fn a_key_behind_m_older_ones_is_handed_out_within_n_times_m_plus_one(
        every in 1_u32..8,
        priorities in prop::collection::vec(-3_i32..3, 1..40),
    ) {
        let mut pair = Pair::new(Shape { priorities: Some(Aging::Every(every)), fair: false });
        let older = priorities.len();
        for (key, &priority) in (0_u8..).zip(&priorities) {
            pair.add(key, 0, priority);
        }
        let starving = u8::try_from(older).unwrap();
        pair.add(starving, 0, -100);
        let bound = every as usize * (older + 1);
        let news = starving + 1;
        let within = (1..=bound).find(|_| {
            pair.add(news, 0, 100);
            let taken = pair.state.take(Nanos(0)).unwrap();
            let _ = pair.state.finish(taken.ticket, None, Nanos(0));
            taken.key == starving
        });
        prop_assert!(within.is_some(), "not handed out within {bound}");
    }
}

#[test]
fn the_index_shrinks_when_most_keys_are_removed() {
    let mut index = Index::default();
    let hash = |n: u32| KeyHash(n.wrapping_mul(0x9e37_79b9));
    (0..100_000).for_each(|n| index.insert(hash(n), n));
    let largest = index.capacity();
    assert!(largest >= 100_000);
    (100..100_000).for_each(|n| index.remove(hash(n), n));
    assert!(index.capacity() < largest / 50, "{} of {largest}", index.capacity());
    assert!((0..100).all(|n| index.find(hash(n), |slot| slot == n) == Some(n)));
}

#[test]
fn many_priority_levels_are_handed_out_in_order() {
    let mut pair = Pair::new(Shape { priorities: Some(Aging::Off), fair: false });
    for priority in 0..200 {
        pair.add(u8::try_from(priority).unwrap(), 0, priority);
    }
    for expected in (0..200).rev() {
        assert_eq!(pair.state.take(Nanos(0)).map(|taken| taken.priority), Some(expected));
    }
}

#[test]
fn a_clock_that_jumps_back_makes_no_key_ready_and_no_duration_negative() {
    let mut pair = Pair::new(Shape { priorities: None, fair: false });
    pair.add(1, 10, 0);
    pair.apply(&Op::Advance { by: 20 });
    pair.now = 0;
    let taken = pair.state.take(Nanos(0)).unwrap();
    assert_eq!(taken.waited, std::time::Duration::ZERO);
    pair.add(2, 10, 0);
    assert_eq!(pair.state.promote(Nanos(5)).added, 0);
    let finished = pair.state.finish(taken.ticket, None, Nanos(0)).unwrap();
    assert_eq!(finished.worked, Some(std::time::Duration::ZERO));
}

#[test]
fn a_bounded_number_of_keys_becomes_ready_under_one_lock() {
    let mut pair = Pair::new(Shape { priorities: None, fair: false });
    for key in 0..200 {
        pair.add(key, 10, 0);
    }
    let steps: Vec<_> = (0..5).map(|_| pair.state.promote(Nanos(1000)).added).collect();
    assert_eq!(steps, [64, 64, 64, 8, 0]);
}
