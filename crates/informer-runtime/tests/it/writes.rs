//! Tests of the client's writes: patches, writes that the server rejects, and responses that cannot be
//! decoded.

use std::borrow::Cow;
use std::collections::BTreeMap;

use informer_apiserver::{FaultMatch, Verb};
use informer_runtime::Patch;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::{NamespaceResourceScope, ObjectMeta, Resource};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use crate::fixture::Server;

#[tokio::test(start_paused = true)]
async fn strategic_patch_merges_lists_by_merge_keys() {
    let server = Server::start();
    let containers = json!([{"name": "main", "image": "a:1"}, {"name": "proxy", "image": "b:1"}]);
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}});
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    server.create("deployments", "default/web", json!({"spec": spec}));
    let newer = json!([{"name": "main", "image": "a:2"}]);
    let patch = Patch::strategic(json!({"spec": {"template": {"spec": {"containers": newer}}}}));
    server.client().patch::<Deployment>("default/web", &patch).await.unwrap();
    let stored = server.get("deployments", "default/web");
    let containers = &stored["spec"]["template"]["spec"]["containers"];
    let images = [0, 1, 2].map(|place| containers[place]["image"].as_str());
    assert_eq!(images, [Some("a:2"), Some("b:1"), None], "{stored}");
}

#[tokio::test(start_paused = true)]
async fn json_patch_with_failed_test_changes_nothing() {
    let server = Server::start();
    server.create("configmaps", "default/m", json!({"data": {"color": "red"}}));
    let client = server.client();
    let paint = |from: &str| {
        Patch::json(json!([
            {"op": "test", "path": "/data/color", "value": from},
            {"op": "replace", "path": "/data/color", "value": "blue"},
        ]))
    };
    assert!(client.patch::<ConfigMap>("default/m", &paint("green")).await.unwrap_err().is_invalid());
    assert_eq!(server.get("configmaps", "default/m")["data"]["color"], "red");
    client.patch::<ConfigMap>("default/m", &paint("red")).await.unwrap();
    assert_eq!(server.get("configmaps", "default/m")["data"]["color"], "blue");
}

#[tokio::test(start_paused = true)]
async fn forbidden_write_fails_with_is_forbidden() {
    let server = Server::start();
    server.create("configmaps", "default/m", json!({}));
    server.api.faults().on(FaultMatch::verb(Verb::Patch)).status(403);
    let patch = Patch::merge(json!({"data": {"color": "blue"}}));
    let error = server.client().patch::<ConfigMap>("default/m", &patch).await.unwrap_err();
    assert!(error.is_forbidden() && !error.is_not_found() && !error.is_conflict(), "{error}");
}

/// A ConfigMap type whose decoder panics if the data has the key `poison`, to test that the client returns an
/// error.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Map {
    metadata: ObjectMeta,
    #[serde(deserialize_with = "without_poison")]
    data: BTreeMap<String, String>,
}

fn without_poison<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let data = BTreeMap::<String, String>::deserialize(deserializer)?;
    assert!(!data.contains_key("poison"), "the decoder panics");
    Ok(data)
}

impl Resource for Map {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "ConfigMap".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "configmaps".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[tokio::test(start_paused = true)]
async fn panic_of_the_decoder_of_a_response_is_an_error_of_the_write() {
    let server = Server::start();
    server.create("configmaps", "default/m", json!({"data": {"color": "red"}}));
    let poison = Patch::merge(json!({"data": {"poison": "yes"}}));
    let error = server.client().patch::<Map>("default/m", &poison).await.unwrap_err();
    assert!(error.to_string().contains("patch"), "{error}");
    assert_eq!(server.get("configmaps", "default/m")["data"]["poison"], "yes");
}
