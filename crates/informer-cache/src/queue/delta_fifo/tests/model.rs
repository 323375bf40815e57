//! Compares `DeltaState` with a naive model in which popping and processing are one step, like in client-go.
//!
//! The known-objects view of the queue under test lags behind that of the model, because popped deltas are
//! stored only when they are done. The comparison therefore also proves that the queue treats popped deltas
//! as processed when it looks for deleted objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use crate::queue::delta_fifo::state::{DeltaState, KnownObject};
use crate::queue::fixture::{Foo, Held, delta_text, foo, gone, key};
use crate::queue::{Delta, Deltas, Taken};
use crate::source::KnownObjects;

#[derive(Debug, Clone)]
enum Step {
    Add(usize),
    Update(usize),
    Delete(usize),
    Replace(Vec<usize>),
    Resync,
    Pop,
    Done,
    Requeue,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || 0..NAMES.len();
    let step = prop_oneof![
        3 => name().prop_map(Step::Add),
        3 => name().prop_map(Step::Update),
        4 => name().prop_map(Step::Delete),
        2 => prop::collection::vec(name(), 0..4).prop_map(Step::Replace),
        2 => Just(Step::Resync),
        6 => Just(Step::Pop),
        5 => Just(Step::Done),
        1 => Just(Step::Requeue),
    ];
    prop::collection::vec(step, 0..80)
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    word: &'static str,
    value: u64,
}

#[derive(Default)]
struct Model {
    shared: Vec<(&'static str, Vec<Entry>)>,
    store: BTreeMap<&'static str, u64>,
    populated: bool,
    /// Number of items of the initial list that are still queued in the model.
    initial: usize,
    /// Number of items of the initial list that were popped from the model and are not processed yet. The
    /// model has synced once this number and `initial` are 0.
    initial_running: usize,
}

impl Model {
    fn queued(&mut self, name: &str) -> Option<&mut Vec<Entry>> {
        self.shared.iter_mut().find(|(queued, _)| *queued == name).map(|(_, entries)| entries)
    }

    fn append(&mut self, name: &'static str, word: &'static str, value: u64) {
        let entry = Entry { word, value };
        let Some(entries) = self.queued(name) else { return self.shared.push((name, vec![entry])) };
        entries.push(entry);
        compress(entries);
    }

    fn delete(&mut self, name: &'static str, value: u64) {
        self.populated = true;
        if self.store.contains_key(name) || self.queued(name).is_some() {
            self.append(name, "deleted", value);
        }
    }

