use std::sync::Arc;

use informer_cache::Event;
use informer_core::{Header, Object, ObjectKey, OwnerReference};
use informer_workqueue::{Ageing, LOW_PRIORITY, WorkQueue};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Node;

use super::*;

fn header(key: &str) -> Header {
    Header::new(key.parse::<ObjectKey>().unwrap())
}

fn owner(api_version: &str, kind: &str, name: &str, controller: bool) -> OwnerReference {
    OwnerReference::new(api_version, kind, name, "u", controller)
}

fn owned<const N: usize>(key: &str, owners: [OwnerReference; N]) -> Header {
    header(key).with_owners(owners.to_vec())
}

fn added(object: Header) -> Trigger<Header> {
    Event::Added { object: Arc::new(object), initial: false }.into()
}

fn updated(old: Header, new: Header) -> Trigger<Header> {
    Event::Updated { old: Arc::new(old), new: Arc::new(new), resync: false }.into()
}

/// What a handler puts into a queue, in order, with priorities.
fn told(handler: &impl Handler<Header>, trigger: &Trigger<Header>) -> Vec<(String, i32)> {
    let queue = WorkQueue::builder().priorities(Ageing::Off).build();
    handler.handle(trigger, &mut Enqueue::new(&queue, trigger.priority()));
    let items = std::iter::from_fn(|| queue.try_get());
    items.map(|item| (item.key().to_string(), item.priority())).collect()
}

fn keys(handler: &impl Handler<Header>, trigger: &Trigger<Header>) -> Vec<String> {
    told(handler, trigger).into_iter().map(|(key, _)| key).collect()
}

#[test]
fn the_object_of_every_trigger_is_looked_at() {
    let handler = enqueue_object();
    for trigger in [
        added(header("a/b")),
        updated(header("a/b"), header("a/b")),
        Event::Deleted { last: Arc::new(header("a/b")), stale: true }.into(),
        Trigger::Generic(Arc::new(header("a/b"))),
    ] {
        assert_eq!(told(&handler, &trigger), [("a/b".to_owned(), 0)], "{trigger:?}");
    }
}

#[test]
fn what_is_no_news_has_a_low_priority() {
    let object = || Arc::new(owned("a/b", [owner("apps/v1", "ReplicaSet", "b", true)]));
    let matrix: [(Event<Header>, i32); 5] = [
        (Event::Added { object: object(), initial: true }, LOW_PRIORITY),
        (Event::Added { object: object(), initial: false }, 0),
        (Event::Updated { old: object(), new: object(), resync: true }, LOW_PRIORITY),
        (Event::Updated { old: object(), new: object(), resync: false }, 0),
        (Event::Deleted { last: object(), stale: false }, 0),
    ];
    for (event, priority) in matrix {
        let trigger = Trigger::Event(event);
        let same = map(|object: &Header| [Request::new(object.key().clone())]);
        let function =
            |trigger: &Trigger<Header>, enqueue: &mut Enqueue<'_, Request>| enqueue.add(trigger.key().into());
        let expected = [("a/b".to_owned(), priority)];
        assert_eq!(told(&enqueue_object(), &trigger), expected, "{trigger:?}");
        assert_eq!(told(&enqueue_owner::<ReplicaSet>(), &trigger), expected, "{trigger:?}");
        assert_eq!(told(&same, &trigger), expected, "{trigger:?}");
        assert_eq!(told(&function, &trigger), expected, "{trigger:?}");
    }
}

#[test]
fn a_handler_may_name_another_priority() {
    let handler = |trigger: &Trigger<Header>, enqueue: &mut Enqueue<'_, Request>| {
        enqueue.add_with(trigger.key().into(), AddOptions::new().priority(9));
    };
    let trigger = Trigger::Event(Event::Added { object: Arc::new(header("a/b")), initial: true });
    assert_eq!(told(&handler, &trigger), [("a/b".to_owned(), 9)]);
}

