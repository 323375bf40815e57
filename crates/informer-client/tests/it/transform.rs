//! Tests of transforms with objects that are unchanged in a relist.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informer_cache::SharedInformer;
use informer_client::{Encodings, KubeListWatch, Lazy, StreamingLists};
use k8s_openapi::api::core::v1::Pod;

use crate::script::{Reply, script};

fn added(name: &str, version: u32) -> String {
    let metadata =
        format!(r#"{{"name":"{name}","namespace":"a","uid":"{name}","resourceVersion":"{version}"}}"#);
    let object = format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{metadata}}}"#);
    format!(r#"{{"type":"ADDED","object":{object}}}"#)
}

fn end_mark(version: u32) -> String {
    let annotations = r#"{"k8s.io/initial-events-end":"true"}"#;
    let metadata = format!(r#"{{"resourceVersion":"{version}","annotations":{annotations}}}"#);
    let object = format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{metadata}}}"#);
    format!(r#"{{"type":"BOOKMARK","object":{object}}}"#)
}

const EXPIRED: &str = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;

#[tokio::test(start_paused = true)]
async fn streaming_relist_does_not_transform_unchanged_objects() {
    let first = [added("same", 3), added("changed", 4), end_mark(5), EXPIRED.to_owned()].join("\n");
    let second = [added("same", 3), added("changed", 6), end_mark(7)].join("\n");
    let (client, requests) = script([Reply::ok(first), Reply::ok(second).stall()]);
    let source = KubeListWatch::<Lazy<Pod>>::all(client)
        .encodings(Encodings::Json)
        .streaming_lists(StreamingLists::On);
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
            pods.get("a/changed").is_some_and(|pod| *informer_core::Object::resource_version(&*pod) == "6")
        })
        .await
        .unwrap();
    assert_eq!(requests.uris().len(), 2, "two streaming lists");
    assert_eq!(transformed.load(Ordering::Relaxed), 3, "two objects, and the changed one again");
    run.stop().await;
}
