//! Tests of `HashShares` by UID: a hash of the UID assigns each object to one share (shard) of its kind. The
//! server of these tests ignores `shardSelector`, so the client itself drops the objects of other shares.

use informer_cache::source::{ListWatch, WatchRequest};
use informer_client::{HashShares, KubeListWatch, Lazy};
use informer_core::{Header, ObjectKey};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::script::{Reply, first_list, list, script, watch, watch_from};

const HALVES: [&str; 2] = [
    "shardRange%28object.metadata.uid%2C+%270x0000000000000000%27%2C+%270x8000000000000000%27%29",
    "shardRange%28object.metadata.uid%2C+%270x8000000000000000%27%2C+%270x10000000000000000%27%29",
];

fn half(number: u32) -> HashShares {
    HashShares::new(2, [number]).unwrap()
}

fn names() -> Vec<String> {
    (10..30).map(|number| format!("pod-{number}")).collect()
}

/// Returns a UID that starts with `name`. The first bits of the hash of a UID select the share, and a
/// difference at the end of the UID hardly affects them.
fn uid(name: &str) -> String {
    format!("{name}-5f2c-4b71-9d3e-0a6c8e7f1b24")
}

fn pod(name: &str, version: &str) -> serde_json::Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "a", "uid": uid(name), "resourceVersion": version},
        "spec": {"containers": []},
    })
}

#[tokio::test(start_paused = true)]
async fn share_is_requested_and_objects_of_other_shares_are_dropped() {
    let mut held: Vec<Vec<String>> = Vec::new();
    for number in [0, 1] {
        let items: Vec<_> = names().iter().map(|name| pod(name, "3")).collect();
        let body = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items});
        let (client, requests) = script([Reply::ok(body.to_string())]);
        let source = KubeListWatch::<Lazy<Pod>>::all(client).shares(half(number));
        assert_eq!(ListWatch::describe(&source), format!("pods in share {number} of 2 by uid"));
        let read = list(&source, first_list()).await.unwrap();
        let selector = HALVES[number as usize];
        let expected = format!("/api/v1/pods?limit=500&resourceVersion=0&shardSelector={selector}");
        assert_eq!(requests.uris(), [expected]);
        assert_eq!(read.end.version, "7");
        held.push(read.keys().iter().map(|key| key.replace("a/", "")).collect());
    }
    assert!(held.iter().all(|share| !share.is_empty()), "{held:?}");
    let mut all = held.concat();
    all.sort();
    assert_eq!(all, names(), "each object is in exactly one share");
}

#[tokio::test(start_paused = true)]
async fn watch_events_of_other_shares_become_bookmarks_after_the_initial_list() {
    let in_share = |name: &str| {
        let key = ObjectKey::new("a", name).unwrap();
        half(0).contains(&Header::new(key).with_uid(uid(name)))
    };
    let (ours, theirs): (Vec<String>, Vec<String>) = names().into_iter().partition(|name| in_share(name));
    let event = |event_type: &str, name: &str, version: &str| {
        json!({"type": event_type, "object": pod(name, version)}).to_string()
    };
    let body = [
        event("ADDED", &ours[0], "6"),
        event("ADDED", &theirs[0], "7"),
        event("MODIFIED", &theirs[0], "8"),
        event("DELETED", &ours[0], "9"),
        event("DELETED", &theirs[0], "10"),
    ];
    let (client, requests) = script([Reply::ok(body.concat())]);
    let source = KubeListWatch::<Lazy<Pod>>::all(client).shares(half(0));
    let (seen, ended) = watch(&source, watch_from("5")).await;
    ended.unwrap();
    let (added, deleted) = (format!("Added(a/{} @6)", ours[0]), format!("Deleted(a/{} @9)", ours[0]));
    assert_eq!(seen, [&added, "Bookmark(@7)", "Bookmark(@8)", &deleted, "Bookmark(@10)"]);
    let query = format!("resourceVersion=5&shardSelector={}&timeoutSeconds=300&watch=true", HALVES[0]);
    assert_eq!(requests.uris(), [format!("/api/v1/pods?allowWatchBookmarks=true&{query}")]);

    let end = json!({"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {
        "resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}});
    let body = [
        event("ADDED", &theirs[0], "7"),
        event("ADDED", &ours[0], "6"),
        end.to_string(),
        event("MODIFIED", &theirs[0], "10"),
    ];
    let (client, _) = script([Reply::ok(body.concat())]);
    let source = KubeListWatch::<Lazy<Pod>>::all(client).shares(half(0));
    let streaming = WatchRequest { send_initial_events: true, ..watch_from("") };
    let (seen, ended) = watch(&source, streaming).await;
    ended.unwrap();
    assert_eq!(seen, [&added, "Bookmark(@9, initial events end)", "Bookmark(@10)"]);
}
