//! ResourceQuota: the usage that the server maintains in the status.

use std::sync::Arc;

use informer_apiserver::{ApiServer, Controllers};
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{call, json as ask, send_with};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn pods() -> Gvr {
    Gvr::new("", "v1", "pods")
}

fn pod(name: &str, cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}});
    let containers = json!([{"name": "c", "image": "i", "resources": resources}]);
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": containers}})
}

async fn bound(server: &ApiServer, name: &str, hard: Value) {
    let quota = json!({"metadata": {"name": name}, "spec": {"hard": hard}});
    assert_eq!(call(server, "POST", QUOTAS, &quota.to_string()).await.0, 201);
}

async fn make(server: &ApiServer, name: &str, cpu: &str) -> u16 {
    call(server, "POST", PODS, &pod(name, cpu).to_string()).await.0
}

async fn patch(server: &ApiServer, uri: &str, body: Value) -> u16 {
    let headers = [("content-type", "application/merge-patch+json")];
    send_with(server, "PATCH", uri, &headers, &body.to_string()).await.status().as_u16()
}

async fn used(server: &ApiServer, name: &str) -> Value {
    ask(server, "GET", &format!("{QUOTAS}/{name}"), "").await.1["status"]["used"].clone()
}

#[tokio::test]
async fn a_quota_counts_existing_created_and_deleted_objects() {
    let server = ApiServer::builder().build();
    server.create(&pods(), "default", pod("before", "100m")).unwrap();
    bound(&server, "q", json!({"pods": "3", "requests.cpu": "1", "count/configmaps": "9"})).await;
    assert_eq!(
        used(&server, "q").await,
        json!({"pods": "1", "requests.cpu": "100m", "count/configmaps": "0"})
    );
    assert_eq!(make(&server, "a", "500m").await, 201);
    server.create(&pods(), "default", pod("b", "250m")).unwrap();
    assert_eq!(
        used(&server, "q").await,
        json!({"pods": "3", "requests.cpu": "850m", "count/configmaps": "0"})
    );
    assert_eq!(make(&server, "c", "1m").await, 403);
    assert_eq!(
        patch(&server, &format!("{PODS}/a/status"), json!({"status": {"phase": "Succeeded"}})).await,
        200
    );
    assert_eq!(used(&server, "q").await["requests.cpu"], "350m", "a finished pod uses no CPU");
    assert_eq!(make(&server, "c", "1m").await, 201);
    for name in ["a", "b", "before", "c"] {
        assert_eq!(call(&server, "DELETE", &format!("{PODS}/{name}?gracePeriodSeconds=0"), "").await.0, 200);
    }
    assert_eq!(used(&server, "q").await, json!({"pods": "0", "requests.cpu": "0", "count/configmaps": "0"}));
}

#[tokio::test]
async fn rejected_request_does_not_consume_quota() {
    let server = ApiServer::builder().build();
    bound(&server, "q", json!({"pods": "2"})).await;
    assert_eq!(make(&server, "a", "1m").await, 201);
    assert_eq!(make(&server, "a", "1m").await, 409);
    let uri = format!("{PODS}?dryRun=All");
    assert_eq!(call(&server, "POST", &uri, &pod("b", "1m").to_string()).await.0, 201);
    assert_eq!(used(&server, "q").await, json!({"pods": "1"}));
}

#[tokio::test]
async fn a_changed_quota_counts_its_new_resources() {
    let server = ApiServer::builder().build();
    bound(&server, "q", json!({"pods": "2"})).await;
    assert_eq!(make(&server, "a", "300m").await, 201);
    let spec = json!({"spec": {"hard": {"pods": null, "requests.cpu": "1"}}});
    assert_eq!(patch(&server, &format!("{QUOTAS}/q"), spec).await, 200);
    let (_, quota) = ask(&server, "GET", &format!("{QUOTAS}/q"), "").await;
    assert_eq!(quota["status"], json!({"hard": {"requests.cpu": "1"}, "used": {"requests.cpu": "300m"}}));
    assert_eq!(make(&server, "b", "800m").await, 403);
    assert_eq!(make(&server, "b", "700m").await, 201);
}

#[tokio::test]
async fn loaded_objects_are_counted_by_quotas() {
    let server = ApiServer::builder().build();
    bound(&server, "q", json!({"pods": "100"})).await;
    let many: Vec<_> = (0..40).map(|index| pod(&format!("p-{index}"), "1m")).collect();
    assert_eq!(server.load(&pods(), many).unwrap(), 40);
    assert_eq!(used(&server, "q").await, json!({"pods": "40"}));
}

