use std::sync::Arc;

use informer_cache::Event;
use informer_client::Lazy;
use informer_core::{Header, Object, ObjectKey};
use k8s_openapi::api::core::v1::ConfigMap;

use super::*;
use crate::Trigger;

fn header(key: &str) -> Header {
    Header::new(key.parse::<ObjectKey>().unwrap()).with_version("1").with_generation(Some(1))
}

fn added<O>(object: O) -> Trigger<O> {
    Event::Added { object: Arc::new(object), initial: false }.into()
}

fn updated<O>(old: O, new: O) -> Trigger<O> {
    Event::Updated { old: Arc::new(old), new: Arc::new(new), resync: false }.into()
}

fn deleted<O>(last: O) -> Trigger<O> {
    Event::Deleted { last: Arc::new(last), stale: false }.into()
}

fn others() -> [Trigger<Header>; 3] {
    [added(header("a/b")), deleted(header("a/b")), Trigger::Generic(Arc::new(header("a/b")))]
}

/// Asserts that a predicate accepts an update to the object with the header `changed`, rejects an update
/// without changes, and accepts all triggers that are not updates.
fn check(predicate: impl Predicate<Header>, changed: Header) {
    assert!(predicate.holds(&updated(header("a/b"), changed)));
    assert!(!predicate.holds(&updated(header("a/b"), header("a/b"))));
    assert!(others().iter().all(|trigger| predicate.holds(trigger)));
}

#[test]
fn resource_version_changed_passes_updates_and_rejects_resyncs() {
    check(resource_version_changed(), header("a/b").with_version("2"));
}

#[test]
fn generation_changed_passes_new_generation() {
    check(generation_changed(), header("a/b").with_generation(Some(2)));
    check(generation_changed(), header("a/b").with_generation(None));
}

#[test]
fn generation_changed_rejects_updates_of_objects_without_generation() {
    let without = || header("a/b").with_generation(None);
    assert!(!generation_changed().holds(&updated(without(), without().with_version("2"))));
}

#[test]
fn labels_changed_passes_added_removed_and_changed_labels() {
    let labelled = |value| header("a/b").with_labels([("app", value)]);
    check(labels_changed(), labelled("web"));
    for (old, new, passes) in [
        (labelled("web"), labelled("api"), true),
        (labelled("web"), header("a/b"), true),
        (labelled("web"), labelled("web").with_version("2"), false),
    ] {
        assert_eq!(labels_changed().holds(&updated(old, new)), passes);
    }
}

fn annotated(annotations: &str) -> Lazy<ConfigMap> {
    let text = format!(r#"{{"metadata":{{"name":"a","namespace":"b","annotations":{annotations}}}}}"#);
    Lazy::from_json(&text).unwrap()
}

#[test]
fn annotations_changed_passes_added_removed_and_changed_annotations() {
    for (old, new, all, x) in [
        ("{}", r#"{"x":"1"}"#, true, true),
        (r#"{"x":"1"}"#, "{}", true, true),
        (r#"{"x":"1"}"#, r#"{"x":"2"}"#, true, true),
        (r#"{"x":"1"}"#, r#"{"x":"1","y":"1"}"#, true, false),
        (r#"{"x":"1","y":"2"}"#, r#"{"y":"2","x":"1"}"#, false, false),
    ] {
        let trigger = updated(annotated(old), annotated(new));
        assert_eq!(annotations_changed().holds(&trigger), all, "{old} to {new}");
        assert_eq!(annotation_changed("x").holds(&trigger), x, "x of {old} to {new}");
    }
    assert!(annotations_changed().holds(&added(annotated("{}"))));
}

#[test]
fn funcs_filter_their_triggers_and_others_pass() {
    let none = funcs::<Header>();
    assert!(others().iter().all(|trigger| none.holds(trigger)));
    let all = funcs::<Header>().added(|_| false).updated(|_, _| false).deleted(|_| false).generic(|_| false);
    assert!(!others().iter().any(|trigger| all.holds(trigger)));
    assert!(!all.holds(&updated(header("a/b"), header("a/b"))));
    let adds = funcs::<Header>().added(|_| false);
    assert_eq!(others().map(|trigger| adds.holds(&trigger)), [false, true, true]);
    let grows = funcs::<Header>().updated(|old, new| old.labels().len() < new.labels().len());
    assert!(grows.holds(&updated(header("a/b"), header("a/b").with_labels([("x", "y")]))));
    assert!(!grows.holds(&updated(header("a/b"), header("a/b"))));
}

#[test]
fn selects_matches_the_new_object_of_an_update() {
    let web = || header("a/b").with_labels([("app", "web")]);
    let selected = selects::<Header>("app=web".parse().unwrap());
    assert!(selected.holds(&updated(header("a/b"), web())));
    assert!(!selected.holds(&updated(web(), header("a/b"))));
    assert!(selected.holds(&deleted(web())));
    assert!(selected.holds(&Trigger::Generic(Arc::new(web()))));
    assert!(!selected.holds(&added(header("a/b"))));
}

#[test]
fn namespaces_matches_namespace_and_no_cluster_scoped_object() {
    let chosen = namespaces::<Header>(["a", "c"]);
    let holds = ["a/x", "b/x", "c/x", "x"].map(|key| chosen.holds(&added(header(key))));
    assert_eq!(holds, [true, false, true, false]);
}

#[test]
fn combined_predicates_short_circuit() {
    let yes = |_: &Trigger<Header>| true;
    let no = |_: &Trigger<Header>| false;
    let never = |_: &Trigger<Header>| -> bool { panic!("asked") };
    let trigger = added(header("a/b"));
    assert!(and(yes, yes).holds(&trigger));
    assert!(!and(yes, no).holds(&trigger));
    assert!(!and(no, never).holds(&trigger));
    assert!(or(yes, never).holds(&trigger));
    assert!(or(no, yes).holds(&trigger));
    assert!(!or(no, no).holds(&trigger));
    assert!(not(no).holds(&trigger));
    assert!(!not(or(no, and(yes, yes))).holds(&trigger));
}
