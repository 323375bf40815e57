//! Objects that the embedding program writes are stored like objects of requests, so every client can change
//! them.

use std::collections::BTreeSet;

use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{json, read, send_with};

/// A minimal manifest for each built-in kind whose objects are stored.
const MINIMAL: &str = include_str!("minimal_kinds.yaml");

struct Kind {
    gvr: Gvr,
    kind: String,
    namespaced: bool,
}

impl Kind {
    fn url(&self, name: &str) -> String {
        let Gvr { group, version, resource } = &self.gvr;
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let namespace = if self.namespaced { "/namespaces/default" } else { "" };
        let slash = if name.is_empty() { "" } else { "/" };
        format!("{root}{namespace}/{resource}{slash}{name}")
    }

    fn namespace(&self) -> &'static str {
        if self.namespaced { "default" } else { "" }
    }
}

/// Returns the kinds in discovery whose objects can be created, read and changed.
async fn stored_kinds(server: &ApiServer) -> Vec<Kind> {
    let mut versions = vec!["v1".to_owned()];
    let (_, groups) = json(server, "GET", "/apis", "").await;
    for group in groups["groups"].as_array().unwrap() {
        let all = group["versions"].as_array().unwrap().iter();
        versions.extend(all.map(|version| version["groupVersion"].as_str().unwrap().to_owned()));
    }
    let mut kinds = Vec::new();
    for version in versions {
        let url = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
        let (_, list) = json(server, "GET", &url, "").await;
        for resource in list["resources"].as_array().unwrap() {
            let verbs = resource["verbs"].as_array().unwrap();
            if !["create", "get", "patch"].iter().all(|verb| verbs.contains(&json!(verb))) {
                continue;
            }
            let name = resource["name"].as_str().unwrap();
            let (group, version) = version.split_once('/').unwrap_or(("", &version));
            if !name.contains('/') {
                kinds.push(Kind {
                    gvr: Gvr::new(group, version, name),
                    kind: resource["kind"].as_str().unwrap().to_owned(),
                    namespaced: resource["namespaced"] == true,
                });
            }
        }
    }
    kinds
}

async fn cases(server: &ApiServer) -> Vec<(Kind, Value)> {
    let manifests = serde_norway::Deserializer::from_str(MINIMAL);
    let manifests = manifests.map(|one| <Value as serde::Deserialize>::deserialize(one).unwrap());
    let manifests: Vec<Value> = manifests.collect();
    let of = |kind: &Kind| {
        let named = |one: &&Value| one["kind"] == *kind.kind && one["apiVersion"] == *kind.gvr.api_version();
        let found = manifests.iter().find(named).cloned();
        found.unwrap_or_else(|| {
            panic!("minimal_kinds.yaml has no {} of {}", kind.kind, kind.gvr.api_version())
        })
    };
    let kinds = stored_kinds(server).await;
    assert!(kinds.len() > 50, "discovery lists the built-in kinds");
    kinds
        .into_iter()
        .map(|kind| {
            let manifest = of(&kind);
            (kind, manifest)
        })
        .collect()
}

async fn patch(server: &ApiServer, url: &str, media: &str, body: &Value) -> (u16, Value) {
    let response = send_with(server, "PATCH", url, &[("content-type", media)], &body.to_string()).await;
    let (status, text) = read(response).await;
    (status, serde_json::from_str(&text).unwrap())
}

/// Returns an object without the metadata fields that every write changes.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for name in ["resourceVersion", "managedFields", "labels", "annotations", "uid", "creationTimestamp"] {
        metadata.remove(name);
    }
    object
}

