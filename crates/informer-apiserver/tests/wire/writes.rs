use informer_apiserver::{ApiServer, KindDefinition};
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{Watch, call, json, read, send_with};

const MAPS: &str = "/api/v1/namespaces/n/configmaps";
const PODS: &str = "/api/v1/namespaces/n/pods";

fn server() -> ApiServer {
    ApiServer::builder().kind(KindDefinition::custom("g", "v1", "Widget")).build()
}

fn message(value: &Value) -> &str {
    value["message"].as_str().unwrap()
}

#[tokio::test]
async fn a_created_object_has_server_set_metadata() {
    let server = server();
    let body = json!({"metadata": {"name": "a", "uid": "mine", "deletionTimestamp": "2020-01-01T00:00:00Z", "creationTimestamp": null}});
    let (status, map) = json(&server, "POST", MAPS, &body.to_string()).await;
    assert_eq!(status, 201);
    let metadata = &map["metadata"];
    assert_ne!(metadata["uid"], "mine");
    assert_eq!((&metadata["namespace"], &metadata["deletionTimestamp"]), (&json!("n"), &Value::Null));
    assert_eq!(metadata["resourceVersion"], server.version().to_string());
    assert!(metadata["creationTimestamp"].as_str().unwrap().ends_with('Z'));
    let (status, error) = json(&server, "POST", MAPS, &body.to_string()).await;
    assert_eq!((status, message(&error)), (409, "configmaps \"a\" already exists"));
    assert_eq!(error["details"], json!({"name": "a", "kind": "configmaps"}));
}

#[tokio::test]
async fn a_generated_name_is_its_prefix_and_five_characters() {
    let server = server();
    let body = json!({"metadata": {"generateName": "x".repeat(80)}}).to_string();
    let (status, map) = json(&server, "POST", MAPS, &body).await;
    let name = map["metadata"]["name"].as_str().unwrap();
    assert_eq!((status, name.len()), (201, 63));
}

#[tokio::test]
async fn invalid_bodies_return_the_errors_of_kube_apiserver() {
    let server = server();
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000));
    let widgets = "/apis/g/v1/namespaces/n/widgets";
    let cases = [
        (MAPS, String::new(), 400, "unexpected end of JSON input (<empty>)"),
        (MAPS, "{".into(), 400, "unexpected end of JSON input"),
        (MAPS, deep, 400, "exceeded max depth"),
        (MAPS, "[]".into(), 400, "cannot unmarshal array into Go value"),
        (MAPS, json!({"metadata": {}}).to_string(), 422, "name or generateName is required"),
        (
            MAPS,
            json!({"metadata": {"name": 5}}).to_string(),
            400,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            MAPS,
            json!({"metadata": {"name": "A_b"}}).to_string(),
            422,
            "ConfigMap \"A_b\" is invalid: metadata.name: Invalid value: \"A_b\": a lowercase RFC 1123 subdomain",
        ),
        (
            MAPS,
            json!({"metadata": {"name": "a", "namespace": "m"}}).to_string(),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            MAPS,
            json!({"metadata": {"name": "a", "resourceVersion": "5"}}).to_string(),
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            MAPS,
            json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}}).to_string(),
            400,
            "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            widgets,
            json!({"kind": "Foo", "apiVersion": "g/v1", "metadata": {"name": "a"}}).to_string(),
            422,
            "kind: Invalid value: \"Foo\": must be Widget",
        ),
        (
            widgets,
            json!({"kind": "Widget", "apiVersion": "g/v2", "metadata": {"name": "a"}}).to_string(),
            400,
            "the API version in the data (g/v2) does not match the expected API version (g/v1)",
        ),
        (
            MAPS,
            json!({"metadata": {"name": "a", "finalizers": ["bare"]}}).to_string(),
            422,
            "neither a standard finalizer name",
        ),
    ];
    let version = server.version();
    for (path, body, code, text) in cases {
        let (status, error) = json(&server, "POST", path, &body).await;
        assert!(status == code && message(&error).contains(text), "{text}: {status} {error}");
    }
    assert_eq!(server.version(), version, "nothing was written");
}

