//! Compares `InOrderState` with a naive model of the queue.

use proptest::prelude::*;

use crate::Change;
use crate::queue::backpressure::{MAX_WEIGHT, RESUME_WEIGHT};
use crate::queue::fixture::{Foo, foo, gone, list, text};
use crate::queue::in_order::state::InOrderState;

#[derive(Debug, Clone)]
enum Step {
    Event(u8),
    Delete(u8),
    List(usize),
    Resync,
    Bookmark,
    Pop(usize),
    Done,
    Requeue,
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u8..3).prop_map(Step::Event),
        2 => (0_u8..3).prop_map(Step::Delete),
        2 => prop_oneof![4 => Just(0_usize), 4 => Just(2), 1 => Just(6000)].prop_map(Step::List),
        2 => Just(Step::Resync),
        2 => Just(Step::Bookmark),
        5 => (0_usize..5).prop_map(Step::Pop),
        4 => Just(Step::Done),
        1 => Just(Step::Requeue),
        1 => Just(Step::Close),
    ];
    prop::collection::vec(step, 0..60)
}

/// The expected content of the queue, in order. Each entry is a change as a string, the weight of the change,
/// and whether it belongs to the initial list.
#[derive(Default)]
struct Model {
    queue: Vec<(String, usize, bool)>,
    /// The changes of the batch that was popped and is neither done nor requeued, in the same form as in
    /// `queue`; `None` if there is no such batch.
    taken: Option<Vec<(String, usize, bool)>>,
    populated: bool,
    full: bool,
    closed: bool,
}

fn mergeable(text: &str) -> Option<&str> {
    text.split(' ').next().filter(|word| ["resync", "bookmark"].contains(word))
}

impl Model {
    fn push(&mut self, change: &Change<Foo>) {
        if self.closed {
            return;
        }
        let (text, mut weight) = (text(change), 1);
        match self.queue.last_mut() {
            Some(last) if mergeable(&text).is_some() && mergeable(&last.0) == mergeable(&text) => {
                last.0.clone_from(&text);
            }
            _ => {
                if let Change::Replaced(replacement) = change {
                    weight += replacement.items.len();
                }
                self.queue.push((text.clone(), weight, false));
            }
        }
        if text.starts_with("replaced") && !self.populated {
            self.queue.iter_mut().for_each(|entry| entry.2 = true);
        }
        self.populated |= mergeable(&text).is_none();
        self.full |= self.weight() >= MAX_WEIGHT;
    }

    fn weight(&self) -> usize {
        self.queue.iter().map(|entry| entry.1).sum()
    }

    fn has_synced(&self) -> bool {
        self.populated && !self.queue.iter().chain(self.taken.iter().flatten()).any(|entry| entry.2)
    }
}

fn change(step: &Step, clock: u64) -> Option<Change<Foo>> {
    let name = |number: &u8| ["a", "b", "c"][usize::from(*number)];
    Some(match step {
        Step::Event(number) => Change::Updated(foo(name(number), clock)),
        Step::Delete(number) => Change::Deleted(gone(name(number), clock)),
        Step::List(count) => list(&vec![("a", clock); *count], clock),
        Step::Resync => Change::Resync,
        Step::Bookmark => Change::Bookmark(clock.into()),
        _ => return None,
    })
}

proptest! {
    #[test]
    fn no_change_is_lost_duplicated_or_reordered(steps in steps()) {
        let (mut state, mut model, mut taken) = (InOrderState::new(), Model::default(), None);
        for (clock, step) in steps.iter().enumerate() {
            if let Some(change) = change(step, clock as u64) {
                model.push(&change);
                prop_assert_eq!(state.push(change).is_err(), model.closed);
            }
            match step {
                Step::Close => { state.close(); model.closed = true; }
                Step::Pop(max) if taken.is_none() => {
                    let initial = !model.populated || model.queue.first().is_some_and(|entry| entry.2);
                    taken = state.pop_batch(*max);
                    let Some(batch) = &taken else { prop_assert!(model.queue.is_empty()); continue };
                    let popped: Vec<_> = model.queue.drain(..batch.changes.len()).collect();
                    prop_assert!(!popped.is_empty() && popped.len() <= (*max).max(1));
                    let alone = |text: &String| text.starts_with("replaced") || text == "resync";
                    prop_assert!(popped.len() == 1 || !popped.iter().any(|entry| alone(&entry.0)));
                    prop_assert!(popped.iter().all(|entry| entry.2 == popped[0].2));
                    prop_assert_eq!(batch.is_initial, initial);
                    prop_assert!(batch.changes.iter().map(text).eq(popped.iter().map(|entry| entry.0.clone())));
                    model.taken = Some(popped);
                    model.full &= model.weight() > RESUME_WEIGHT;
                }
                Step::Done => if let Some(batch) = taken.take() {
                    state.done(batch.initial);
                    model.taken = None;
                },
                Step::Requeue => if let Some(batch) = taken.take() {
                    state.requeue(batch);
                    let mut back = model.taken.take().unwrap();
                    if model.queue.first().is_some_and(|entry| entry.2) {
                        back.iter_mut().for_each(|entry| entry.2 = true);
                    }
                    model.queue.splice(..0, back);
                    model.full |= model.weight() >= MAX_WEIGHT;
                },
                _ => {}
            }
            prop_assert_eq!(state.has_synced(), model.has_synced());
            prop_assert_eq!(state.depth(), model.queue.len());
            prop_assert_eq!(state.weight(), model.weight());
            prop_assert_eq!(state.has_room(), !model.full);
        }
    }
}
