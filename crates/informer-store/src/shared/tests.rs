//! Tests of the store: comparison with a naive model that recomputes its indexes for each query, and a test
//! of each guarantee in the module docs.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};

use informer_core::{Header, LabelSelector, Object, ObjectKey, ResourceVersion};
use proptest::prelude::*;

use super::*;
use crate::index::{IndexFn, borrowed, fallible, label, namespace};
use crate::{Indexer, Snapshot, StoreBuilder, StoreChange, ThreadSafeStore};

type Pod = Header;

impl<O: Object> Shared<O> {
    /// Asserts all invariants of the modules `shared`, `ledger`, `state`, `sharded` and `posting`.
    pub(crate) fn assert_invariants(&self) {
        let ledger = self.ledger.lock();
        let sides = [self.sides[0].read().clone(), self.sides[1].read().clone()];
        let keys = |side: &State<O>| -> Vec<(u32, ObjectKey)> {
            side.slots().map(|(slot, entry)| (slot, entry.key.clone())).collect()
        };
        assert_eq!(keys(&sides[0]), keys(&sides[1]));
        assert_eq!(sides[0].version, sides[1].version);
        assert_eq!(sides[0].resource_version, sides[1].resource_version);
        for side in &sides {
            side.assert_invariants();
            ledger.assert_describes(side);
        }
        let same = |((_, a), (_, b)): ((_, &crate::state::Slot<O>), (_, &crate::state::Slot<O>))| {
            Arc::ptr_eq(&a.object, &b.object)
        };
        assert!(sides[0].slots().zip(sides[1].slots()).all(same), "both sides hold the same objects");
    }
}

fn pod(name: &str, version: u64, words: &str) -> Arc<Pod> {
    let key = ObjectKey::new(&name[..1], name).unwrap();
    Arc::new(Header::new(key).with_version(version).with_labels([("words", words), ("app", &name[1..])]))
}

/// An index function that splits the label `words` at dashes, so that an object can have several values and
/// duplicates.
fn words(pod: &Pod) -> Vec<Cow<'_, str>> {
    pod.labels().get("words").unwrap_or_default().split('-').map(Into::into).collect()
}

fn owned_words(pod: &Pod) -> Vec<String> {
    words(pod).into_iter().map(Cow::into_owned).collect()
}

/// Returns an index function like [`words`] that fails if the label contains `e`, and panics if the label
/// contains `p`.
fn picky() -> impl IndexFn<Pod> {
    fallible(|pod: &Pod| match pod.labels().get("words").unwrap_or_default() {
        text if text.contains('e') => Err("an e".into()),
        text if text.contains('p') => panic!("a p"),
        _ => Ok(words(pod)),
    })
}

fn indexers(name: &'static str) -> Indexers<Pod> {
    match name {
        "words" => Indexers::new().index(name, borrowed(words)),
        "picky" => Indexers::new().index(name, picky()),
        "namespace" => Indexers::new().index(name, namespace()),
        _ => Indexers::new().index(name, label("app")),
    }
}

const INDEXES: [&str; 4] = ["words", "picky", "namespace", "app"];

#[derive(Debug, Clone)]
enum Step {
    Apply(Vec<(String, Option<String>)>),
    Replace(Vec<(String, String)>),
    Bookmark(u64),
    AddIndex(usize),
    Snapshot,
}

/// The regular expression for generated object names. It has only twelve matches, so that the steps of one
/// generated test case often change the same objects.
const NAME: &str = "[ab][a-f]";
const WORDS: &str = "[a-ep]?(-[a-c]){0,2}";

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop::collection::vec((NAME, prop::option::weighted(0.7, WORDS)), 1..8).prop_map(Step::Apply),
        1 => prop::collection::vec((NAME, WORDS), 0..12).prop_map(Step::Replace),
        1 => (1..1000u64).prop_map(Step::Bookmark),
        1 => (0..INDEXES.len()).prop_map(Step::AddIndex),
        1 => Just(Step::Snapshot),
    ]
}

#[derive(Clone, Default)]
struct Model {
    objects: BTreeMap<ObjectKey, Arc<Pod>>,
    indexes: BTreeSet<usize>,
    resource_version: ResourceVersion,
    transactions: u64,
}

