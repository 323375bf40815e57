use std::collections::BTreeSet;

use informer_core::{FieldPath, Header, Object, OwnerReference};
use informer_store::{
    ByField, IndexError, Indexers, StoreBuilder, StoreChange, ThreadSafeStore, borrowed, fallible, field,
    key_by, label, namespace, owner_uid,
};

use crate::{Pod, bare, key, names, valued, values};

fn indexed() -> ThreadSafeStore<Pod> {
    StoreBuilder::new().resource("pods").index("values", values).thread_safe()
}

fn set(store: &ThreadSafeStore<Pod>, name: &str, values: &str) {
    store.update(key(name), valued(name, values));
}

fn keys(store: &ThreadSafeStore<Pod>, value: &str) -> Vec<String> {
    store.index_keys("values", value).unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn two_objects_share_a_value() {
    let store = indexed();
    let (one, two, tre) = (valued("a", "a"), valued("b", "b"), valued("c", "b"));
    for pod in [&one, &two, &tre] {
        store.add(pod.key().clone(), pod.clone());
    }
    assert_eq!(names(store.index("values", &one).unwrap()), ["a"]);
    assert_eq!(names(store.index("values", &tre).unwrap()), ["b", "c"]);
}

#[test]
fn the_values_of_an_index_are_those_that_objects_have() {
    let store = indexed();
    for (name, values) in [("one", "bar"), ("two", "bar"), ("tre", "biz")] {
        set(&store, name, values);
    }
    let values: BTreeSet<_> = store.index_values("values").into_iter().collect();
    assert_eq!(values, BTreeSet::from(["bar".into(), "biz".into()]));
    assert!(store.index_values("no such index").is_empty());
}

#[test]
fn an_object_is_found_under_each_of_its_values_until_it_changes_or_goes() {
    let store = indexed();
    for (name, users) in [("one", "ernie.bert"), ("two", "bert.oscar"), ("tre", "ernie.elmo")] {
        set(&store, name, users);
    }
    for (user, pods) in [
        ("ernie", &["one", "tre"][..]),
        ("bert", &["one", "two"]),
        ("elmo", &["tre"]),
        ("oscar", &["two"]),
        ("elmo1", &[]),
    ] {
        assert_eq!(names(store.by_index("values", user).unwrap()), pods, "{user}");
    }
    store.delete(&key("tre"));
    assert_eq!((keys(&store, "ernie"), keys(&store, "elmo")), (vec!["one".to_owned()], vec![]));
    set(&store, "two", "bert.elmo");
    assert_eq!((keys(&store, "oscar").len(), keys(&store, "elmo")), (0, vec!["two".to_owned()]));
    assert_eq!(keys(&store, "bert"), ["one", "two"], "index keys are sorted");
}

#[test]
fn index_value_without_objects_is_removed() {
    let store = indexed();
    set(&store, "one", "only");
    assert_eq!(store.index_values("values").len(), 1);
    store.delete(&key("one"));
    assert!(store.index_values("values").is_empty());
    set(&store, "one", "first");
    set(&store, "one", "second");
    assert_eq!(store.index_values("values"), ["second".into()]);
}

#[test]
fn a_value_with_objects_left_stays() {
    let store = indexed();
    set(&store, "one", "shared");
    set(&store, "two", "shared");
    store.delete(&key("one"));
    assert_eq!(keys(&store, "shared"), ["two"]);
    assert_eq!(store.index_values("values").len(), 1);
}

#[test]
fn memberships_follow_nine_changes_of_multi_valued_objects() {
    let store = indexed();
    let expect = |foo: &[&str], bar: &[&str], baz: &[&str]| {
        assert_eq!([keys(&store, "foo"), keys(&store, "bar"), keys(&store, "baz")], [foo, bar, baz]);
    };
    set(&store, "key1", "foo");
    expect(&["key1"], &[], &[]);
    set(&store, "key2", "bar");
    expect(&["key1"], &["key2"], &[]);
    set(&store, "key2", "foo.bar");
    expect(&["key1", "key2"], &["key2"], &[]);
    set(&store, "key2", "bar");
    expect(&["key1"], &["key2"], &[]);
    set(&store, "key3", "foo.bar.baz");
    expect(&["key1", "key3"], &["key2", "key3"], &["key3"]);
    set(&store, "key3", "foo.bar.baz");
    expect(&["key1", "key3"], &["key2", "key3"], &["key3"]);
    store.delete(&key("key1"));
    expect(&["key3"], &["key2", "key3"], &["key3"]);
    store.delete(&key("key3"));
    expect(&[], &["key2"], &[]);
    store.delete(&key("key3"));
    expect(&[], &["key2"], &[]);
}

#[test]
fn values_given_twice_count_once_and_an_object_of_two_matching_values_is_listed_once() {
    let store = indexed();
    set(&store, "one", "a.b.a");
    set(&store, "two", "b");
    assert_eq!(keys(&store, "a"), ["one"]);
    assert_eq!(names(store.index("values", &valued("other", "b.a.c")).unwrap()), ["one", "two"]);
    assert!(store.index("values", &bare("other")).unwrap().is_empty());
}

#[test]
fn an_index_that_does_not_exist_is_an_error_that_names_those_that_do() {
    let store = indexed();
    let expected = "look up pods: index \"node\" does not exist; the store has [\"values\"]";
    assert_eq!(store.by_index("node", "x").unwrap_err().to_string(), expected);
    assert_eq!(store.index_keys("node", "x").unwrap_err().to_string(), expected);
    assert_eq!(store.index("node", &bare("a")).unwrap_err().to_string(), expected);
    let snapshot = store.snapshot();
    assert_eq!(snapshot.by_index("node", "x").unwrap_err().to_string(), expected);
    assert_eq!(snapshot.index_keys("node", "x").unwrap_err().to_string(), expected);
    assert!(snapshot.index_values("node").is_empty());
}

#[test]
fn indexes_added_to_a_full_store_find_what_is_there_and_what_comes() {
    let mut writer = StoreBuilder::new().index("values", values).writer();
    writer
        .apply([StoreChange::upsert(valued("ns/a", "x")), StoreChange::upsert(valued("b", "x.y"))])
        .unwrap();
    let readers = writer.indexer().clone();
    let (before, copy) = (readers.snapshot(), readers.indexers());
    readers
        .add_indexers(Indexers::new().index("namespace", namespace()).index("label", label("values")))
        .unwrap();
    assert_eq!(names(readers.by_index("namespace", "ns").unwrap()), ["ns/a"]);
    writer.apply([StoreChange::upsert(valued("ns/c", "x.y"))]).unwrap();
    assert_eq!(names(readers.by_index("namespace", "ns").unwrap()), ["ns/a", "ns/c"]);
    assert_eq!(names(readers.by_index("label", "x.y").unwrap()), ["b", "ns/c"]);
    assert_eq!(readers.indexers().names().collect::<Vec<_>>(), ["label", "namespace", "values"]);
    assert_eq!(copy.names().collect::<Vec<_>>(), ["values"], "a copy is not updated");
    assert!(before.by_index("namespace", "ns").is_err(), "a snapshot has the indexes of its version");
}

#[test]
fn no_index_is_added_if_one_name_is_taken() {
    let store = indexed();
    let error = store
        .add_indexers(Indexers::new().index("namespace", namespace()).index("values", label("x")))
        .unwrap_err();
    assert_eq!(error.to_string(), "add indexes: [\"values\"] already exist; choose other names");
    assert_eq!(error.names().collect::<Vec<_>>(), ["values"]);
    assert_eq!(store.indexers().names().collect::<Vec<_>>(), ["values"]);
    set(&store, "one", "a");
    assert_eq!(keys(&store, "a"), ["one"], "the existing index is unchanged");
}

#[test]
fn a_claim_holds_its_names_until_it_is_installed_or_dropped() {
    let store = StoreBuilder::new().resource("pods").build();
    store.add(valued("a", "x")).unwrap();
    let indexer = store.indexer();
    let claim = indexer.claim_indexers(Indexers::new().index("values", values)).unwrap();
    assert!(indexer.by_index("values", "x").is_err(), "the index does not exist yet");
    let both = Indexers::new().index("values", values).index("namespace", namespace());
    let error = indexer.add_indexers(both.clone()).unwrap_err();
    assert_eq!(error.names().collect::<Vec<_>>(), ["values"]);
    assert_eq!(indexer.claim_indexers(both).unwrap_err(), error);
    assert_eq!(indexer.indexers().names().count(), 0, "no index is added");
    drop(claim);
    let claim = indexer.claim_indexers(Indexers::new().index("values", values)).unwrap();
    store.add(valued("b", "x")).unwrap();
    claim.install();
    assert_eq!(names(indexer.by_index("values", "x").unwrap()), ["a", "b"]);
    assert!(indexer.add_index("values", values).is_err(), "the index exists now");
}

/// An index function that returns the label `values` of a pod. It fails if that label is `error`, and panics
/// if the label is `panic`.
fn picky(pod: &Pod) -> Result<Vec<std::borrow::Cow<'_, str>>, informer_store::IndexFnError> {
    match pod.labels().get("values") {
        Some("error") => Err("not today".into()),
        Some("panic") => panic!("contained"),
        value => Ok(value.map(Into::into).into_iter().collect()),
    }
}

