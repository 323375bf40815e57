//! Tests of server-side apply through the client, with two field managers of one object.

use informer_runtime::Patch;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::fixture::Server;

#[tokio::test(start_paused = true)]
async fn apply_owns_applied_fields_and_removes_omitted_ones() {
    let server = Server::start();
    let ours = server.client().field_owner("ours");
    let theirs = ours.field_owner("theirs");
    let stating = |data: Value| -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": "m", "namespace": "default"}, "data": data}))
            .unwrap()
    };
    ours.apply(&stating(json!({"a": "1", "b": "2"}))).await.unwrap();
    theirs.patch::<ConfigMap>("default/m", &Patch::merge(json!({"data": {"c": "3"}}))).await.unwrap();
    let applied = ours.apply(&stating(json!({"a": "1"}))).await.unwrap();
    assert_eq!(json!(applied.data), json!({"a": "1", "c": "3"}));
    theirs.patch::<ConfigMap>("default/m", &Patch::merge(json!({"data": {"a": "9"}}))).await.unwrap();
    let error = ours.apply(&stating(json!({"a": "1"}))).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    let forced = ours.force().apply(&stating(json!({"a": "1"}))).await.unwrap();
    assert_eq!(json!(forced.data), json!({"a": "1", "c": "3"}));
    // This object was returned by the server and has managed fields, which the server rejects in an apply
    // request. The client's `apply` removes them.
    ours.force().apply(&**forced.view()).await.unwrap();
    let read = ours.get::<ConfigMap>("default/m").await.unwrap().unwrap();
    assert_eq!(json!(read.data), json!({"a": "1", "c": "3"}));
}