    /// Returns the objects that the model has stored, in the order of `view`, the keys that `DeltaState`
    /// considers known. A list deletes known keys in that order, and the order is not defined, so the model
    /// must use the same one.
    fn known(&self, view: &[&'static str]) -> Vec<(&'static str, u64)> {
        view.iter().filter_map(|name| Some((*name, *self.store.get(name)?))).collect()
    }

    fn replace(&mut self, names: &[&'static str], value: u64, view: &[&'static str]) {
        names.iter().for_each(|name| self.append(name, "replaced", value));
        let newest = |entries: &[Entry]| entries.last().map_or(0, |entry| entry.value);
        let mut gone: Vec<_> = self.shared.iter().map(|(name, entries)| (*name, newest(entries))).collect();
        gone.retain(|(name, _)| !names.contains(name));
        let known = self.known(view);
        gone.extend(
            known.into_iter().filter(|(name, _)| !names.contains(name) && self.queued(name).is_none()),
        );
        if !self.populated {
            let mut listed = names.to_vec();
            listed.sort_unstable();
            listed.dedup();
            (self.populated, self.initial) = (true, listed.len() + gone.len());
        }
        gone.into_iter().for_each(|(name, value)| self.append(name, "missed", value));
    }

    fn resync(&mut self, view: &[&'static str]) {
        for (name, value) in self.known(view) {
            if self.queued(name).is_none() {
                self.append(name, "sync", value);
            }
        }
    }

    fn pop(&mut self) -> (bool, Vec<String>) {
        let (name, entries) = self.shared.remove(0);
        let is_initial = !self.populated || self.initial > 0;
        if self.initial > 0 {
            self.initial -= 1;
            self.initial_running += 1;
        }
        match entries.last() {
            Some(Entry { word: "deleted" | "missed", .. }) | None => drop(self.store.remove(name)),
            Some(Entry { value, .. }) => drop(self.store.insert(name, *value)),
        }
        (is_initial, entries.iter().map(|entry| format!("{} {name}={}", entry.word, entry.value)).collect())
    }

    fn has_synced(&self) -> bool {
        self.populated && self.initial + self.initial_running == 0
    }
}

/// Merges two deletions at the end of `entries`. An observed deletion is kept rather than a missed one.
fn compress(entries: &mut Vec<Entry>) {
    let deletion = |entry: &Entry| ["deleted", "missed"].contains(&entry.word);
    if let [.., earlier, later] = &entries[..]
        && deletion(earlier)
        && deletion(later)
    {
        let kept = if earlier.word == "missed" { later.clone() } else { earlier.clone() };
        entries.truncate(entries.len() - 2);
        entries.push(kept);
    }
}

struct Pair {
    state: DeltaState<Foo>,
    held: Arc<Held>,
    taken: Vec<Taken<Deltas<Foo>>>,
    model: Model,
}

impl Pair {
    fn known(&self) -> Vec<KnownObject<Foo>> {
        self.held.keys().into_iter().map(|key| (key.clone(), self.held.get(key.as_str()))).collect()
    }

    /// Returns the keys of all objects that `DeltaState` considers known: first the keys that the consumer
    /// has stored, then the keys in process. The model stores an object when it is popped, so it may also
    /// contain requeued objects. Their keys need not be returned, because they are queued.
    fn view(&self) -> Vec<&'static str> {
        let in_process = |name: &&str| self.taken.iter().any(|taken| taken.key == **name);
        let held = NAMES.into_iter().filter(|name| self.held.get(name).is_some() && !in_process(name));
        held.chain(NAMES.into_iter().filter(in_process)).collect()
    }

    fn write(&mut self, step: &Step, clock: u64) {
        match step {
            Step::Add(at) | Step::Update(at) => {
                let (name, object) = (NAMES[*at], foo(NAMES[*at], clock));
                let added = matches!(step, Step::Add(_));
                let delta = if added { Delta::Added(object) } else { Delta::Updated(object) };
                self.state.enqueue(key(name), delta);
                self.model.populated = true;
                self.model.append(name, if added { "added" } else { "updated" }, clock);
            }
            Step::Delete(at) => {
                let name = NAMES[*at];
                let known = self.held.get(name).is_some();
                self.state.delete(key(name), gone(name, clock), Some(known));
                self.model.delete(name, clock);
            }
            Step::Replace(list) => {
                let names: Vec<_> = list.iter().map(|at| NAMES[*at]).collect();
                let items = names.iter().map(|name| (key(name), foo(name, clock))).collect();
                self.state.replace(items, &[], Some(&self.known()));
                self.model.replace(&names, clock, &self.view());
            }
            Step::Resync => {
                let known = self.known();
                self.state.resync(&known);
                self.model.resync(&self.view());
            }
            Step::Pop | Step::Done | Step::Requeue => {}
        }
    }

    fn read(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Pop if self.taken.len() < 2 => {
                let Some(taken) = self.state.pop() else {
                    prop_assert!(self.model.shared.is_empty());
                    return Ok(());
                };
                let text = taken.item.iter().map(delta_text).collect::<Vec<_>>();
                prop_assert_eq!((taken.is_initial, text), self.model.pop());
                self.taken.push(taken);
            }
            Step::Done if !self.taken.is_empty() => {
                let taken = self.taken.remove(0);
                self.held.apply(&taken.item);
                self.state.done(taken.key.as_str(), taken.initial);
                self.model.initial_running -= taken.initial;
            }
            Step::Requeue if self.taken.len() == 1 => {
                let taken = self.taken.remove(0);
                self.model.initial_running -= taken.initial;
                self.requeue_model(&taken);
                self.state.requeue(taken.item, taken.initial);
            }
            _ => {}
        }
        Ok(())
    }

    fn requeue_model(&mut self, taken: &Taken<Deltas<Foo>>) {
        let name = *NAMES.iter().find(|name| taken.key == **name).expect("only these names are used");
        let words = ["added", "updated", "deleted", "missed", "replaced", "sync"];
        let mut all: Vec<Entry> = Vec::new();
        let older = taken.item.iter().map(|delta| {
            let text = delta_text(delta);
            let word = words
                .into_iter()
                .find(|word| text.starts_with(word))
                .expect("the text begins with one of the words");
            Entry { word, value: delta.object().expect("every delta has an object here").value }
        });
        let newer = self.model.queued(name).map(std::mem::take);
        let is_queued = newer.is_some();
        for entry in older.chain(newer.into_iter().flatten()) {
            all.push(entry);
            compress(&mut all);
        }
        if is_queued {
            *self.model.queued(name).expect("the key is queued") = all
        } else {
            self.model.shared.push((name, all))
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let queued: Vec<_> = self.state.iter().map(|deltas| deltas.key().to_string()).collect();
        let expected: Vec<_> = self.model.shared.iter().map(|(name, _)| (*name).to_owned()).collect();
        prop_assert_eq!(queued, expected, "keys in shared");
        prop_assert_eq!(self.state.has_synced(), self.model.has_synced());
        let weight: usize = self.model.shared.iter().map(|(_, entries)| entries.len()).sum();
        prop_assert_eq!(self.state.backpressure.weight(), weight);
        prop_assert_eq!(self.state.in_process.len().min(1), self.taken.len().min(1));
        Ok(())
    }
}

proptest! {
    #[test]
    fn deltas_in_process_count_as_processed_and_no_delta_is_lost(steps in steps()) {
        let mut pair = Pair {
            state: DeltaState::new(), held: Held::new(&[]), taken: Vec::new(), model: Model::default(),
        };
        for (clock, step) in steps.iter().enumerate() {
            pair.write(step, clock as u64);
            pair.read(step)?;
            pair.check()?;
        }
        while pair.state.depth() > 0 || !pair.taken.is_empty() {
            pair.read(&Step::Pop)?;
            pair.read(&Step::Done)?;
            pair.check()?;
        }
        let held: Vec<_> = pair.held.0.lock().values().map(|object| object.value).collect();
        prop_assert!(held.iter().eq(pair.model.store.values()), "the consumer and the model differ");
    }
}