#[test]
fn an_index_function_that_fails_or_panics_costs_the_object_its_place_in_that_index_only() {
    let store = StoreBuilder::new().index("picky", fallible(picky)).index("values", values).thread_safe();
    store.add(key("a"), valued("a", "fine"));
    for (count, value) in [(1, "error"), (2, "panic")] {
        store.add(key("a"), valued("a", value));
        assert_eq!(names(store.list()), ["a"], "it is stored");
        assert!(store.index_values("picky").is_empty(), "neither its old nor its new value");
        assert_eq!(keys(&store, value), ["a"], "the other index has it");
        let failures = store.index_failures();
        assert_eq!((failures.len(), &*failures[0].index, failures[0].count), (1, "picky", count));
        assert_eq!(failures[0].key, "a");
        let error = store.index("picky", &valued("q", value)).unwrap_err();
        assert!(matches!(error, IndexError::Failed { .. }), "{error}");
        assert_eq!(error.to_string(), "look up object \"q\" in index \"picky\": the index function failed");
    }
    assert_eq!(&*store.index_failures()[0].cause, "the index function panicked");
    store.add(key("a"), valued("a", "fine"));
    assert_eq!(names(store.by_index("picky", "fine").unwrap()), ["a"], "the next write fixes the index");
}

#[test]
fn an_index_function_that_fails_while_an_index_is_added_leaves_out_those_objects_alone() {
    let store = indexed();
    ["fine", "error", "panic"].iter().for_each(|value| set(&store, value, value));
    store.add_index("picky", fallible(picky)).unwrap();
    assert_eq!(store.index_values("picky"), ["fine".into()]);
    assert_eq!(store.index_failures()[0].count, 2);
    store.replace(vec![(key("e"), valued("e", "error")), (key("f"), valued("f", "fine"))], "1");
    assert_eq!(names(store.by_index("picky", "fine").unwrap()), ["f"]);
}

