use std::sync::Arc;

use informer_cache::Event;
use informer_core::{Header, Object, ObjectKey, OwnerReference};
use informer_workqueue::{Aging, LOW_PRIORITY, WorkQueue};
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

fn enqueued(handler: &impl Handler<Header>, trigger: &Trigger<Header>) -> Vec<(String, i32)> {
    let queue = WorkQueue::builder().priorities(Aging::Off).build();
    handler.handle(trigger, &mut Enqueue::new(&queue, trigger.priority()));
    let items = std::iter::from_fn(|| queue.try_get());
    items.map(|item| (item.key().to_string(), item.priority())).collect()
}

fn keys(handler: &impl Handler<Header>, trigger: &Trigger<Header>) -> Vec<String> {
    enqueued(handler, trigger).into_iter().map(|(key, _)| key).collect()
}

#[test]
fn enqueue_object_enqueues_the_object_of_every_trigger() {
    let handler = enqueue_object();
    for trigger in [
        added(header("a/b")),
        updated(header("a/b"), header("a/b")),
        Event::Deleted { last: Arc::new(header("a/b")), stale: true }.into(),
        Trigger::Generic(Arc::new(header("a/b"))),
    ] {
        assert_eq!(enqueued(&handler, &trigger), [("a/b".to_owned(), 0)], "{trigger:?}");
    }
}

#[test]
fn initial_list_and_resync_requests_have_low_priority() {
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
        assert_eq!(enqueued(&enqueue_object(), &trigger), expected, "{trigger:?}");
        assert_eq!(enqueued(&enqueue_owner::<ReplicaSet>(), &trigger), expected, "{trigger:?}");
        assert_eq!(enqueued(&same, &trigger), expected, "{trigger:?}");
        assert_eq!(enqueued(&function, &trigger), expected, "{trigger:?}");
    }
}

#[test]
fn handler_may_override_the_priority() {
    let handler = |trigger: &Trigger<Header>, enqueue: &mut Enqueue<'_, Request>| {
        enqueue.add_with(trigger.key().into(), AddOptions::new().priority(9));
    };
    let trigger = Trigger::Event(Event::Added { object: Arc::new(header("a/b")), initial: true });
    assert_eq!(enqueued(&handler, &trigger), [("a/b".to_owned(), 9)]);
}

#[test]
fn queue_without_priorities_ignores_them() {
    let queue: WorkQueue<Request> = WorkQueue::new();
    for (key, initial) in [("a/1", true), ("a/2", false)] {
        let trigger = Event::Added { object: Arc::new(header(key)), initial }.into();
        enqueue_object().handle(&trigger, &mut Enqueue::new(&queue, trigger.priority()));
    }
    let first = queue.try_get().unwrap();
    assert_eq!(first.key().to_string(), "a/1");
}

#[test]
fn owner_is_matched_by_group_and_kind_ignoring_version() {
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
fn invalid_owner_reference_does_not_hide_others() {
    let owners = [owner("a/b/c", "ReplicaSet", "x", false), owner("apps/v1", "ReplicaSet", "web", false)];
    assert_eq!(keys(&enqueue_owner::<ReplicaSet>(), &added(owned("shop/web-0", owners))), ["shop/web"]);
    let nameless = owned("shop/web-0", [owner("apps/v1", "ReplicaSet", "", true)]);
    assert_eq!(keys(&enqueue_owner::<ReplicaSet>(), &added(nameless)), [""; 0]);
}

#[test]
fn cluster_scoped_owner_request_has_no_namespace() {
    let trigger = added(owned("shop/web-0", [owner("v1", "Node", "n1", false)]));
    assert_eq!(keys(&enqueue_owner::<Node>(), &trigger), ["n1"]);
}

#[test]
fn all_owners_or_only_the_controller_are_enqueued() {
    let owners = ["x", "y", "z"].map(|name| owner("apps/v1", "ReplicaSet", name, name == "y"));
    let trigger = added(owned("a/b", owners));
    assert_eq!(keys(&enqueue_owner::<ReplicaSet>(), &trigger), ["a/x", "a/y", "a/z"]);
    assert_eq!(keys(&enqueue_owner::<ReplicaSet>().only_controller(), &trigger), ["a/y"]);
    assert_eq!(keys(&enqueue_owner::<ReplicaSet>(), &added(header("a/b"))), [""; 0]);
}

#[test]
fn old_and_new_owners_of_an_update_are_enqueued_once() {
    let by = |name| owned("a/b", [owner("apps/v1", "ReplicaSet", name, true)]);
    let handler = enqueue_owner::<ReplicaSet>().only_controller();
    assert_eq!(keys(&handler, &updated(by("x"), by("y"))), ["a/x", "a/y"]);
    assert_eq!(keys(&handler, &updated(by("x"), by("x"))), ["a/x"]);
}

#[test]
fn old_and_new_objects_of_an_update_are_mapped_without_duplicates() {
    let handler = map(|object: &Header| {
        let node = object.labels().get("node").map(str::to_owned);
        node.into_iter().chain(["all".to_owned()]).map(|name| format!("x/{name}").parse::<Request>().unwrap())
    });
    let on = |node| header("a/b").with_labels([("node", node)]);
    assert_eq!(keys(&handler, &updated(on("1"), on("2"))), ["x/1", "x/all", "x/2"]);
    assert_eq!(keys(&handler, &added(on("1"))), ["x/1", "x/all"]);
    assert_eq!(keys(&handler, &Trigger::Generic(Arc::new(on("1")))), ["x/1", "x/all"]);
}
