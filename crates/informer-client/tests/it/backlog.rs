//! Responses that are so long that several tasks decode them in parallel. The results must be the same as
//! with one decoding task.

use bytes::Bytes;
use futures_util::StreamExt as _;
use informer_cache::source::{ListPart, ListSource as _, SourceErrorKind};
use informer_client::{KubeListWatch, Lazy};
use informer_core::Object as _;
use informer_schema::Schema;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::script::{Reply, first_list, script, watch, watch_from};

/// The number of pods in a long list, enough for several batches of objects.
const PODS: usize = 3000;

fn name(n: usize) -> String {
    format!("pod-{n:04}")
}

fn pod(n: usize) -> Value {
    json!({"metadata": {"name": name(n), "namespace": "a", "uid": format!("u-{n}"), "resourceVersion": "3",
            "labels": {"app": "web"}, "managedFields": [{"manager": "kubelet"}]},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "x".repeat(n % 700)}]}})
}

fn pods() -> Vec<Value> {
    (0..PODS).map(pod).collect()
}

fn list_of(items: &[Value]) -> Value {
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items})
}

fn in_frames(mut reply: Reply, body: &[u8], size: usize) -> Reply {
    for frame in body.chunks(size) {
        reply = reply.data(Bytes::copy_from_slice(frame));
    }
    reply
}

fn json_reply(body: &[u8], size: usize) -> Reply {
    in_frames(Reply::status(200).header("content-type", "application/json"), body, size)
}

/// Lists objects. Returns their names in order, with `!` for an undecodable object, and the result at the end
/// of the list.
async fn listed(reply: Reply) -> (Vec<String>, Result<String, (SourceErrorKind, String)>) {
    let (client, _) = script([reply]);
    let mut parts = KubeListWatch::<Lazy<Pod>>::all(client).list(first_list()).await.unwrap();
    let mut seen = Vec::new();
    loop {
        match parts.next().await.expect("a list ends with its end or an error") {
            Ok(ListPart::Items(items)) => {
                seen.extend(items.iter().map(|item| item.object().key().name().to_owned()));
            }
            Ok(ListPart::Rejected(_)) => {}
            Ok(ListPart::Undecodable(_)) => seen.push("!".to_owned()),
            Ok(ListPart::End(end)) => {
                assert!(parts.next().await.is_none());
                return (seen, Ok(end.version.to_string()));
            }
            Err(error) => {
                assert!(parts.next().await.is_none());
                return (seen, Err((error.kind(), error.to_string())));
            }
        }
    }
}

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_decoding_keeps_list_order() {
    let body = list_of(&pods()).to_string();
    assert!(body.len() > 1 << 20);
    for size in [usize::MAX, 300_000, 40_000, 999] {
        let (seen, end) = listed(json_reply(body.as_bytes(), size)).await;
        assert_eq!(end.unwrap(), "7");
        assert_eq!(seen, names(0..PODS), "frames of {size}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_decoding_of_protobuf_keeps_list_order() {
    let body = Schema::builtin().to_protobuf(list_of(&pods()).to_string().as_bytes()).unwrap();
    for size in [usize::MAX, 100_000, 999] {
        let protobuf = Reply::status(200).header("content-type", "application/vnd.kubernetes.protobuf");
        let (seen, end) = listed(in_frames(protobuf, &body, size)).await;
        assert_eq!(end.unwrap(), "7");
        assert_eq!(seen, names(0..PODS), "frames of {size}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undecodable_object_keeps_its_position_in_a_long_list() {
    let mut items = pods();
    items[1500] = json!({"metadata": {"namespace": "a"}});
    let (seen, end) = listed(json_reply(list_of(&items).to_string().as_bytes(), usize::MAX)).await;
    let mut expected = names(0..PODS);
    expected[1500] = "!".to_owned();
    assert_eq!((seen, end), (expected, Ok("7".to_owned())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn object_of_another_kind_ends_the_list_after_the_objects_before_it() {
    let mut items = pods();
    items[2000] = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}});
    // An item of another kind than the requested one ends the list with an error, so invalid data after that
    // item is not read.
    let mut body = list_of(&items).to_string();
    body.truncate(body.len() - 100);
    body.push_str("}}}}}}}");
    let (seen, end) = listed(json_reply(body.as_bytes(), usize::MAX)).await;
    assert_eq!(seen, names(0..2000));
    let text = "list pods: expected a PodList, but an item is Node of v1; check group and kind";
    assert_eq!(end.unwrap_err(), (SourceErrorKind::Protocol, text.to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_list_returns_the_objects_that_arrived() {
    let body = list_of(&pods()).to_string();
    let at = body.find(&name(2500)).unwrap();
    let (seen, end) = listed(json_reply(&body.as_bytes()[..at], 50_000)).await;
    assert_eq!(seen, names(0..2500));
    let text = "list pods: the response was cut off after 2500 objects; the list is repeated";
    assert_eq!(end.unwrap_err(), (SourceErrorKind::Connection, text.to_owned()));

    let reply = json_reply(&body.as_bytes()[..at], 50_000).break_off();
    let (seen, end) = listed(reply).await;
    assert_eq!((seen, end.unwrap_err().0), (names(0..2500), SourceErrorKind::Connection));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_decoding_keeps_watch_event_order_until_an_error() {
    let mut body = String::new();
    for n in 0..PODS {
        let event_type = ["ADDED", "MODIFIED", "DELETED"][n % 3];
        let mut object = pod(n);
        object["kind"] = "Pod".into();
        object["apiVersion"] = "v1".into();
        body.push_str(&json!({"type": event_type, "object": object}).to_string());
        body.push('\n');
    }
    let expected: Vec<String> =
        (0..PODS).map(|n| format!("{}(a/{} @3)", ["Added", "Modified", "Deleted"][n % 3], name(n))).collect();
    for size in [usize::MAX, 70_000] {
        let (client, _) = script([json_reply(body.as_bytes(), size)]);
        let (seen, end) = watch(&KubeListWatch::<Lazy<Pod>>::all(client), watch_from("2")).await;
        assert!(end.is_ok());
        assert_eq!(seen, expected, "frames of {size}");
    }
    let other = r#"{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}}"#;
    let (client, _) = script([json_reply(format!("{body}{other}\n{body}").as_bytes(), usize::MAX)]);
    let (seen, end) = watch(&KubeListWatch::<Lazy<Pod>>::all(client), watch_from("2")).await;
    assert_eq!(seen, expected);
    assert_eq!(end.unwrap_err().kind(), SourceErrorKind::Protocol);
}
