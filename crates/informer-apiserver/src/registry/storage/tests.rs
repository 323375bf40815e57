//! Compares the storage with a reference model that keeps every state.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use informer_core::ObjectKey;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Event, Expect, History, OrderedMap, Storage, draft};
use crate::model::kinds::{KindDefinition, built_in};
use crate::registry::select::Filter;

#[derive(Debug, Clone)]
enum Step {
    Put { key: usize, app: usize },
    Delete { key: usize },
    Page,
    Compact { back: u64 },
}

/// Returns the kind ConfigMap. The built-in schema is parsed only once for all test cases.
fn config_maps() -> KindDefinition {
    static KIND: LazyLock<KindDefinition> = LazyLock::new(|| {
        let schema = informer_schema::Schema::builtin();
        built_in(&schema).find(|kind| kind.kind == "ConfigMap").expect("ConfigMap is a built-in kind")
    });
    KIND.clone()
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..KEYS.len(), 0..3_usize).prop_map(|(key, app)| Step::Put { key, app }),
        3 => (0..KEYS.len()).prop_map(|key| Step::Delete { key }),
        1 => Just(Step::Page),
        1 => (0..20_u64).prop_map(|back| Step::Compact { back }),
    ];
    proptest::collection::vec(step, 1..80)
}

const KEYS: [(&str, &str); 7] =
    [("a", "x"), ("a", "y"), ("a-b", "x"), ("a.b", "x"), ("b", "x"), ("b", "x-1"), ("b", "x.1")];
const APPS: [&str; 3] = ["web", "db", "queue"];
const SELECTORS: [&str; 4] = ["", "app=web", "app!=web", "app in (web,db)"];

type State = BTreeMap<String, (u64, &'static str)>;

fn put(storage: &mut Storage, key: usize, app: usize) {
    let kind = config_maps();
    let (namespace, name) = KEYS[key];
    let object = json!({"metadata": {"name": name, "namespace": namespace, "labels": {"app": APPS[app]}}});
    let Value::Object(object) = object else { unreachable!("it is an object") };
    let key = ObjectKey::new(namespace, name).expect("the keys are valid");
    let seen = storage.get(0, key.as_str()).map_or(Expect::Absent, |stored| Expect::At(stored.version));
    storage.put(0, draft(&kind, key, &object), seen).expect("there are no concurrent writes");
}

fn shown(map: &OrderedMap, filter: &Filter) -> Vec<(String, u64)> {
    map.iter().filter(|s| filter.matches(s)).map(|s| (s.key.to_string(), s.version)).collect()
}

fn expected(state: &State, matches: impl Fn(&str) -> bool) -> Vec<(String, u64)> {
    state
        .iter()
        .filter(|(_, (_, app))| matches(app))
        .map(|(key, (version, _))| (key.clone(), *version))
        .collect()
}

/// Applies an event to the state of a watcher that uses this filter.
fn follow(state: &mut BTreeMap<String, u64>, event: &Event, filter: &Filter) {
    let matches =
        |stored: &Option<std::sync::Arc<super::Stored>>| stored.as_ref().is_some_and(|s| filter.matches(s));
    let before = matches(&event.previous);
    let had = if matches(&event.next) {
        state.insert(event.key().to_owned(), event.version)
    } else {
        state.remove(event.key())
    };
    assert_eq!(had.is_some(), before, "ADDED, MODIFIED and DELETED match the state of the watcher");
}

proptest! {
    #[test]
        fn list_plus_events_equals_every_later_list(steps in steps(), events in 4..40_usize) {
        let mut storage = Storage::new(1, History { events, bytes: 1 << 30 });
        storage.add_table();
        let mut states: BTreeMap<u64, State> = BTreeMap::from([(1, State::new())]);
        for step in steps {
            let mut state = states.values().next_back().cloned().unwrap_or_default();
            match step {
                Step::Put { key, app } => {
                    put(&mut storage, key, app);
                    let (namespace, name) = KEYS[key];
                    state.insert(format!("{namespace}/{name}"), (storage.version(), APPS[app]));
                }
                Step::Delete { key } => {
                    let key = format!("{}/{}", KEYS[key].0, KEYS[key].1);
                    let Some((version, _)) = state.remove(&key) else { continue };
                    prop_assert!(storage.remove(0, &key, version).is_ok());
                }
                Step::Page => {
                    let (version, map) = (storage.version(), storage.live(0));
                    storage.keep_page(0, version, map);
                }
                Step::Compact { back } => {
                    let version = storage.version().saturating_sub(back);
                    storage.compact(version);
                }
            }
            states.insert(storage.version(), state);
        }
        let floor = storage.floor(0);
        for selector in SELECTORS {
            let kind = config_maps();
            let filter = Filter::parse(&kind, None, selector, "").expect("the selectors are valid");
            let parsed: informer_core::LabelSelector = selector.parse().expect("the selectors are valid");
            let selects = |app: &str| parsed.matches(&[("app", app)].into_iter().collect());
            for (&version, state) in &states {
                let Ok(map) = storage.at(0, version) else {
                    prop_assert!(version < floor);
                    continue;
                };
                prop_assert!(version >= floor);
                prop_assert_eq!(shown(&map, &filter), expected(state, selects));
                let mut followed: BTreeMap<String, u64> = shown(&map, &filter).into_iter().collect();
                let pulled = storage.pull(0, version, 0, usize::MAX).expect("the version is within the history");
                for event in &pulled.events {
                    follow(&mut followed, event, &filter);
                }
                let newest = shown(&storage.live(0), &filter);
                prop_assert_eq!(followed.into_iter().collect::<Vec<_>>(), newest);
            }
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
        fn ordered_map_matches_btree_map_and_snapshots_are_immutable(keys in proptest::collection::vec(0..1_500_u32, 1..1_500)) {
        let mut storage = Storage::new(1, History::default());
        storage.add_table();
        let kind = config_maps();
        let mut model = BTreeMap::new();
        let mut snapshots = Vec::new();
        for (index, key) in keys.into_iter().enumerate() {
            let key = ObjectKey::new("n", &format!("k{key:04}")).expect("the keys are valid");
            match model.remove(&key) {
                Some(version) => prop_assert!(storage.remove(0, key.as_str(), version).is_ok()),
                None => {
                    let stored = storage.put(0, draft(&kind, key.clone(), &serde_json::Map::new()), Expect::Absent);
                    model.insert(key, stored.expect("it is absent").version);
                }
            }
            if index % 300 == 0 {
                snapshots.push((storage.live(0), model.clone()));
            }
        }
        snapshots.push((storage.live(0), model));
        for (map, model) in snapshots {
            let found: Vec<_> = map.iter().map(|stored| (stored.key.clone(), stored.version)).collect();
            let wanted: Vec<_> = model.into_iter().collect();
            if let Some((middle, _)) = wanted.get(wanted.len() / 2) {
                let after = wanted.len() - wanted.len() / 2 - 1;
                prop_assert_eq!(map.count_between(middle.as_str(), "n/"), after);
                prop_assert_eq!(map.from(middle.as_str()).count(), after + 1);
            }
            prop_assert_eq!(found, wanted);
        }
    }
}