#[test]
fn a_queue_without_priorities_heeds_none() {
    let queue: WorkQueue<Request> = WorkQueue::new();
    for (key, initial) in [("a/1", true), ("a/2", false)] {
        let trigger = Event::Added { object: Arc::new(header(key)), initial }.into();
        enqueue_object().handle(&trigger, &mut Enqueue::new(&queue, trigger.priority()));
    }
    let first = queue.try_get().unwrap();
    assert_eq!(first.key().to_string(), "a/1");
}

#[test]
fn an_owner_is_found_by_group_and_kind_whatever_the_version() {
    let handler = enqueue_owner::<ReplicaSet>();
    for (api_version, kind, found) in [
        ("apps/v1", "ReplicaSet", true),
        ("apps/v1beta2", "ReplicaSet", true),
        ("extensions/v1", "ReplicaSet", false),
        ("v1", "ReplicaSet", false),
        ("apps/v1", "Deployment", false),
        ("apps/v1/x", "ReplicaSet", false),
        ("", "ReplicaSet", false),
    ] {
        let trigger = added(owned("shop/web-0", [owner(api_version, kind, "web", true)]));
        let expected: &[String] = if found { &["shop/web".to_owned()] } else { &[] };
        assert_eq!(keys(&handler, &trigger), expected, "{api_version} {kind}");
    }
}

#[test]
fn an_unreadable_owner_hides_none_of_the_others() {
    let owners = [owner("a/b/c", "ReplicaSet", "x", false), owner("apps/v1", "ReplicaSet", "web", false)];
    assert_eq!(keys(&enqueue_owner::<ReplicaSet>(), &added(owned("shop/web-0", owners))), ["shop/web"]);
    let nameless = owned("shop/web-0", [owner("apps/v1", "ReplicaSet", "", true)]);
    assert_eq!(keys(&enqueue_owner::<ReplicaSet>(), &added(nameless)), [""; 0]);
}

#[test]
fn a_cluster_scoped_owner_has_no_namespace() {
    let trigger = added(owned("shop/web-0", [owner("v1", "Node", "n1", false)]));
    assert_eq!(keys(&enqueue_owner::<Node>(), &trigger), ["n1"]);
}

#[test]
fn all_owners_are_looked_at_or_only_the_one_that_manages() {
    let owners = ["x", "y", "z"].map(|name| owner("apps/v1", "ReplicaSet", name, name == "y"));
    let trigger = added(owned("a/b", owners));
    assert_eq!(keys(&enqueue_owner::<ReplicaSet>(), &trigger), ["a/x", "a/y", "a/z"]);
    assert_eq!(keys(&enqueue_owner::<ReplicaSet>().only_controller(), &trigger), ["a/y"]);
    assert_eq!(keys(&enqueue_owner::<ReplicaSet>(), &added(header("a/b"))), [""; 0]);
}

#[test]
fn old_and_new_owners_of_an_update_are_looked_at_once_each() {
    let by = |name| owned("a/b", [owner("apps/v1", "ReplicaSet", name, true)]);
    let handler = enqueue_owner::<ReplicaSet>().only_controller();
    assert_eq!(keys(&handler, &updated(by("x"), by("y"))), ["a/x", "a/y"]);
    assert_eq!(keys(&handler, &updated(by("x"), by("x"))), ["a/x"]);
}

#[test]
fn old_and_new_states_of_an_update_are_mapped_once_each() {
    let handler = map(|object: &Header| {
        let node = object.labels().get("node").map(str::to_owned);
        node.into_iter().chain(["all".to_owned()]).map(|name| format!("x/{name}").parse::<Request>().unwrap())
    });
    let on = |node| header("a/b").with_labels([("node", node)]);
    assert_eq!(keys(&handler, &updated(on("1"), on("2"))), ["x/1", "x/all", "x/2"]);
    assert_eq!(keys(&handler, &added(on("1"))), ["x/1", "x/all"]);
    assert_eq!(keys(&handler, &Trigger::Generic(Arc::new(on("1")))), ["x/1", "x/all"]);
}
