//! The subresources `ephemeralcontainers` and `resize` of pods, and the admission plugins that check them.

use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{json as ask, read, send_with};

const PODS: &str = "/api/v1/namespaces/n/pods";
const EPHEMERAL: &str = "/api/v1/namespaces/n/pods/web/ephemeralcontainers";
const RESIZE: &str = "/api/v1/namespaces/n/pods/web/resize";

async fn create(server: &ApiServer, uri: &str, object: &Value) -> (u16, Value) {
    ask(server, "POST", uri, &object.to_string()).await
}

/// Creates a server with the pod `web`.
async fn server(metadata: &Value, spec: &Value) -> ApiServer {
    let server = ApiServer::builder().build();
    let mut pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [container("100m")]}});
    merge(&mut pod["metadata"], metadata);
    merge(&mut pod["spec"], spec);
    let (status, created) = create(&server, PODS, &pod).await;
    assert_eq!(status, 201, "{created}");
    server
}

fn merge(into: &mut Value, more: &Value) {
    for (name, value) in more.as_object().unwrap() {
        into[name] = value.clone();
    }
}

fn container(cpu: &str) -> Value {
    json!({"name": "c", "image": "i:1", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}})
}

async fn patch(server: &ApiServer, uri: &str, body: &Value) -> (u16, Value) {
    patch_as(server, uri, "strategic-merge-patch+json", body).await
}

async fn patch_as(server: &ApiServer, uri: &str, format: &str, body: &Value) -> (u16, Value) {
    let headers = [("content-type", &*format!("application/{format}")), ("user-agent", "tester/1")];
    let (status, text) = read(send_with(server, "PATCH", uri, &headers, &body.to_string()).await).await;
    (status, serde_json::from_str(&text).unwrap())
}

async fn resize(server: &ApiServer, cpu: &str) -> (u16, Value) {
    let resources = json!({"requests": {"cpu": cpu}});
    patch(server, RESIZE, &json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})).await
}

fn message(body: &Value) -> &str {
    body["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn ephemeral_containers_are_added_and_other_changes_are_dropped() {
    let server = server(&json!({}), &json!({})).await;
    let debug = json!({"name": "debug", "image": "busybox:1"});
    let change = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"ephemeralContainers": [debug], "containers": [{"name": "c", "image": "i:2"}]},
    });
    let (status, pod) = patch(&server, EPHEMERAL, &change).await;
    assert_eq!(status, 200, "{pod}");
    let added = &pod["spec"]["ephemeralContainers"][0];
    assert_eq!(added["terminationMessagePolicy"], "File", "the new container has its defaults");
    assert_eq!(pod["spec"]["containers"][0]["image"], "i:1");
    assert_eq!(pod["metadata"]["labels"], Value::Null);
    assert_eq!(pod["metadata"]["generation"], 2);
    let managers = pod["metadata"]["managedFields"].as_array().unwrap();
    let manager = managers.iter().find(|entry| entry["manager"] == "tester").unwrap();
    assert_eq!(manager["subresource"], "ephemeralcontainers");
    assert_eq!(ask(&server, "GET", EPHEMERAL, "").await, (200, pod.clone()));

    let (status, same) = ask(&server, "PUT", EPHEMERAL, &pod.to_string()).await;
    assert_eq!((status, &same["metadata"]["generation"]), (200, &json!(2)));
    let mut other = pod.clone();
    other["spec"]["ephemeralContainers"][0]["image"] = "busybox:2".into();
    let (status, refused) = ask(&server, "PUT", EPHEMERAL, &other.to_string()).await;
    assert_eq!(status, 422);
    let changed =
        "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"debug\" may not be changed";
    assert!(message(&refused).contains(changed), "{refused}");
    other["spec"]["ephemeralContainers"] = json!([]);
    let (status, refused) = ask(&server, "PUT", EPHEMERAL, &other.to_string()).await;
    let removed = "existing ephemeral containers \"debug\" may not be removed\n";
    assert!(status == 422 && message(&refused).ends_with(removed), "{refused}");
}