impl Model {
    fn by_index(&self, name: &str, value: &str) -> Vec<ObjectKey> {
        let has = |pod: &Pod| match name {
            "words" => words(pod).contains(&value.into()),
            "picky" => {
                let text = pod.labels().get("words").unwrap_or_default();
                !text.contains(['e', 'p']) && words(pod).contains(&value.into())
            }
            "namespace" => pod.key().namespace() == Some(value),
            _ => pod.labels().get("app") == Some(value),
        };
        self.objects.iter().filter(|(_, pod)| has(pod)).map(|(key, _)| key.clone()).collect()
    }

    fn check(&self, snapshot: &Snapshot<Pod>) {
        let listed: BTreeMap<ObjectKey, Arc<Pod>> =
            snapshot.iter().map(|(key, pod)| (key.clone(), pod.clone())).collect();
        assert_eq!(listed, self.objects);
        assert_eq!((snapshot.len(), snapshot.version()), (self.objects.len(), self.transactions));
        assert_eq!(*snapshot.resource_version(), self.resource_version);
        for (index, name) in INDEXES.iter().enumerate() {
            let mut values = BTreeSet::new();
            for value in ["", "a", "b", "c", "d", "e", "f", "p"] {
                let expected = self.by_index(name, value);
                match snapshot.index_keys(name, value) {
                    Ok(keys) => assert_eq!(keys, expected, "{name} {value}"),
                    Err(error) => assert!(!self.indexes.contains(&index), "{error}"),
                }
                if self.indexes.contains(&index) && !expected.is_empty() {
                    values.insert(Arc::from(value));
                }
            }
            assert_eq!(BTreeSet::from_iter(snapshot.index_values(name)), values);
        }
        self.check_selected(snapshot);
    }

    fn check_selected(&self, snapshot: &Snapshot<Pod>) {
        for (namespace, selector) in
            [(Some("a"), "app in (a, b)"), (None, "app=c"), (Some("b"), "app!=a"), (None, "")]
        {
            let selector: LabelSelector = selector.parse().unwrap();
            let expected = self.objects.iter().filter(|(key, pod)| {
                selector.matches(pod.labels()) && namespace.is_none_or(|name| key.namespace() == Some(name))
            });
            let listed: BTreeSet<ObjectKey> =
                snapshot.select(namespace, &selector).iter().map(|pod| pod.key().clone()).collect();
            assert!(listed.iter().eq(expected.map(|(key, _)| key)), "{namespace:?} {selector}");
        }
    }
}

/// The store under test, the naive model of its expected content, and the snapshots taken so far, each with
/// its expected content.
struct World {
    store: ThreadSafeStore<Pod>,
    model: Model,
    kept: Vec<(Snapshot<Pod>, Model)>,
    version: u64,
}

impl World {
    fn step(&mut self, step: Step) {
        self.version += 1;
        match step {
            Step::Apply(edits) => self.apply(edits),
            Step::Replace(items) => {
                let pods = items.iter().map(|(name, words)| pod(name, self.version, words));
                let items: Vec<_> = pods.map(|pod| (pod.key().clone(), pod)).collect();
                self.model.objects = items.iter().cloned().collect();
                self.model.resource_version = self.version.into();
                self.model.transactions += 1;
                self.store.replace(items, self.version);
            }
            Step::Bookmark(version) => {
                self.model.resource_version = version.into();
                self.model.transactions += 1;
                self.store.bookmark(version);
            }
            Step::AddIndex(index) => {
                let added = self.store.add_indexers(indexers(INDEXES[index]));
                assert_eq!(added.is_ok(), self.model.indexes.insert(index));
                self.model.transactions += u64::from(added.is_ok());
            }
            Step::Snapshot => self.kept.push((self.store.snapshot(), self.model.clone())),
        }
        self.store.shared.assert_invariants();
        self.model.check(&self.store.snapshot());
    }

    fn apply(&mut self, edits: Vec<(String, Option<String>)>) {
        let mut expected = Vec::new();
        let mut changes = Vec::new();
        for (name, words) in edits {
            let pod = pod(&name, self.version, words.as_deref().unwrap_or_default());
            if words.is_some() {
                self.model.resource_version = self.version.into();
                expected.push(self.model.objects.insert(pod.key().clone(), pod.clone()));
                changes.push(StoreChange::upsert(pod));
            } else {
                expected.push(self.model.objects.remove(pod.key()));
                changes.push(StoreChange::delete_key(pod.key().clone()));
            }
        }
        self.model.transactions += 1;
        assert_eq!(self.store.transaction(changes), expected);
    }
}