#[tokio::test]
async fn a_too_large_body_returns_413_and_an_unknown_media_type_415() {
    let server = server();
    let large = format!("{{\"metadata\":{{\"name\":\"a\"}},\"data\":{{\"x\":\"{}\"}}}}", "y".repeat(3 << 20));
    let (status, error) = json(&server, "POST", MAPS, &large).await;
    assert_eq!((status, message(&error)), (413, "Request entity too large: limit is 3145728"));
    let proto = [("content-type", "application/cbor")];
    assert_eq!(send_with(&server, "POST", MAPS, &proto, "k8s").await.status(), 415);
    let invalid = send_with(&server, "PATCH", &format!("{MAPS}/a"), &[], "{}").await;
    assert_eq!(invalid.status(), 415);
}

#[tokio::test]
async fn yaml_is_accepted() {
    let server = server();
    let yaml = [("content-type", "application/yaml")];
    let response = send_with(&server, "POST", MAPS, &yaml, "metadata: {name: y}\ndata: {a: b}\n").await;
    assert_eq!(response.status(), 201);
    assert_eq!(server.get(&Gvr::new("", "v1", "configmaps"), "n", "y").unwrap()["data"]["a"], "b");
}

#[tokio::test(start_paused = true)]
async fn an_update_without_changes_is_not_written() {
    let server = server();
    let (_, map) =
        json(&server, "POST", MAPS, &json!({"metadata": {"name": "a"}, "data": {"k": "1"}}).to_string())
            .await;
    let path = format!("{MAPS}?watch=1&timeoutSeconds=5&resourceVersion={}", server.version());
    let mut watch = Watch::open(&server, &path).await;
    let (status, same) = json(&server, "PUT", &format!("{MAPS}/a"), &map.to_string()).await;
    assert_eq!((status, &same), (200, &map));
    let merge = [("content-type", "application/merge-patch+json")];
    let response =
        send_with(&server, "PATCH", &format!("{MAPS}/a"), &merge, "{\"data\":{\"k\":\"1\"}}").await;
    assert_eq!(response.status(), 200);
    assert!(watch.rest().await.is_empty());
}

#[tokio::test]
async fn an_update_without_a_version_replaces_the_object() {
    let server = server();
    let first = json!({"metadata": {"name": "a"}, "data": {"k": "1"}});
    let (_, before) = json(&server, "POST", MAPS, &first.to_string()).await;
    let second = json!({"metadata": {"name": "a"}, "data": {"l": "2"}});
    let (status, after) = json(&server, "PUT", &format!("{MAPS}/a"), &second.to_string()).await;
    assert_eq!((status, &after["data"]), (200, &json!({"l": "2"})));
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_ne!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn an_update_of_an_old_version_or_another_uid_is_a_conflict() {
    let server = server();
    let (_, mut map) = json(&server, "POST", MAPS, &json!({"metadata": {"name": "a"}}).to_string()).await;
    map["data"] = json!({"k": "1"});
    let item = format!("{MAPS}/a");
    assert_eq!(json(&server, "PUT", &item, &map.to_string()).await.0, 200);
    map["data"] = json!({"k": "2"});
    let (status, error) = json(&server, "PUT", &item, &map.to_string()).await;
    let text = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again";
    assert_eq!((status, message(&error), &error["reason"]), (409, text, &json!("Conflict")));
    let other = json!({"metadata": {"name": "a", "uid": "x"}}).to_string();
    let (status, error) = json(&server, "PUT", &item, &other).await;
    assert!(
        status == 409 && message(&error).contains("UID in precondition: x, UID in object meta: "),
        "{error}"
    );
    let (status, error) = json(&server, "PUT", &item, &json!({"metadata": {"name": "b"}}).to_string()).await;
    assert_eq!(
        (status, message(&error)),
        (400, "the name of the object (b) does not match the name on the URL (a)")
    );
    let missing = json!({"metadata": {"name": "z"}}).to_string();
    assert_eq!(json(&server, "PUT", &format!("{MAPS}/z"), &missing).await.0, 404);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/n/leases/z";
    assert_eq!(json(&server, "PUT", lease, &missing).await.0, 201);
    let (status, error) = json(&server, "PUT", lease, &missing).await;
    let text = "leases.coordination.k8s.io \"z\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    assert_eq!((status, message(&error)), (422, text));
}

#[tokio::test]
async fn status_and_spec_are_written_separately_and_only_spec_changes_increase_the_generation() {
    let server = server();
    let deployments = "/apis/apps/v1/namespaces/n/deployments";
    let body = |replicas: i64, status: i64| {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        json!({
            "metadata": {"name": "d"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template},
            "status": {"replicas": status},
        })
        .to_string()
    };
    let (_, made) = json(&server, "POST", deployments, &body(1, 9)).await;
    assert_eq!((&made["status"], &made["metadata"]["generation"]), (&json!({}), &json!(1)));
    let (_, status) = json(&server, "PUT", &format!("{deployments}/d/status"), &body(2, 5)).await;
    assert_eq!((&status["spec"]["replicas"], &status["status"]), (&json!(1), &json!({"replicas": 5})));
    assert_eq!(status["metadata"]["generation"], 1);
    let (_, main) = json(&server, "PUT", &format!("{deployments}/d"), &body(2, 7)).await;
    assert_eq!((&main["spec"]["replicas"], &main["status"]), (&json!(2), &json!({"replicas": 5})));
    assert_eq!(main["metadata"]["generation"], 2);
}

#[tokio::test]
async fn patches_are_applied_or_rejected() {
    let server = server();
    json(
        &server,
        "POST",
        MAPS,
        &json!({"metadata": {"name": "a"}, "data": {"x": "1", "y": "2"}}).to_string(),
    )
    .await;
    let item = format!("{MAPS}/a");
    let merge = [("content-type", "application/merge-patch+json; charset=utf-8")];
    let patch = json!({"data": {"x": null, "z": "3"}}).to_string();
    let (status, body) = read(send_with(&server, "PATCH", &item, &merge, &patch).await).await;
    assert!(status == 200 && body.contains("\"data\":{\"y\":\"2\",\"z\":\"3\"}"), "{body}");
    let json_patch = [("content-type", "application/json-patch+json")];
    let patch = json!([{"op": "test", "path": "/data/y", "value": "2"}, {"op": "remove", "path": "/data/z"}])
        .to_string();
    assert_eq!(send_with(&server, "PATCH", &item, &json_patch, &patch).await.status(), 200);
    let (status, body) = read(send_with(&server, "PATCH", &item, &json_patch, &patch).await).await;
    assert!(
        status == 422 && body.contains("the server rejected our request due to an error in our request"),
        "{body}"
    );
    let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {"q": "1"}}).to_string();
    assert_eq!(send_with(&server, "PATCH", &item, &merge, &stale).await.status(), 409);
    assert_eq!(send_with(&server, "PATCH", &item, &merge, "{").await.status(), 400);
}