/// Applies an ephemeral container to a pod.
async fn apply_ephemeral_container(server: &ApiServer, name: &str) -> (u16, Value) {
    let uri = format!("{PODS}/{name}/ephemeralcontainers?fieldManager=m");
    let container = json!({"name": "debug", "image": "b:1"});
    let applied = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"ephemeralContainers": [container]}});
    patch_as(server, &uri, "apply-patch+yaml", &applied).await
}

#[tokio::test]
async fn ephemeral_containers_support_server_side_apply_to_an_existing_pod() {
    let server = server(&json!({}), &json!({})).await;
    let (status, pod) = apply_ephemeral_container(&server, "web").await;
    assert_eq!((status, &pod["spec"]["ephemeralContainers"][0]["image"]), (200, &json!("b:1")), "{pod}");
    assert_eq!(apply_ephemeral_container(&server, "none").await.0, 404);
}

#[tokio::test]
async fn ephemeral_container_with_the_name_of_a_container_is_rejected() {
    let server = server(&json!({}), &json!({})).await;
    let bad = json!({"name": "c", "image": "b:1"});
    let (status, rejected) =
        patch(&server, EPHEMERAL, &json!({"spec": {"ephemeralContainers": [bad]}})).await;
    assert_eq!(status, 422);
    assert!(message(&rejected).contains("Duplicate value: \"c\""), "{rejected}");
}

#[tokio::test]
async fn mirror_pods_have_no_ephemeral_containers_and_are_not_resized() {
    let mirror = json!({"annotations": {"kubernetes.io/config.mirror": "x"}});
    let server = server(&mirror, &json!({"nodeName": "a"})).await;
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "b:1"}]}});
    let (status, refused) = patch(&server, EPHEMERAL, &debug).await;
    assert_eq!(status, 422);
    let why = "Pod \"web\" is invalid: []: Forbidden: static pods do not support ephemeral containers";
    assert_eq!(message(&refused), why);
    let (status, refused) = resize(&server, "200m").await;
    assert_eq!(status, 422);
    assert_eq!(message(&refused), "Pod \"web\" is invalid: []: Forbidden: static pods cannot be resized");
}

#[tokio::test]
async fn ephemeral_containers_are_checked_by_pod_security() {
    let server = server(&json!({}), &json!({})).await;
    let labels = json!({"pod-security.kubernetes.io/enforce": "baseline"});
    let namespace = json!({"metadata": {"name": "n", "labels": labels}});
    server.create(&Gvr::new("", "v1", "namespaces"), "", namespace).unwrap();
    let debug = json!({"name": "debug", "image": "b:1", "securityContext": {"privileged": true}});
    let change = json!({"spec": {"ephemeralContainers": [debug]}});
    let (status, refused) = patch(&server, EPHEMERAL, &change).await;
    assert_eq!(status, 403, "{refused}");
    assert!(message(&refused).contains("violates PodSecurity \"baseline:latest\": privileged"), "{refused}");
}

#[tokio::test]
async fn resize_changes_resources_and_keeps_other_fields() {
    let server = server(&json!({}), &json!({})).await;
    let requests = json!({"requests": {"cpu": "200m", "memory": "2Gi"}});
    let change = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "containers": [{"name": "c", "image": "i:2", "resources": requests}],
            "activeDeadlineSeconds": 5,
        },
    });
    let (status, pod) = patch(&server, RESIZE, &change).await;
    assert_eq!(status, 200, "{pod}");
    assert_eq!(pod["spec"]["containers"][0]["resources"], requests);
    assert_eq!(pod["spec"]["containers"][0]["image"], "i:1");
    assert!(pod["spec"]["activeDeadlineSeconds"].is_null() && pod["metadata"]["labels"].is_null());
    assert_eq!(pod["metadata"]["generation"], 2);
    let managers = pod["metadata"]["managedFields"].as_array().unwrap();
    assert!(managers.iter().any(|entry| entry["subresource"] == "resize"), "{pod}");
    // The main resource does not change resources.
    let mut main = pod.clone();
    main["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "300m".into();
    assert_eq!(ask(&server, "PUT", &format!("{PODS}/web"), &main.to_string()).await.0, 422);
}

