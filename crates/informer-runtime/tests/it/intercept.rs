use std::sync::Arc;

use informer_apiserver::Verb;
use informer_runtime::{DeleteOptions, ListOptions, Next, Operation, OperationVerb, Patch, WriteError};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::client::config_map;
use crate::fixture::Server;

#[tokio::test(start_paused = true)]
async fn interceptor_sees_every_verb_and_may_respond() {
    let server = Server::start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let client = server.client().intercept(move |operation: Operation, next: Next| {
        log.lock().push(operation.to_string());
        async move {
            match operation.verb {
                OperationVerb::Delete => {
                    Err(WriteError::Stopped { attempt: operation.to_string(), cause: "not today".into() })
                }
                _ => next.run(operation).await,
            }
        }
    });
    let map = client.create(&config_map("default/m", "red")).await.unwrap();
    let mut edited = map.edit();
    edited.data = None;
    client.update(&edited).await.unwrap();
    assert!(client.get::<ConfigMap>("default/m").await.unwrap().is_some());
    assert!(client.get::<ConfigMap>("default/none").await.unwrap().is_none());
    assert_eq!(client.list::<ConfigMap>(&ListOptions::default()).await.unwrap().len(), 1);
    client.live().get::<ConfigMap>("default/m").await.unwrap();
    client.delete::<ConfigMap>("default/m").await.unwrap_err();
    client.status().patch::<Pod>("default/none", &Patch::merge(json!({}))).await.unwrap_err();
    client.replace(&config_map("default/m", "blue")).await.unwrap();
    client.force().field_owner("test").apply(&config_map("default/m", "green")).await.unwrap();
    client.subresource("eviction").create::<Pod, Value>("default/none", &json!({})).await.unwrap_err();
    let all = ListOptions::default().namespace("default");
    client.delete_all::<ConfigMap>(&all, &DeleteOptions::default()).await.unwrap();
    let wanted = [
        "create configmaps default/m",
        "patch configmaps default/m",
        "get configmaps default/m",
        "get configmaps default/none",
        "list configmaps",
        "get configmaps default/m",
        "delete configmaps default/m",
        "patch pods/status default/none",
        "replace configmaps default/m",
        "apply configmaps default/m",
        "create pods/eviction default/none",
        "delete collection of configmaps in namespace default",
    ];
    assert_eq!(*seen.lock(), wanted);
    assert_eq!(server.api.count_requests(Verb::Delete, "configmaps"), 0);
}

#[tokio::test(start_paused = true)]
async fn last_interceptor_is_called_first_and_may_change_the_request() {
    let server = Server::start();
    let paint = |wanted: &'static str| {
        move |mut operation: Operation, next: Next| async move {
            operation.body["data"][wanted] = operation.body["data"]["color"].clone();
            operation.body["data"]["color"] = json!(wanted);
            next.run(operation).await
        }
    };
    let client = server.client().intercept(paint("blue")).intercept(paint("green"));
    let map = client.create(&config_map("default/m", "red")).await.unwrap();
    assert_eq!(json!(map.data), json!({"color": "blue", "green": "red", "blue": "green"}));
}
