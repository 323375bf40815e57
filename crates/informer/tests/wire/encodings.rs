//! Tests that an informer which receives protobuf and one which receives JSON from the same server have equal
//! caches.

use std::fmt::Debug;
use std::time::Duration;

use informer::Object;
use informer::cache::SharedInformer;
use informer::client::{Encoding, Encodings, KubeListWatch, Lazy, Metadata, StreamingLists};
use informer::testing::{TestServer, pod};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::serde::{Serialize, de::DeserializeOwned};
use kube_core::Resource;
use serde_json::{Value, json};

fn of<K: DeserializeOwned>(name: &str, body: Value) -> K {
    let mut object = json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": name},
        "annotations": {"note": "\"quoted\" \u{e9}"}, "ownerReferences":
            [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": true}]}});
    for (name, value) in body.as_object().unwrap() {
        object[name] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// Returns the JSON of an object without null and empty members, so that objects that were sent in different
/// encodings can be compared. In protobuf, the embedded server writes `resources: {}` even if a container has
/// none, as a Go server does. In JSON, it returns objects as they were written.
fn told(object: &impl Serialize) -> Value {
    fn is_empty(value: &Value) -> bool {
        value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
    }
    fn full(value: Value) -> Value {
        match value {
            Value::Object(members) => {
                let members = members.into_iter().map(|(name, value)| (name, full(value)));
                Value::Object(members.filter(|(_, value)| !is_empty(value)).collect())
            }
            Value::Array(values) => Value::Array(values.into_iter().map(full).collect()),
            other => other,
        }
    }
    full(serde_json::to_value(object).unwrap())
}

/// Compares an informer that receives protobuf with one that receives JSON. Creates half of the objects
/// before the informers start and half while they run, and asserts that the caches are equal.
async fn agree<K>(streaming: StreamingLists, objects: Vec<K>, paths: &[&str])
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + PartialEq + Debug + Send + Sync + 'static,
{
    let server = TestServer::start().await;
    let (first, later) = objects.split_at(objects.len() / 2);
    for object in first {
        server.create(object).await.unwrap();
    }
    let source = KubeListWatch::<Lazy<K>>::all(server.client()).streaming_lists(streaming);
    let wire = SharedInformer::builder(source.clone()).build();
    let json = SharedInformer::builder(source.encodings(Encodings::Json)).build();
    let _runs = (wire.start(), json.start());
    for informer in [&wire, &json] {
        informer.wait_for_sync(Duration::from_secs(5)).await.unwrap();
    }
    for object in later {
        server.create(object).await.unwrap();
    }
    for informer in [&wire, &json] {
        informer.wait_until(|held| held.len() == objects.len()).await.unwrap();
    }
    for ours in wire.indexer().list() {
        let theirs = json.indexer().get(ours.key()).unwrap();
        assert_eq!((ours.encoding(), theirs.encoding()), (Encoding::Protobuf, Encoding::Json));
        assert_eq!(ours.header(), theirs.header());
        assert_eq!(told(&*ours.get().unwrap()), told(&*theirs.get().unwrap()));
        assert_eq!(ours.annotation("note"), theirs.annotation("note"));
        for path in paths {
            let path = path.parse().unwrap();
            assert!(ours.field(&path).is_some(), "{path:?}");
            assert_eq!(ours.field(&path), theirs.field(&path));
        }
        let value = |object: &Lazy<K>| {
            let mut value: Value = serde_json::from_str(&object.json().unwrap()).unwrap();
            value.as_object_mut().map(|members| (members.remove("kind"), members.remove("apiVersion")));
            told(&value)
        };
        assert_eq!(value(&ours), value(&theirs));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_of_protobuf_is_the_cache_of_json() {
    for streaming in [StreamingLists::Off, StreamingLists::On] {
        let pods = ["a", "b", "c", "d"].map(|name| {
            let spec = json!({"nodeName": "n1", "priority": 0, "containers": [{"name": "c", "image": "i:1", "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "500m", "memory": "1Mi"}}, "livenessProbe": {"httpGet": {"port": "http"}}}]});
            of::<Pod>(name, json!({"spec": spec}))
        });
        agree(
            streaming,
            pods.to_vec(),
            &["spec.nodeName", "metadata.labels.app", "status.phase", "kind", "apiVersion"],
        )
        .await;
        let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": template,
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}});
        let deployments = ["a", "b"].map(|name| of::<Deployment>(name, json!({"spec": spec})));
        agree(streaming, deployments.to_vec(), &["spec.replicas", "spec.strategy.rollingUpdate.maxSurge"])
            .await;
        let secrets =
            ["a", "b"].map(|name| of::<Secret>(name, json!({"data": {"k": "aGVsbG8="}, "type": "Opaque"})));
        agree(streaming, secrets.to_vec(), &["data.k", "type"]).await;
        let maps = ["a", "b"].map(|name| {
            of::<ConfigMap>(name, json!({"data": {"a.b": "\n", "c": ""}, "binaryData": {"b": "AAE="}}))
        });
        agree(streaming, maps.to_vec(), &["data['a.b']", "binaryData.b"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_cache_of_protobuf_is_that_of_json() {
    for streaming in [StreamingLists::Off, StreamingLists::On] {
        let server = TestServer::start().await;
        let pods = ["a", "b", "c"]
            .map(|name| of::<Pod>(name, json!({"spec": {"containers": [{"name": "c", "image": "i"}]}})));
        server.create(&pods[0]).await.unwrap();
        let source = KubeListWatch::<Metadata<Pod>>::all(server.client()).streaming_lists(streaming);
        let wire = SharedInformer::builder(source.clone()).build();
        let json = SharedInformer::builder(source.encodings(Encodings::Json)).build();
        let _runs = (wire.start(), json.start());
        for informer in [&wire, &json] {
            informer.wait_for_sync(Duration::from_secs(5)).await.unwrap();
        }
        server.create(&pods[1]).await.unwrap();
        server.create(&pods[2]).await.unwrap();
        server.delete::<Pod>("default/a").await.unwrap();
        for informer in [&wire, &json] {
            informer.wait_until(|held| held.len() == 2 && !held.contains("default/a")).await.unwrap();
        }
        for ours in wire.indexer().list() {
            let theirs = json.indexer().get(ours.key()).unwrap();
            assert_eq!(ours.header(), theirs.header());
            assert_eq!(ours.annotations(), theirs.annotations());
            assert_eq!(ours.creation_timestamp(), theirs.creation_timestamp());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cache_continues_when_the_encoding_changes() {
    let server = TestServer::start().await;
    server.create(&pod("default/a")).await.unwrap();
    let pods = server.informer::<Pod>().await;
    assert_eq!(pods.indexer().get("default/a").unwrap().encoding(), Encoding::Protobuf);
    // The server sent the first list as protobuf. The response to the next list is JSON, as if another server
    // behind the same load balancer had sent it.
    let version = server.server().version().to_string();
    let body = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version},
        "items": [serde_json::to_value(&*pods.indexer().get("default/a").unwrap().get().unwrap()).unwrap()]});
    server.faults().on(informer::testing::list::<Pod>()).nth(1).then(crate::fixture::text(body.to_string()));
    server.faults().on(informer::testing::watch::<Pod>()).nth(1).expire();
    server.create(&pod("default/b")).await.unwrap();
    pods.wait_until(|held| held.contains("default/b")).await.unwrap();
    assert_eq!(pods.indexer().len(), 2);
}