#[tokio::test]
async fn invalid_resizes_are_rejected() {
    let init = json!([{"name": "init", "image": "i:1"}]);
    let server = server(&json!({}), &json!({"initContainers": init})).await;
    let (_, pod) = ask(&server, "GET", RESIZE, "").await;
    let refused = async |change: &dyn Fn(&mut Value)| {
        let mut other = pod.clone();
        change(&mut other["spec"]);
        let (status, refused) = ask(&server, "PUT", RESIZE, &other.to_string()).await;
        assert_eq!(status, 422, "{refused}");
        message(&refused).trim_start_matches("Pod \"web\" is invalid: ").to_owned()
    };
    let requests = |spec: &mut Value| spec["containers"][0]["resources"]["requests"].take();
    let limits = json!({"limits": {"cpu": "100m", "memory": "1Gi"}});
    assert_eq!(
        refused(&|spec| {
            spec["containers"][0]["resources"]["limits"] = limits["limits"].clone();
            spec["initContainers"][0]["resources"] = limits.clone();
        })
        .await,
        "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing"
    );
    let removed = refused(&|spec| drop(requests(spec))).await;
    assert!(
        removed.contains(
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"
        ),
        "{removed}"
    );
    assert_eq!(
        refused(&|spec| spec["containers"][0]["resizePolicy"] =
            json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]))
        .await,
        "spec: Forbidden: only cpu and memory resources are mutable"
    );
    assert_eq!(
        refused(&|spec| spec["containers"][0]["resources"]["requests"]["ephemeral-storage"] = "1Gi".into())
            .await,
        "spec: Forbidden: only cpu and memory resources are mutable"
    );
    assert_eq!(
        refused(&|spec| spec["containers"][0]["name"] = "d".into()).await,
        "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"
    );
    assert_eq!(
        refused(&|spec| spec["initContainers"] = json!([])).await,
        "spec.initContainers: Forbidden: initContainers may not be added or removed on resize"
    );
    assert_eq!(
        refused(&|spec| spec["initContainers"][0]["resizePolicy"] =
            json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}]))
        .await,
        "spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar containers are mutable"
    );
}

#[tokio::test]
async fn resize_depends_on_the_operating_system_and_the_status_of_the_pod() {
    let windows = server(&json!({}), &json!({"os": {"name": "windows"}})).await;
    let (status, refused) = resize(&windows, "200m").await;
    assert_eq!(status, 422);
    assert_eq!(message(&refused), "Pod \"web\" is invalid: []: Forbidden: windows pods cannot be resized");

    let server = server(&json!({}), &json!({})).await;
    let running = json!({"name": "c", "image": "i:1", "imageID": "", "ready": true, "restartCount": 0,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}});
    let status = json!({"status": {"containerStatuses": [running]}});
    assert_eq!(patch(&server, &format!("{PODS}/web/status"), &status).await.0, 200);
    let (status, refused) = resize(&server, "200m").await;
    assert_eq!(status, 422);
    let why = "Pod \"web\" is invalid: spec: Forbidden: Pod running on node without support for resize";
    assert_eq!(message(&refused), why);
}

#[tokio::test]
async fn pod_level_resources_are_resized_and_cannot_be_removed() {
    let server = server(&json!({}), &json!({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}})).await;
    let change = json!({"spec": {"resources": {"requests": {"cpu": "2"}}}});
    let (status, pod) = patch(&server, RESIZE, &change).await;
    assert_eq!(status, 200, "{pod}");
    assert_eq!(pod["spec"]["resources"]["requests"]["cpu"], "2");
    let mut other = pod;
    other["spec"]["resources"]["requests"] = json!({"cpu": "2"});
    let (status, refused) = ask(&server, "PUT", RESIZE, &other.to_string()).await;
    assert_eq!(status, 422);
    let why = "spec.resources.requests: Forbidden: pod-level resource requests cannot be removed";
    assert!(message(&refused).contains(why), "{refused}");
}

