use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use informer_core::{Header, KeyError, Object, ObjectKey};
use informer_store::{Store, StoreBuilder, StoreChange, store};

use crate::{Pod, bare, key, names, valued, values, versioned};

fn keeps_the_contract(store: &Store<Pod>) {
    assert!(store.add(valued("default/a", "1")).unwrap().is_none());
    let current = store.get("default/a").unwrap();
    assert_eq!(values(&current), ["1"]);
    let before = store.update(valued("default/a", "2")).unwrap().unwrap();
    assert!(Arc::ptr_eq(&before, &current));
    assert_eq!(values(&store.get("default/a").unwrap()), ["2"]);
    store.delete(bare("default/a")).unwrap();
    assert!(store.get("default/a").is_none() && store.is_empty());
    assert!(store.delete(bare("default/a")).unwrap().is_none(), "a missing key is no error");

    for name in ["default/a", "default/b", "c"] {
        store.add(bare(name)).unwrap();
    }
    assert_eq!(names(store.list()), ["c", "default/a", "default/b"]);
    assert_eq!((store.keys().len(), store.len()), (3, 3));
    assert!(store.get_same(&bare("c")).unwrap().is_some());

    store.replace([bare("default/b"), bare("d"), bare("d")], "0").unwrap();
    assert_eq!(names(store.list()), ["d", "default/b"], "exactly the new set");
    assert!(!store.contains("c") && store.contains("d"));
    store.resync();
    assert_eq!(store.len(), 2);
}

#[test]
fn a_store_keeps_the_contract() {
    keeps_the_contract(&StoreBuilder::new().build());
}

#[test]
fn a_store_with_a_transform_keeps_the_contract_and_transforms_what_comes_in() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let store = StoreBuilder::new().transform(move |pod: Arc<Pod>| {
        counter.fetch_add(1, Ordering::Relaxed);
        pod
    });
    keeps_the_contract(&store.build());
    assert_eq!(calls.load(Ordering::Relaxed), 8, "additions, updates and replacements, not deletions");
}

#[test]
fn a_transform_decides_what_is_stored_and_under_which_key() {
    let store = StoreBuilder::new()
        .transform(|pod: Arc<Pod>| Header::new(key(&format!("{}-x", pod.key()))).into())
        .build();
    store.add(bare("default/a")).unwrap();
    store.transaction([StoreChange::upsert(bare("default/b"))]).unwrap();
    assert_eq!(names(store.list()), ["default/a-x", "default/b-x"]);
    store.replace([bare("default/c")], "").unwrap();
    assert_eq!(names(store.list()), ["default/c-x"]);
}

/// Returns a builder for stores that key objects by the label `values`; objects without the label have no
/// key.
fn keyed_by_label() -> StoreBuilder<Pod> {
    StoreBuilder::new().key(|pod: &Pod| match pod.labels().get("values") {
        Some(text) => Ok(ObjectKey::explicit(text)),
        None => Err(KeyError::new(format!("pod {}", pod.key()), "it has no label \"values\"")),
    })
}

#[test]
fn a_key_function_decides_the_keys() {
    let store = keyed_by_label().build();
    store.add(valued("default/a", "one")).unwrap();
    store.add(valued("default/b", "one")).unwrap();
    assert_eq!(names([store.get("one").unwrap()]), ["default/b"]);
    let writer = keyed_by_label().writer();
    assert_eq!(writer.key(&valued("default/a", "two")).unwrap(), "two");
}

#[test]
fn a_key_error_names_the_object_and_unwraps_to_its_cause_through_nesting() {
    let store = keyed_by_label().build();
    store.add(valued("default/a", "one")).unwrap();
    for error in [
        store.add(bare("default/b")).unwrap_err(),
        store.delete(bare("default/b")).unwrap_err(),
        store.get_same(&bare("default/b")).unwrap_err(),
        store.replace([valued("default/c", "two"), bare("default/b")], "1").unwrap_err(),
    ] {
        assert_eq!(
            (error.object(), error.to_string().as_str()),
            ("pod default/b", "no key for pod default/b")
        );
        let outer = KeyError::new("the whole list", error);
        let causes: Vec<String> =
            std::iter::successors(outer.source(), |error: &&dyn Error| (*error).source())
                .map(ToString::to_string)
                .collect();
        assert_eq!(causes, ["no key for pod default/b", "it has no label \"values\""]);
    }
    assert_eq!(store.len(), 1, "nothing was applied");
}