#[tokio::test(start_paused = true)]
async fn removing_the_last_finalizer_deletes_and_watches_get_the_last_stored_state() {
    let server = server();
    let body = json!({"metadata": {"name": "a", "finalizers": ["x.io/f"]}, "data": {"k": "1"}});
    json(&server, "POST", MAPS, &body.to_string()).await;
    let item = format!("{MAPS}/a");
    let path = format!("{MAPS}?watch=1&timeoutSeconds=5&resourceVersion={}", server.version());
    let mut watch = Watch::open(&server, &path).await;
    let (status, pending) = json(&server, "DELETE", &item, "").await;
    assert_eq!((status, &pending["metadata"]["deletionGracePeriodSeconds"]), (200, &json!(0)));
    let version = server.version();
    json(&server, "DELETE", &item, "").await;
    assert_eq!(server.version(), version, "a repeated deletion writes nothing");
    let (status, error) = json(&server, "POST", MAPS, &body.to_string()).await;
    assert_eq!((status, message(&error)), (409, "object is being deleted: configmaps \"a\" already exists"));
    let merge = [("content-type", "application/merge-patch+json")];
    let more = json!({"metadata": {"finalizers": ["x.io/f", "x.io/g"]}}).to_string();
    assert_eq!(send_with(&server, "PATCH", &item, &merge, &more).await.status(), 422);
    let last = json!({"metadata": {"finalizers": null}, "data": {"k": "2"}}).to_string();
    let (status, response) = read(send_with(&server, "PATCH", &item, &merge, &last).await).await;
    assert!(status == 200 && response.contains(&format!("\"resourceVersion\":\"{version}\"")), "{response}");
    assert!(watch.line().await.unwrap().starts_with("{\"type\":\"MODIFIED\""));
    let deleted = watch.line().await.unwrap();
    assert!(
        deleted.starts_with("{\"type\":\"DELETED\"")
            && deleted.contains("x.io/f")
            && deleted.contains("\"k\":\"1\"")
    );
    assert!(deleted.contains(&format!("\"resourceVersion\":\"{}\"", version + 1)), "{deleted}");
    assert_eq!(json(&server, "GET", &item, "").await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_forced_pod_deletion_sends_two_events() {
    let server = server();
    json(
        &server,
        "POST",
        PODS,
        &json!({
            "metadata": {"name": "bound"},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        })
        .to_string(),
    )
    .await;
    let path = format!("{PODS}?watch=1&timeoutSeconds=5&resourceVersion={}", server.version());
    let mut watch = Watch::open(&server, &path).await;
    let item = format!("{PODS}/bound");
    let (_, pod) = json(&server, "DELETE", &item, "").await;
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    let (_, pod) = json(&server, "DELETE", &item, &json!({"gracePeriodSeconds": 10}).to_string()).await;
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 10);
    let version = server.version();
    json(&server, "DELETE", &item, "").await;
    assert_eq!(server.version(), version, "a grace period is never made longer");
    let (_, pod) = json(&server, "DELETE", &format!("{item}?gracePeriodSeconds=0"), "").await;
    assert_eq!(pod["metadata"]["resourceVersion"], (version + 2).to_string());
    assert_eq!(pod["metadata"]["generation"], 2, "the generation increases once");
    assert_eq!(watch.rest().await, ["MODIFIED bound", "MODIFIED bound", "MODIFIED bound", "DELETED bound"]);
}

#[tokio::test]
async fn preconditions_guard_a_deletion() {
    let server = server();
    json(&server, "POST", MAPS, &json!({"metadata": {"name": "a"}}).to_string()).await;
    let item = format!("{MAPS}/a");
    let (status, error) =
        json(&server, "DELETE", &item, &json!({"preconditions": {"uid": "x"}}).to_string()).await;
    let head = "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (x) does not match the UID in record (";
    assert!(status == 409 && message(&error).starts_with(head), "{error}");
    assert_eq!(
        json(&server, "DELETE", &item, &json!({"preconditions": {"resourceVersion": "1"}}).to_string())
            .await
            .0,
        409
    );
    assert_eq!(json(&server, "DELETE", &format!("{item}?propagationPolicy=Never"), "").await.0, 422);
    let (status, done) = json(&server, "DELETE", &item, "").await;
    assert_eq!(
        (status, &done["status"], &done["details"]["kind"]),
        (200, &json!("Success"), &json!("configmaps"))
    );
}

#[tokio::test]
async fn deletecollection_deletes_and_returns_matching_objects() {
    let server = server();
    for name in ["a", "b", "c"] {
        json(
            &server,
            "POST",
            MAPS,
            &json!({"metadata": {"name": name, "labels": {"keep": (name == "b").to_string()}}}).to_string(),
        )
        .await;
    }
    let (status, list) = json(&server, "DELETE", &format!("{MAPS}?labelSelector=keep%3Dfalse"), "").await;
    assert_eq!((status, list["items"].as_array().unwrap().len()), (200, 2));
    assert_eq!(server.list(&Gvr::new("", "v1", "configmaps"), "").unwrap().len(), 1);
}

#[tokio::test]
async fn namespaces_are_optionally_required_and_delete_their_content() {
    let server = ApiServer::builder().require_namespaces(true).build();
    let body = json!({"metadata": {"name": "a"}}).to_string();
    let (status, error) = json(&server, "POST", MAPS, &body).await;
    assert_eq!((status, message(&error)), (404, "namespaces \"n\" not found"));
    let (_, namespace) =
        json(&server, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": "n"}}).to_string()).await;
    assert_eq!(namespace["status"]["phase"], "Active");
    assert_eq!(json(&server, "POST", MAPS, &body).await.0, 201);
    assert_eq!(json(&server, "DELETE", "/api/v1/namespaces/n", "").await.0, 200);
    server.controllers_idle().await;
    assert_eq!(json(&server, "GET", "/api/v1/namespaces/n", "").await.0, 404);
    assert_eq!(json(&server, "GET", &format!("{MAPS}/a"), "").await.0, 404);
    let (status, error) = json(&server, "DELETE", "/api/v1/namespaces/default", "").await;
    assert_eq!(
        (status, message(&error)),
        (403, "namespaces \"default\" is forbidden: this namespace may not be deleted")
    );
}

#[tokio::test]
async fn discovery_lists_the_served_kinds_in_both_formats() {
    let server = server();
    let (_, core) = json(&server, "GET", "/api/v1", "").await;
    let pods = core["resources"].as_array().unwrap().iter().find(|r| r["name"] == "pods").unwrap();
    assert_eq!(
        (&pods["kind"], &pods["shortNames"], &core["apiVersion"]),
        (&json!("Pod"), &json!(["po"]), &Value::Null)
    );
    let (_, groups) = json(&server, "GET", "/apis", "").await;
    let last = groups["groups"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["name"], &last["preferredVersion"]["groupVersion"]), (&json!("g"), &json!("g/v1")));
    let accept =
        [("accept", "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io,application/json")];
    let response = send_with(&server, "GET", "/apis", &accept, "").await;
    assert_eq!(
        response.headers()["content-type"],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    let etag = response.headers()["etag"].to_str().unwrap().to_owned();
    let (_, body) = read(response).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    let widget = &body["items"].as_array().unwrap().last().unwrap()["versions"][0]["resources"][0];
    assert_eq!((&widget["resource"], &widget["responseKind"]["group"]), (&json!("widgets"), &json!("g")));
    let again = send_with(&server, "GET", "/apis", &[accept[0], ("if-none-match", &etag)], "").await;
    assert_eq!(again.status(), 304);
    assert_eq!(call(&server, "GET", "/readyz", "").await, (200, "ok".to_owned()));
    assert_eq!(json(&server, "GET", "/version", "").await.1["minor"], "36");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn services_created_concurrently_never_share_an_address_or_a_port() {
    let server = ApiServer::builder().build();
    let mut tasks = Vec::new();
    for number in 0..60 {
        let server = server.clone();
        tasks.push(tokio::spawn(async move {
            let ports = json!([{"port": 80}]);
            let service = json!({"metadata": {"name": format!("s-{number}")}, "spec": {"type": "NodePort", "ports": ports}});
            let made = call(&server, "POST", "/api/v1/namespaces/n/services", &service.to_string()).await;
            assert_eq!(made.0, 201);
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let services = server.list(&Gvr::new("", "v1", "services"), "n").unwrap();
    let distinct = |pointer: &str| -> usize {
        let all: std::collections::HashSet<String> =
            services.iter().map(|service| service.pointer(pointer).unwrap().to_string()).collect();
        all.len()
    };
    assert_eq!(
        (services.len(), distinct("/spec/clusterIP"), distinct("/spec/ports/0/nodePort")),
        (60, 60, 60)
    );
}

#[tokio::test]
async fn a_pod_updated_without_its_priority_keeps_it() {
    let server = ApiServer::builder().build();
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "priorityClassName": "system-node-critical"},
    });
    assert_eq!(call(&server, "POST", PODS, &pod.to_string()).await.0, 201);
    let (status, text) = call(&server, "PUT", &format!("{PODS}/p"), &pod.to_string()).await;
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("\"priority\":2000001000"), "{text}");
}

#[tokio::test]
async fn fields_newer_than_the_served_release_are_unknown() {
    let server = server();
    // Kubernetes 1.36 does not have `bindMountOptions`, which is a field of Kubernetes 1.37.
    let mount = json!({"name": "data", "mountPath": "/data", "bindMountOptions": ["noexec"]});
    let container = json!({"name": "a", "image": "a", "volumeMounts": [mount]});
    let volumes = json!([{"name": "data", "emptyDir": {}}]);
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [container], "volumes": volumes}});
    let (status, error) =
        json(&server, "POST", &format!("{PODS}?fieldValidation=Strict"), &pod.to_string()).await;
    let expected = "unknown field \"spec.containers[0].volumeMounts[0].bindMountOptions\"";
    assert!(status == 400 && message(&error).contains(expected), "{status} {error}");
    let (status, stored) = json(&server, "POST", PODS, &pod.to_string()).await;
    assert_eq!(
        (status, &stored["spec"]["containers"][0]["volumeMounts"][0]["bindMountOptions"]),
        (201, &Value::Null)
    );
}

#[tokio::test]
async fn containers_of_a_stateful_set_may_mount_its_claim_templates() {
    let container = json!({
        "name": "db",
        "image": "registry.example.com/db:1",
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    });
    let set = json!({
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [container]}},
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    });
    let path = "/apis/apps/v1/namespaces/n/statefulsets";
    let (status, created) = json(&server(), "POST", path, &set.to_string()).await;
    assert_eq!(status, 201, "{created}");
}