proptest! {
    // The number of generated test cases is small, because each one has up to forty steps, and the whole
    // store is compared with its model after each step.
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_store_equals_its_model_after_every_step(steps in prop::collection::vec(step(), 1..40)) {
        let store = StoreBuilder::new().thread_safe();
        let mut world = World { store, model: Model::default(), kept: Vec::new(), version: 0 };
        steps.into_iter().for_each(|step| world.step(step));
        world.kept.iter().for_each(|(snapshot, model)| model.check(snapshot));
    }
}

#[test]
fn a_store_of_many_pages_and_shards_equals_its_model() {
    let store = StoreBuilder::new().index("shard", label("app")).thread_safe();
    let make = |number: u32, version: u64| {
        let key = ObjectKey::cluster(&format!("pod-{number}")).unwrap();
        Arc::new(Header::new(key).with_version(version).with_labels([("app", (number % 3).to_string())]))
    };
    store.transaction((0..20_000).map(|number| StoreChange::upsert(make(number, 1))));
    let before = store.snapshot();
    store.transaction(
        (0..20_000).filter(|number| number % 7 == 0).map(|number| StoreChange::delete(make(number, 2))),
    );
    store.transaction((20_000..21_000).map(|number| StoreChange::upsert(make(number, 3))));
    store.shared.assert_invariants();
    let expected = |number: &u32| !number.is_multiple_of(7) || *number >= 20_000;
    for value in 0..3 {
        let keys: BTreeSet<_> = store.index_keys("shard", &value.to_string()).unwrap().into_iter().collect();
        let expected = (0..21_000).filter(expected).filter(|number| number % 3 == value);
        assert!(keys.iter().eq(expected.map(|n| make(n, 0).key().clone()).collect::<BTreeSet<_>>().iter()));
    }
    assert_eq!((before.len(), before.by_index("shard", "1").unwrap().len()), (20_000, 6_667));
    assert_eq!(store.list().len(), store.len());
}

#[test]
fn readers_see_the_old_version_until_the_new_one_is_whole_and_wait_for_neither_side() {
    let store = StoreBuilder::new().thread_safe();
    store.add(pod("aa", 1, "").key().clone(), pod("aa", 1, ""));
    let shared = &store.shared;
    let mut seen = Vec::new();
    let mut look = |at| seen.push((at, shared.read(|state| state.version), shared.get("a/aa").is_some()));
    let look = std::cell::RefCell::new(&mut look);
    // Each closure reads the store while the same thread holds the write lock of one of the two copies of the
    // state. A read that waited for that lock would deadlock.
    shared.publish(
        &mut shared.ledger.lock(),
        |_, _| look.borrow_mut()("first side being written"),
        |_, _| look.borrow_mut()("second side being written"),
    );
    assert_eq!(seen, [("first side being written", 1, true), ("second side being written", 2, true)]);
}

#[test]
fn transactions_during_the_filling_of_an_index_are_in_it() {
    let store = StoreBuilder::new().thread_safe();
    for name in ["aa", "ab", "ac"] {
        store.add(pod(name, 1, "old").key().clone(), pod(name, 1, "old"));
    }
    let (writes, inner) = (Arc::new(AtomicUsize::new(0)), store.clone());
    // This index function runs under no lock, so it may write to the store. Its writes happen after the
    // snapshot for the new index was taken and before the index is complete.
    let meddling = move |pod: &Pod| {
        if writes.fetch_add(1, Ordering::Relaxed) == 0 {
            inner.add(pod_key("ab"), super::tests::pod("ab", 2, "new"));
            inner.add(pod_key("ad"), super::tests::pod("ad", 3, "new"));
            inner.delete(&pod_key("ac"));
        }
        owned_words(pod)
    };
    store.add_index("words", meddling).unwrap();
    store.shared.assert_invariants();
    let keys = |value| store.index_keys("words", value).unwrap();
    assert_eq!((keys("old"), keys("new")), (vec![pod_key("aa")], vec![pod_key("ab"), pod_key("ad")]));
}

#[test]
fn a_replacement_during_the_filling_of_an_index_is_what_it_holds() {
    let store = StoreBuilder::new().thread_safe();
    for name in ["aa", "ab", "ac"] {
        store.add(pod_key(name), pod(name, 1, "old"));
    }
    let (calls, inner) = (AtomicUsize::new(0), store.clone());
    let meddling = move |pod: &Pod| {
        if calls.fetch_add(1, Ordering::Relaxed) == 0 {
            inner.replace(vec![(pod_key("bz"), super::tests::pod("bz", 9, "new"))], 9);
        }
        owned_words(pod)
    };
    store.add_index("words", meddling).unwrap();
    store.shared.assert_invariants();
    assert_eq!(store.index_values("words"), ["new".into()]);
    assert_eq!(store.index_keys("words", "new").unwrap(), [pod_key("bz")]);
}

