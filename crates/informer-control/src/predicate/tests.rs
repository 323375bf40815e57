use std::sync::Arc;

use informer_cache::Event;
use informer_core::{Header, Object};

use super::{Predicate, and, funcs, namespaces, not, object, or, selects};
use crate::Trigger;

fn pod(key: &str, version: &str) -> Arc<Header> {
    let key = key.parse().expect("a key");
    Arc::new(Header::new(key).with_version(version).with_labels([("app", version)]))
}

fn generic(key: &str, version: &str) -> Trigger<Header> {
    Trigger::Generic(pod(key, version))
}

#[test]
fn combined_predicates_follow_their_truth_tables_and_skip_the_second_operand() {
    let trigger = generic("ns/a", "1");
    let constant = |value: bool| move |_: &Trigger<Header>| value;
    let unreachable = |_: &Trigger<Header>| -> bool { unreachable!("the first operand decides") };
    for value in [false, true] {
        assert_eq!(and(constant(true), constant(value)).holds(&trigger), value);
        assert_eq!(or(constant(false), constant(value)).holds(&trigger), value);
        assert_eq!(not(constant(value)).holds(&trigger), !value);
    }
    assert!(!and(constant(false), unreachable).holds(&trigger));
    assert!(or(constant(true), unreachable).holds(&trigger));
    let boxed: Box<dyn Predicate<Header>> = Box::new(constant(false));
    assert!(not(boxed).holds(&trigger));
}

#[test]
fn each_function_filters_its_trigger_type_and_others_pass() {
    let (old, new) = (pod("ns/a", "1"), pod("ns/a", "2"));
    let triggers: [Trigger<Header>; 4] = [
        Event::Added { object: Arc::clone(&new), initial: false }.into(),
        Event::Updated { old, new: Arc::clone(&new), resync: false }.into(),
        Event::Deleted { last: Arc::clone(&new), stale: false }.into(),
        Trigger::Generic(new),
    ];
    let is_newer = |object: &Header| *object.resource_version() == "2";
    for (rejected, predicate) in [
        (None, funcs().updated(|old: &Header, new| old.resource_version() != new.resource_version())),
        (None, funcs().added(is_newer).deleted(is_newer).generic(is_newer)),
        (Some(0), funcs().added(|_| false)),
        (Some(1), funcs().updated(|_, _| false)),
        (Some(2), funcs().deleted(|_| false)),
        (Some(3), funcs().generic(|_| false)),
    ] {
        let holds: Vec<_> = triggers.iter().map(|trigger| predicate.holds(trigger)).collect();
        assert_eq!(holds, [0, 1, 2, 3].map(|at| Some(at) != rejected), "{predicate:?}");
    }
}

#[test]
fn object_label_and_namespace_predicates_use_the_new_object() {
    let is_two = object(|object: &Header| *object.resource_version() == "2");
    let updated: Trigger<Header> =
        Event::Updated { old: pod("ns/a", "1"), new: pod("ns/a", "2"), resync: false }.into();
    assert!(is_two.holds(&updated) && !is_two.holds(&generic("ns/a", "1")));
    let selected = selects("app=2".parse().expect("a selector"));
    assert!(selected.holds(&updated) && !selected.holds(&generic("ns/a", "1")));
    let chosen = namespaces(["ns", "other"]);
    assert!(chosen.holds(&updated) && !chosen.holds(&generic("third/a", "1")));
    assert!(!chosen.holds(&generic("ns", "1")), "a cluster-scoped object is in no namespace");
}