#[test]
fn provided_index_functions_read_the_header() {
    let owner = OwnerReference::new("apps/v1", "ReplicaSet", "web", "u-1", true);
    let pod = Header::new(key("ns/web")).with_uid("p-1").with_labels([("app", "web")]).with_owners([owner]);
    let path: FieldPath = "metadata.uid".parse().unwrap();
    let store = StoreBuilder::new()
        .index("namespace", namespace())
        .index("name", field("metadata.name"))
        .index("uid", ByField::from(path))
        .index("node", field("spec.nodeName"))
        .index("app", label("app"))
        .index("owner", owner_uid())
        .index("borrowed", borrowed(|pod: &Pod| vec![pod.uid().into()]))
        .index("static", |_: &Pod| ["one"])
        .thread_safe();
    store.add(key("ns/web"), pod.into());
    store.add(key("cluster"), bare("cluster"));
    for (index, value) in [
        ("namespace", "ns"),
        ("name", "web"),
        ("uid", "p-1"),
        ("app", "web"),
        ("owner", "u-1"),
        ("borrowed", "p-1"),
    ] {
        assert_eq!(names(store.by_index(index, value).unwrap()), ["ns/web"], "{index}");
    }
    assert!(store.index_values("node").is_empty(), "a header has no such field");
    assert_eq!(store.by_index("static", "one").unwrap().len(), 2);
    assert_eq!(store.index_values("namespace").len(), 1, "cluster-scoped objects have no namespace");
}

#[test]
#[should_panic(expected = "field path \"spec.\"")]
fn a_field_index_of_no_field_path_is_a_programming_error() {
    let _ = field("spec.");
}

#[test]
fn an_index_function_makes_keys_of_objects_with_exactly_one_value() {
    let store = StoreBuilder::new().key(key_by(values)).build();
    store.add(valued("a", "only")).unwrap();
    assert!(store.contains("only"));
    for (values, text) in
        [("", "it has 0 values, and a key needs one"), ("x.y", "it has 2 values, and a key needs one")]
    {
        let error = store.add(valued("a", values)).unwrap_err();
        assert_eq!(
            (error.object(), std::error::Error::source(&error).unwrap().to_string()),
            ("a", text.to_owned())
        );
    }
    let failing = StoreBuilder::new().key(key_by(fallible(picky))).build();
    assert!(failing.add(valued("a", "error")).is_err() && failing.is_empty());
}