#[tokio::test]
async fn quota_usage_follows_a_restored_snapshot() {
    let server = ApiServer::builder().build();
    bound(&server, "q", json!({"pods": "2"})).await;
    let snapshot = server.snapshot();
    assert_eq!(make(&server, "a", "1m").await, 201);
    server.restore(snapshot).unwrap();
    assert_eq!(used(&server, "q").await, json!({"pods": "0"}));
    assert_eq!(make(&server, "b", "1m").await, 201);
    assert_eq!(used(&server, "q").await, json!({"pods": "1"}));
}

#[tokio::test]
async fn without_the_controller_a_quota_applies_once_a_client_writes_its_status() {
    let server = ApiServer::builder().controllers(Controllers::NONE).build();
    bound(&server, "q", json!({"pods": "1"})).await;
    assert_eq!(make(&server, "a", "1m").await, 201);
    assert_eq!(used(&server, "q").await, Value::Null);
    let status = json!({"status": {"hard": {"pods": "1"}, "used": {"pods": "0"}}});
    assert_eq!(patch(&server, &format!("{QUOTAS}/q/status"), status).await, 200);
    assert_eq!(make(&server, "b", "1m").await, 201);
    assert_eq!(make(&server, "c", "1m").await, 403);
    assert_eq!(call(&server, "DELETE", &format!("{PODS}/b?gracePeriodSeconds=0"), "").await.0, 200);
    assert_eq!(used(&server, "q").await, json!({"pods": "1"}), "no controller reduces the usage");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_creates_never_exceed_the_quota() {
    const ROOM: usize = 7;
    let server = Arc::new(ApiServer::builder().build());
    bound(&server, "q", json!({"pods": ROOM.to_string()})).await;
    let tasks: Vec<_> = (0..64)
        .map(|index| {
            let server = Arc::clone(&server);
            tokio::spawn(async move { make(&server, &format!("p-{index}"), "1m").await })
        })
        .collect();
    let mut made = 0;
    for task in tasks {
        match task.await.unwrap() {
            201 => made += 1,
            status => assert_eq!(status, 403),
        }
    }
    assert_eq!(made, ROOM);
    assert_eq!(used(&server, "q").await, json!({"pods": ROOM.to_string()}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_quota_created_during_other_writes_counts_each_object_once() {
    for round in 0..20 {
        let server = Arc::new(ApiServer::builder().build());
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let server = Arc::clone(&server);
                tokio::spawn(async move {
                    for index in 0..8 {
                        let name = format!("p-{writer}-{index}");
                        assert_eq!(make(&server, &name, "1m").await, 201);
                        if index % 2 == 0 {
                            let uri = format!("{PODS}/{name}?gracePeriodSeconds=0");
                            assert_eq!(call(&server, "DELETE", &uri, "").await.0, 200);
                        }
                    }
                })
            })
            .collect();
        bound(&server, "q", json!({"pods": "100", "requests.cpu": "1"})).await;
        for writer in writers {
            writer.await.unwrap();
        }
        assert_eq!(used(&server, "q").await, json!({"pods": "16", "requests.cpu": "16m"}), "round {round}");
    }
}

#[tokio::test]
async fn quota_is_checked_before_the_conversion_webhook_is_called() {
    let server = ApiServer::builder().build();
    let version = |name: &str, storage: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        json!({"name": name, "served": true, "storage": storage, "schema": schema})
    };
    // No webhook listens at this address, so each conversion of a widget fails.
    let client = json!({"url": "https://127.0.0.1:1/convert"});
    let webhook = json!({"clientConfig": client, "conversionReviewVersions": ["v1"]});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(call(&server, "POST", definitions, &definition.to_string()).await.0, 201);
    let widgets = "/apis/example.com/v2/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "a"}});
    let create = || async { ask(&server, "POST", widgets, &widget.to_string()).await };
    assert_eq!(create().await.0, 500, "the conversion webhook is unreachable");
    bound(&server, "q", json!({"count/widgets.example.com": "0"})).await;
    let (code, status) = create().await;
    assert_eq!(code, 403, "{status}");
    assert!(status["message"].as_str().unwrap().contains("exceeded quota: q"), "{status}");
}