#[test]
fn a_transaction_applies_what_has_a_key_and_says_what_had_none() {
    let good = |name| StoreChange::upsert(valued(name, name));
    let bad = || StoreChange::upsert(bare("default/bad"));
    let cases = [
        (vec![good("a"), good("b")], None, 2),
        (vec![bad(), bad()], Some(vec![]), 0),
        (vec![good("a"), bad(), good("b")], Some(vec![0, 2]), 2),
    ];
    for (changes, successful, stored) in cases {
        let (store, total) = (keyed_by_label().build(), changes.len());
        let mut writer = keyed_by_label().writer();
        let outcomes = [store.transaction(changes.clone()), writer.apply(changes)];
        assert_eq!((store.len(), writer.len()), (stored, stored));
        for outcome in outcomes {
            match (&successful, outcome) {
                (None, Ok(previous)) => assert!(previous.iter().all(Option::is_none)),
                (Some(successful), Err(error)) => {
                    assert_eq!((error.successful(), error.total()), (&**successful, total));
                    assert_eq!(error.errors().len(), total - successful.len());
                    assert_eq!(error.errors()[0].1.object(), "pod default/bad");
                    let missing = total - successful.len();
                    let text = format!("{missing} of {total} changes were not applied");
                    assert!(error.to_string().starts_with(&text), "{error}");
                }
                (expected, outcome) => panic!("expected {expected:?}, got {outcome:?}"),
            }
        }
    }
}

#[test]
fn a_transaction_returns_what_each_key_held_before_and_is_one_version() {
    let mut writer = store::<Pod>();
    let readers = writer.indexer().clone();
    let pods = [versioned("a", "1"), versioned("a", "2"), versioned("b", "3")];
    let changes = pods.clone().map(StoreChange::upsert);
    let previous = writer.apply(changes.into_iter().chain([StoreChange::delete_key(key("b"))])).unwrap();
    let held = |at: usize| previous[at].as_ref().map(|pod| pod.resource_version().to_string());
    assert_eq!([held(0), held(1), held(2), held(3)], [None, Some("1".into()), None, Some("3".into())]);
    assert_eq!((readers.version(), names(readers.list())), (1, vec!["a".to_owned()]));
    assert!(Arc::ptr_eq(&readers.get("a").unwrap(), &pods[1]), "objects are shared, never copied");
    writer.apply([]).unwrap();
    assert_eq!(readers.version(), 1, "an empty transaction has no effect");
}

#[test]
fn a_snapshot_returns_the_objects_of_its_version_by_key() {
    let mut writer = store::<Pod>();
    let (first, second) = (versioned("ns/a", "1"), versioned("ns/a", "2"));
    writer.apply([StoreChange::upsert(Arc::clone(&first))]).unwrap();
    let before = writer.snapshot();
    writer.apply([StoreChange::upsert(Arc::clone(&second)), StoreChange::upsert(bare("ns/b"))]).unwrap();
    let after = writer.snapshot();
    assert!(
        Arc::ptr_eq(before.get("ns/a").unwrap(), &first) && Arc::ptr_eq(after.get("ns/a").unwrap(), &second)
    );
    assert_eq!((before.contains("ns/a"), before.contains("ns/b"), before.get("ns/b")), (true, false, None));
    assert_eq!((after.contains(&key("ns/b")), after.len(), before.len()), (true, 2, 1));
}

#[test]
fn the_debug_form_of_a_store_and_its_parts_shows_no_object() {
    let pod = Header::new(key("default/a")).with_labels([("secret", "hunter2")]);
    let mut writer = StoreBuilder::new().resource("pods").index("x", values).writer();
    let change = StoreChange::upsert(Arc::new(pod.with_version("7")));
    assert_eq!(format!("{change:?}"), "Upsert { key: Some(default/a), version: Some(7) }");
    writer.apply([change]).unwrap();
    for text in [format!("{writer:?}"), format!("{:?}", writer.snapshot()), format!("{:?}", writer.lister())]
    {
        assert!(!text.contains("hunter2") && text.contains("pods"), "{text}");
    }
}

#[test]
fn the_store_outlives_its_writer_for_its_readers() {
    let mut writer = store::<Pod>();
    writer.apply([StoreChange::upsert(bare("a"))]).unwrap();
    let readers = writer.indexer().clone();
    drop(writer);
    assert!(readers.contains("a"));
}

#[test]
fn changes_and_the_version_of_their_source_are_one_transaction() {
    let mut store = store::<Pod>();
    store.apply([StoreChange::upsert(versioned("a/x", "3"))]).unwrap();
    let before = store.version();
    let previous = store
        .apply_at([StoreChange::upsert(versioned("a/x", "4")), StoreChange::upsert(bare("a/y"))], "9")
        .unwrap();
    assert_eq!((store.version(), store.resource_version()), (before + 1, "9".into()));
    assert!(previous[0].is_some() && previous[1].is_none());
    store.apply_at([], "10").unwrap();
    assert_eq!(store.resource_version(), "10", "a version without a change is a bookmark");
}
