//! Tests that fields of list elements which the Rust type does not know stay with their elements after a
//! defaulter has changed the list.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::Resource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{WebhookServer, post, review, server};

async fn mutated(server: &WebhookServer, path: &str, review: Value) -> Value {
    let mut object = review["request"]["object"].clone();
    let (_, reviewed) = post(server, path, review.to_string()).await;
    assert_eq!(reviewed["response"]["allowed"], true, "{reviewed}");
    let patch = reviewed["response"]["patch"].as_str().expect("a patch");
    let patch: json_patch::Patch =
        serde_json::from_slice(&STANDARD.decode(patch).expect("base64")).expect("a patch");
    json_patch::patch(&mut object, &patch).expect("the patch applies");
    object
}

#[tokio::test]
async fn webhook_patch_keeps_unknown_fields_with_their_element_of_a_built_in_list() {
    let server = server().default(|_, mut pod: Pod| async move {
        let container = &mut pod.spec.as_mut().expect("it has a spec").containers[0];
        let ports = container.ports.as_mut().expect("it has ports");
        ports.remove(0);
        ports[0].host_port = Some(1);
        let mounts = container.volume_mounts.as_mut().expect("it has mounts");
        mounts.remove(0);
        mounts[0].read_only = Some(true);
        Ok(pod)
    });
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{
            "name": "web",
            "ports": [
                {"containerPort": 80, "protocol": "TCP", "future": 1}, {"containerPort": 80, "protocol": "UDP", "future": 2},
            ],
            "volumeMounts": [
                {"name": "v", "mountPath": "/a", "future": 1}, {"name": "v", "mountPath": "/b", "future": 2},
            ],
        }]},
    });
    let mutated = mutated(&server, "/mutate--v1-pod", review("Pod", "CREATE", object)).await;
    let container = &mutated["spec"]["containers"][0];
    let port = json!({"containerPort": 80, "protocol": "UDP", "hostPort": 1, "future": 2});
    assert_eq!(container["ports"], json!([port]));
    let mount = json!({"name": "v", "mountPath": "/b", "readOnly": true, "future": 2});
    assert_eq!(container["volumeMounts"], json!([mount]));
}

#[derive(Serialize, Deserialize, Clone)]
struct Website {
    metadata: kube_core::ObjectMeta,
    zones: Vec<Zone>,
}

#[derive(Serialize, Deserialize, Clone)]
struct Zone {
    zone: String,
    tier: String,
    #[serde(default)]
    weight: i32,
}

impl Resource for Website {
    type DynamicType = ();
    type Scope = kube_core::NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        "Website".into()
    }
    fn group((): &()) -> std::borrow::Cow<'_, str> {
        "example.com".into()
    }
    fn version((): &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        "websites".into()
    }
    fn meta(&self) -> &kube_core::ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut kube_core::ObjectMeta {
        &mut self.metadata
    }
}

#[tokio::test]
async fn webhook_patch_keeps_unknown_fields_with_their_element_of_a_custom_list() {
    let text = json!({"type": "string"});
    let zones = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["zone", "tier"],
        "items": {"type": "object", "properties": {"zone": text, "tier": text, "weight": {"type": "integer"}}},
    });
    let schema = json!({"type": "object", "properties": {"zones": zones}});
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "websites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Website", "plural": "websites"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    }))
    .expect("a definition");
    let server = server().crd(&definition).default(|_, mut site: Website| async move {
        site.zones.remove(0);
        site.zones.iter_mut().for_each(|zone| zone.weight = 5);
        Ok(site)
    });
    let object = json!({"metadata": {"name": "a"}, "zones": [
        {"zone": "a", "tier": "x", "weight": 1, "future": 1},
        {"zone": "a", "tier": "y", "weight": 1, "future": 2},
        {"zone": "b", "tier": "x", "weight": 1, "future": 3},
    ]});
    let mut review = review("Website", "CREATE", object);
    review["request"]["kind"]["group"] = json!("example.com");
    let mutated = mutated(&server, "/mutate-example-com-v1-website", review).await;
    let expected = json!([
        {"zone": "a", "tier": "y", "weight": 5, "future": 2}, {"zone": "b", "tier": "x", "weight": 5, "future": 3},
    ]);
    assert_eq!(mutated["zones"], expected);
}