fn node(allocatable_cpu: &str, os: &str) -> Value {
    json!({
        "metadata": {"name": "a", "labels": {"kubernetes.io/os": os}},
        "status": {"allocatable": {"cpu": allocatable_cpu, "memory": "4Gi"}},
    })
}

#[tokio::test]
async fn resize_of_a_scheduled_pod_must_fit_its_linux_node() {
    let server = server(&json!({}), &json!({"nodeName": "a"})).await;
    let (status, refused) = resize(&server, "200m").await;
    assert_eq!(status, 403);
    assert_eq!(message(&refused), "pods \"web\" is forbidden: node \"a\" not found");
    let nodes = Gvr::new("", "v1", "nodes");
    server.create(&nodes, "", node("1", "linux")).unwrap();
    assert_eq!(resize(&server, "1").await.0, 200);
    let (status, refused) = resize(&server, "1500m").await;
    assert_eq!(status, 403);
    assert_eq!(
        message(&refused),
        "pods \"web\" is forbidden: node didn't have enough allocatable resources: cpu, requested: 1500, \
         allocatable: 1000"
    );
    assert_eq!(refused["details"]["causes"], json!([{"reason": "NodeCapacity"}]));
    server.update(&nodes, "", node("2", "windows")).unwrap();
    let (_, refused) = resize(&server, "1500m").await;
    assert_eq!(refused["details"]["causes"], json!([{"reason": "UnsupportedPlatform"}]));
}

#[tokio::test]
async fn resize_of_pod_level_resources_needs_a_declared_feature_of_the_node() {
    let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
    let server = server(&json!({}), &json!({"nodeName": "a", "resources": resources})).await;
    let nodes = Gvr::new("", "v1", "nodes");
    server.create(&nodes, "", node("4", "linux")).unwrap();
    let change = json!({"spec": {"resources": {"requests": {"cpu": "2"}}}});
    let (status, refused) = patch(&server, RESIZE, &change).await;
    assert_eq!(status, 403);
    assert_eq!(
        message(&refused),
        "pods \"web\" is forbidden: pod update requires features InPlacePodLevelResourcesVerticalScaling which are not \
         available on node \"a\""
    );
    let mut declaring = node("4", "linux");
    declaring["status"]["declaredFeatures"] = json!(["InPlacePodLevelResourcesVerticalScaling"]);
    server.update(&nodes, "", declaring).unwrap();
    assert_eq!(patch(&server, RESIZE, &change).await.0, 200);
}

#[tokio::test]
async fn resize_is_checked_against_limit_ranges_and_quotas() {
    let server = server(&json!({}), &json!({})).await;
    let limits = json!([
        {"type": "Pod", "min": {"cpu": "50m"}},
        {"type": "Container", "default": {"memory": "2Gi"}, "defaultRequest": {"memory": "1Gi"}},
    ]);
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": limits}});
    assert_eq!(create(&server, "/api/v1/namespaces/n/limitranges", &range).await.0, 201);
    let (status, refused) = resize(&server, "10m").await;
    assert_eq!(status, 403, "{refused}");
    assert!(message(&refused).contains("minimum cpu usage per Pod is 50m, but request is 10m"), "{refused}");
    let (status, pod) = resize(&server, "100m").await;
    assert_eq!(status, 200);
    let resources = &pod["spec"]["containers"][0]["resources"];
    assert_eq!(resources["limits"], json!({"memory": "2Gi"}), "the LimitRange sets missing limits");
    assert_eq!(ask(&server, "DELETE", "/api/v1/namespaces/n/limitranges/r", "").await.0, 200);

    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1"}}});
    assert_eq!(create(&server, "/api/v1/namespaces/n/resourcequotas", &quota).await.0, 201);
    let (status, refused) = resize(&server, "1100m").await;
    assert_eq!(status, 403);
    let exceeded =
        "exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=100m, limited: requests.cpu=1";
    assert!(message(&refused).ends_with(exceeded), "{refused}");
    assert_eq!(resize(&server, "900m").await.0, 200);
    let (_, quota) = ask(&server, "GET", "/api/v1/namespaces/n/resourcequotas/q", "").await;
    assert_eq!(quota["status"]["used"], json!({"requests.cpu": "900m"}));
}