#[tokio::test]
async fn loaded_objects_of_each_kind_can_be_labeled_applied_patched_and_replaced() {
    let mut failures = Vec::new();
    for (kind, manifest) in cases(&ApiServer::builder().build()).await {
        let server = ApiServer::builder().build();
        if let Err(error) = server.load(&kind.gvr, [manifest.clone()]) {
            failures.push(format!("load {}: {error}", kind.gvr));
            continue;
        }
        let name = manifest["metadata"]["name"].as_str().unwrap();
        let url = kind.url(name);
        let (_, loaded) = json(&server, "GET", &url, "").await;
        let label = json!({"metadata": {"labels": {"labeled": "yes"}}});
        let (status, labeled) = patch(&server, &url, "application/merge-patch+json", &label).await;
        if status != 200 || labeled["metadata"]["labels"]["labeled"] != "yes" {
            failures.push(format!("label {}: {status} {}", kind.gvr, labeled["message"]));
        } else if content(&labeled) != content(&loaded) {
            failures.push(format!("label {}: changed more:\n{loaded}\n{labeled}", kind.gvr));
        }
        // This patch is what `kubectl apply` sends for an object that it has not created: the whole manifest
        // and an annotation.
        let mut applied = manifest.clone();
        applied["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"});
        let (status, response) =
            patch(&server, &url, "application/strategic-merge-patch+json", &applied).await;
        if status != 200 {
            failures.push(format!("kubectl apply {}: {status} {}", kind.gvr, response["message"]));
        }
        let apply = format!("{url}?fieldManager=test");
        let (mut status, mut response) =
            patch(&server, &apply, "application/apply-patch+yaml", &manifest).await;
        if status == 409 {
            // If the server has set defaults within an atomic list, applying the list without `force` is a
            // conflict, also on kube-apiserver.
            let forced = format!("{apply}&force=true");
            (status, response) = patch(&server, &forced, "application/apply-patch+yaml", &manifest).await;
        }
        if status != 200 {
            failures.push(format!("apply {}: {status} {}", kind.gvr, response["message"]));
        }
        let add = json!([{"op": "add", "path": "/metadata/labels/patched", "value": "yes"}]);
        let (status, response) = patch(&server, &url, "application/json-patch+json", &add).await;
        if status != 200 {
            failures.push(format!("patch {}: {status} {}", kind.gvr, response["message"]));
        }
        let (_, mut current) = json(&server, "GET", &url, "").await;
        current["metadata"]["labels"]["replaced"] = "yes".into();
        let (status, response) = json(&server, "PUT", &url, &current.to_string()).await;
        if status != 200 {
            failures.push(format!("replace {}: {status} {}", kind.gvr, response["message"]));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn created_and_loaded_objects_equal_those_stored_by_requests() {
    let mut failures = Vec::new();
    for (kind, manifest) in cases(&ApiServer::builder().build()).await {
        let name = manifest["metadata"]["name"].as_str().unwrap();
        let requested = ApiServer::builder().build();
        let (status, expected) = json(&requested, "POST", &kind.url(""), &manifest.to_string()).await;
        if status != 201 {
            failures.push(format!("request {}: {status} {}", kind.gvr, expected["message"]));
            continue;
        }
        let (_, expected) = json(&requested, "GET", &kind.url(name), "").await;
        let created = ApiServer::builder().build();
        created.create(&kind.gvr, kind.namespace(), manifest.clone()).unwrap();
        let loaded = ApiServer::builder().build();
        loaded.load(&kind.gvr, [manifest.clone()]).unwrap();
        for (how, server) in [("create", created), ("load", loaded)] {
            let (_, found) = json(&server, "GET", &kind.url(name), "").await;
            let [found, expected] = [&found, &expected].map(|object| admitted(&kind, content(object)));
            if found != expected {
                failures.push(format!("{how} {}:\n{expected}\n{found}", kind.gvr));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Removes the fields from an object that admission plugins set only in requests, the user of a request, and
/// fields with random values.
fn admitted(kind: &Kind, mut object: Value) -> Value {
    let mut remove = |part: &str, names: &[&str]| {
        if let Some(part) = object[part].as_object_mut() {
            names.iter().for_each(|name| drop(part.remove(*name)));
        }
    };
    match kind.kind.as_str() {
        "Pod" => remove("spec", &["priority", "preemptionPolicy"]),
        "PersistentVolume" | "PersistentVolumeClaim" => remove("metadata", &["finalizers"]),
        "Node" => remove("spec", &["taints"]),
        "Service" => remove("spec", &["clusterIP", "clusterIPs"]),
        "CertificateSigningRequest" => remove("spec", &["username", "groups"]),
        "Job" => {
            remove("spec", &["selector"]);
            object["spec"]["template"]["metadata"] = Value::Null;
        }
        _ => {}
    }
    if let Some(time) = object.pointer_mut("/status/lastPhaseTransitionTime") {
        *time = Value::Null;
    }
    for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = Value::Null;
    }
    object
}

#[test]
fn invalid_objects_are_rejected_and_the_raw_writer_stores_them() {
    let server = ApiServer::builder().build();
    let pods = Gvr::new("", "v1", "pods");
    let no_containers = json!({"metadata": {"name": "none"}, "spec": {}});
    let refused = server.create(&pods, "default", no_containers.clone()).unwrap_err();
    assert!(refused.to_string().contains("spec.containers: Required value"), "{refused}");
    let refused = server.load(&pods, [no_containers.clone()]).unwrap_err();
    assert!(refused.to_string().contains("spec.containers: Required value"), "{refused}");
    let mistyped =
        json!({"metadata": {"name": "mistyped"}, "spec": {"containers": 5}, "beyond": {"the": "table"}});
    let refused = server.create(&pods, "default", mistyped.clone()).unwrap_err();
    assert!(refused.to_string().contains("cannot unmarshal number"), "{refused}");

    let raw = server.raw();
    let made = raw.create(&pods, "default", mistyped).unwrap();
    assert_eq!((&made["spec"], &made["beyond"]), (&json!({"containers": 5}), &json!({"the": "table"})));
    assert_eq!(raw.load(&pods, [no_containers]).unwrap(), 1);
    assert_eq!(server.get(&pods, "default", "none").unwrap()["spec"], json!({}));
    let changed = json!({"metadata": {"name": "none"}, "spec": {"nodeName": 7}});
    assert_eq!(raw.update(&pods, "default", changed).unwrap()["spec"], json!({"nodeName": 7}));
}

#[test]
fn updates_of_the_embedding_program_are_defaulted_validated_and_set_the_status() {
    let server = ApiServer::builder().build();
    let pods = Gvr::new("", "v1", "pods");
    let pod = |image: &str, node: &str| {
        json!({
            "metadata": {"name": "web", "labels": {"image": image}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": image}]},
            "status": {"phase": "Running"},
        })
    };
    let made = server.create(&pods, "default", pod("a", "one")).unwrap();
    assert_eq!(made["status"]["phase"], "Running");
    let updated = server.update(&pods, "default", pod("b", "one")).unwrap();
    assert_eq!(updated["spec"]["containers"][0]["image"], "b");
    assert_eq!(updated["spec"]["dnsPolicy"], "ClusterFirst", "defaulted");
    assert_eq!(updated["status"]["phase"], "Running");
    let refused = server.update(&pods, "default", pod("b", "two")).unwrap_err();
    assert!(refused.to_string().contains("pod updates may not change fields"), "{refused}");
    server.raw().update(&pods, "default", pod("b", "two")).unwrap();
    assert_eq!(server.get(&pods, "default", "web").unwrap()["spec"]["nodeName"], "two");
}

#[test]
fn loaded_services_get_unique_addresses_and_keep_those_of_other_networks() {
    let server = ApiServer::builder().build();
    let services = Gvr::new("", "v1", "services");
    let service = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let open = json!({"type": "NodePort", "ports": [{"port": 80}]});
    let mut all: Vec<Value> = (0..50).map(|index| service(&format!("s{index}"), open.clone())).collect();
    all.push(service("imported", json!({"clusterIP": "10.96.0.1", "ports": [{"port": 443}]})));
    assert_eq!(server.load(&services, all.clone()).unwrap(), 51);
    let stored = server.list(&services, "default").unwrap();
    let addresses: BTreeSet<&str> =
        stored.iter().map(|one| one["spec"]["clusterIP"].as_str().unwrap()).collect();
    assert_eq!(addresses.len(), 51);
    assert!(addresses.contains("10.96.0.1"));
    let port = |one: &Value| one["spec"]["ports"][0]["nodePort"].as_i64();
    assert_eq!(stored.iter().filter_map(port).collect::<BTreeSet<_>>().len(), 50);
    // Services that are loaded again with the same cluster IPs keep them.
    let again =
        stored.iter().map(|one| service(one["metadata"]["name"].as_str().unwrap(), one["spec"].clone()));
    assert_eq!(server.load(&services, again.collect::<Vec<_>>()).unwrap(), 51);
    let taken = service("late", json!({"clusterIP": "10.96.0.1", "ports": [{"port": 443}]}));
    let refused = server.create(&services, "default", taken).unwrap_err();
    assert!(refused.to_string().contains("provided IP is already allocated"), "{refused}");
}
