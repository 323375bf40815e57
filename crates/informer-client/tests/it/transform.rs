//! Tests of transforms with objects that are unchanged in a relist.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informer_cache::SharedInformer;
#[cfg(feature = "packed")]
use informer_client::Packed;
use informer_client::{Encodings, KubeListWatch, Lazy, Representation, StaticKind, StreamingLists, Typed};
use informer_schema::write_frame;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::protobuf::{protobuf, wire};
use crate::script::{Reply, script};

type Event = (&'static str, Value);

fn added(name: &str, version: u32) -> Event {
    let metadata =
        json!({"name": name, "namespace": "a", "uid": name, "resourceVersion": version.to_string()});
    ("ADDED", json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata}))
}

fn end_mark(version: u32) -> Event {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    let metadata = json!({"resourceVersion": version.to_string(), "annotations": annotations});
    ("BOOKMARK", json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata}))
}

fn expired() -> Event {
    ("ERROR", json!({"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired"}))
}

/// Returns the response to a watch request that accepts `encodings`.
fn reply(encodings: Encodings, events: &[Event]) -> Reply {
    match encodings {
        Encodings::Json => {
            let line = |(kind, object): &Event| json!({"type": kind, "object": object}).to_string();
            Reply::ok(events.iter().map(line).collect::<Vec<_>>().join("\n"))
        }
        _ => {
            let frame = |(kind, object): &Event| write_frame(kind, &wire(object));
            protobuf(events.iter().flat_map(frame).collect::<Vec<u8>>())
        }
    }
}

/// Runs an informer whose second streaming list contains one unchanged and one changed object, and checks how
/// often the transform ran.
async fn relist<O: Representation + StaticKind>(encodings: Encodings) {
    let first = reply(encodings, &[added("same", 3), added("changed", 4), end_mark(5), expired()]);
    let second = reply(encodings, &[added("same", 3), added("changed", 6), end_mark(7)]);
    let (client, requests) = script([first, second.stall()]);
    let source = KubeListWatch::<O>::all(client).encodings(encodings).streaming_lists(StreamingLists::On);
    let transformed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&transformed);
    let informer = SharedInformer::builder(source)
        .transform(move |pod| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(pod)
        })
        .build();
    let run = informer.start();
    informer
        .wait_until_for(Duration::from_secs(60), |pods| {
            pods.get("a/changed").is_some_and(|pod| *pod.resource_version() == "6")
        })
        .await
        .unwrap();
    let case = format!("{} from {encodings:?}", std::any::type_name::<O>());
    assert_eq!(requests.uris().len(), 2, "two streaming lists: {case}");
    assert_eq!(transformed.load(Ordering::Relaxed), 3, "two objects, and the changed one again: {case}");
    let is_protobuf = requests.last_header("accept").unwrap().contains("protobuf");
    assert_eq!(is_protobuf, encodings == Encodings::Auto, "{case}");
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn streaming_relist_does_not_transform_unchanged_objects() {
    for encodings in [Encodings::Json, Encodings::Auto] {
        relist::<Lazy<Pod>>(encodings).await;
        relist::<Typed<Pod>>(encodings).await;
        #[cfg(feature = "packed")]
        relist::<Packed<Pod>>(encodings).await;
    }
}