#[test]
fn a_transaction_that_meets_a_new_index_is_computed_again() {
    let store = StoreBuilder::new().thread_safe();
    let (calls, inner) = (AtomicUsize::new(0), store.clone());
    let meddling = move |pod: &Pod| {
        if calls.fetch_add(1, Ordering::Relaxed) == 0 {
            inner.add_indexers(indexers("app")).unwrap();
        }
        owned_words(pod)
    };
    store.add_index("words", meddling).unwrap();
    store.add(pod_key("aa"), pod("aa", 1, "old"));
    store.shared.assert_invariants();
    assert_eq!(store.index_keys("app", "a").unwrap(), [pod_key("aa")]);
    assert_eq!(store.index_keys("words", "old").unwrap(), [pod_key("aa")]);
}

/// An object that records whether the store was locked when the object was dropped.
struct Watched {
    header: Header,
    store: Weak<Shared<Watched>>,
    drops: Arc<Mutex<Vec<bool>>>,
}

impl Object for Watched {
    fn header(&self) -> &Header {
        &self.header
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let Some(store) = self.store.upgrade() else { return };
        let free =
            store.ledger.try_lock().is_some() && store.sides.iter().all(|side| side.try_write().is_some());
        self.drops.lock().push(free);
    }
}

#[test]
fn displaced_objects_are_dropped_under_no_lock() {
    let mut writer = StoreBuilder::<Watched>::new().index("namespace", namespace()).writer();
    let drops = Arc::default();
    let make = |name: &str| {
        let (header, store) = (Header::new(pod_key(name)).with_version("1"), Arc::downgrade(&writer.shared));
        Arc::new(Watched { header, store, drops: Arc::clone(&drops) })
    };
    let objects: Vec<_> = ["aa", "aa", "ab", "ac", "ab", "ad", "ad", "ae"].map(make).into();
    let mut objects = objects.into_iter();
    let mut next = || objects.next().unwrap();
    writer
        .apply([StoreChange::upsert(next()), StoreChange::upsert(next()), StoreChange::upsert(next())])
        .unwrap();
    writer.apply([StoreChange::upsert(next()), StoreChange::delete(next())]).unwrap();
    let keyed = |object: Arc<Watched>| (object.key().clone(), object);
    let items = vec![keyed(next()), keyed(next()), keyed(next())];
    writer.replace(items, "2");
    writer.replace(Vec::new(), "3");
    assert_eq!(*drops.lock(), [true; 8], "all were dropped, none while the lock was held");
}

#[test]
fn an_index_function_that_changes_its_mind_leaves_nothing_stale() {
    let calls = AtomicUsize::new(0);
    let fickle = move |_: &Pod| Some(calls.fetch_add(1, Ordering::Relaxed).to_string());
    let store = StoreBuilder::new().index("fickle", fickle).thread_safe();
    for version in 0..3 {
        store.add(pod_key("aa"), pod("aa", version, ""));
        store.shared.assert_invariants();
        assert_eq!(store.index_values("fickle"), [version.to_string().into()]);
    }
    store.delete(&pod_key("aa"));
    assert!(store.index_values("fickle").is_empty());
    store.shared.assert_invariants();
}

#[test]
fn large_reads_see_one_version() {
    let store: ThreadSafeStore<Pod> = StoreBuilder::new().index("all", |_: &Pod| ["x"]).thread_safe();
    let count = MAX_DIRECT_READ + 10;
    let items = (0..count).map(|number| ObjectKey::cluster(&number.to_string()).unwrap());
    store.replace(items.map(|key| (key.clone(), Header::new(key).into())).collect(), "1");
    let indexer: &Indexer<Pod> = &store;
    assert_eq!(indexer.list().len(), count);
    assert_eq!(indexer.keys().len(), count);
    assert_eq!(indexer.by_index("all", "x").unwrap().len(), count);
    assert_eq!(indexer.index_keys("all", "x").unwrap().len(), count);
    assert_eq!(indexer.index("all", &Header::new(pod_key("aa"))).unwrap().len(), count);
    assert_eq!(indexer.lister().list(&"!app".parse().unwrap()).len(), count);
    store.shared.assert_invariants();
}

fn pod_key(name: &str) -> ObjectKey {
    ObjectKey::new(&name[..1], name).unwrap()
}
