mod clients;
mod decoding;
mod lists;
mod raw;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, StatusCode};
use informer_apiserver::ApiServer;
use informer_client::{Client, ListKeys};
use informer_core::{Gvk, Gvr};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_core::Resource;
use proptest::prelude::*;
use rustls::crypto::ring::default_provider;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    AdmissionOperation, AdmissionRequest, Allowed, Conversion, Denied, RegisteredWebhook, WebhookOptions,
    WebhookServer, patch,
};
use crate::{Manager, Tls};

fn server() -> WebhookServer {
    WebhookServer::at("127.0.0.1:0", Tls::files("tls.crt", "tls.key", default_provider()))
}

fn review(kind: &str, operation: &str, object: Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "4711",
            "kind": {"group": "", "version": "v1", "kind": kind},
            "resource": {"group": "", "version": "v1", "resource": "things"},
            "name": "web", "namespace": "default", "operation": operation,
            "userInfo": {"username": "jane", "groups": ["admins"]},
            "object": object,
        }
    })
}

async fn post(server: &WebhookServer, path: &str, body: impl Into<Bytes>) -> (StatusCode, Value) {
    let request = Request::post(path).header("content-type", "application/json").body(body.into());
    exchange(server, request.expect("a valid request")).await
}

async fn exchange(server: &WebhookServer, request: Request<Bytes>) -> (StatusCode, Value) {
    let response = server.respond(request).await;
    let text = String::from_utf8_lossy(response.body()).into_owned();
    (response.status(), serde_json::from_slice(response.body()).unwrap_or(Value::String(text)))
}

fn no_passwords() -> WebhookServer {
    server().validate(|request: AdmissionRequest<ConfigMap>| async move {
        let map = match request.object.clone() {
            Some(map) => map,
            None => request.old_object()?.unwrap_or_default(),
        };
        let data = map.data.unwrap_or_default();
        if data.contains_key("invalid") {
            return Err(Denied::invalid("data.invalid is not a valid key"));
        }
        if data.contains_key("panic") {
            panic!("in the validator");
        }
        if data.contains_key("password") {
            Err(Denied::new("put passwords into a Secret").warning("twice"))
        } else {
            Ok(Allowed::new().warning(format!("hello {}", request.user.username)))
        }
    })
}

#[tokio::test]
async fn validator_allows_and_denies_with_warnings() {
    let server = no_passwords();
    let (status, reviewed) =
        post(&server, "/validate--v1-configmap", review("ConfigMap", "CREATE", json!({})).to_string()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(reviewed["response"], json!({"uid": "4711", "allowed": true, "warnings": ["hello jane"]}));
    assert_eq!(
        (&reviewed["apiVersion"], &reviewed["kind"]),
        (&json!("admission.k8s.io/v1"), &json!("AdmissionReview"))
    );
    let bad = review("ConfigMap", "UPDATE", json!({"data": {"password": "x"}}));
    let (_, reviewed) = post(&server, "/validate--v1-configmap", bad.to_string()).await;
    let status = json!({"status": "Failure", "code": 403, "reason": "Forbidden", "message": "put passwords into a Secret"});
    assert_eq!(
        reviewed["response"],
        json!({"uid": "4711", "allowed": false, "status": status, "warnings": ["twice"]})
    );
}

#[tokio::test]
async fn invalid_object_is_denied_with_code_422_and_reason_invalid() {
    let review = review("ConfigMap", "CREATE", json!({"data": {"invalid": ""}}));
    let (_, reviewed) = post(&no_passwords(), "/validate--v1-configmap", review.to_string()).await;
    let status = json!({"status": "Failure", "code": 422, "reason": "Invalid", "message": "data.invalid is not a valid key"});
    assert_eq!(reviewed["response"]["status"], status);
}

#[tokio::test]
async fn v1beta1_review_gets_v1beta1_response() {
    let mut old = review("ConfigMap", "CREATE", json!({}));
    old["apiVersion"] = json!("admission.k8s.io/v1beta1");
    let (_, reviewed) = post(&no_passwords(), "/validate--v1-configmap", old.to_string()).await;
    assert_eq!(reviewed["apiVersion"], "admission.k8s.io/v1beta1");
    assert_eq!(reviewed["response"]["allowed"], true);
}

#[tokio::test]
async fn hostile_input_gets_an_error_and_never_a_panic() {
    let (server, path) = (no_passwords(), "/validate--v1-configmap");
    for body in ["", "{", "[]", "null", "{}", "{\"kind\": 5}", "{\"apiVersion\": \"v1\", \"kind\": \"X\"}"] {
        assert_eq!(post(&server, path, body).await.0, StatusCode::BAD_REQUEST, "{body:?}");
    }
    let other = Request::post(path).header("content-type", "text/plain").body(Bytes::from_static(b"{}"));
    assert_eq!(exchange(&server, other.expect("valid")).await.0, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let get = Request::get(path).body(Bytes::new()).expect("valid");
    assert_eq!(exchange(&server, get).await.0, StatusCode::METHOD_NOT_ALLOWED);

    let denied = |review: Value| {
        let server = &server;
        async move {
            let (status, reviewed) = post(server, path, review.to_string()).await;
            assert_eq!(
                (status, &reviewed["response"]["uid"]),
                (StatusCode::OK, &json!("4711")),
                "{reviewed}"
            );
            assert_eq!(reviewed["response"]["allowed"], false);
            reviewed["response"]["status"].clone()
        }
    };
    let wrong_kind = denied(review("Pod", "CREATE", json!({}))).await;
    assert_eq!(wrong_kind["message"], "this webhook handles ConfigMap, not Pod");
    let wrong_type = denied(review("ConfigMap", "CREATE", json!({"data": {"key": ["secret"]}}))).await;
    assert_eq!(wrong_type["code"], 400);
    let message = wrong_type["message"].as_str().expect("a message");
    assert!(message.contains("data.key") && !message.contains("secret"), "{message}");
    let mut version = review("ConfigMap", "CREATE", json!({}));
    version["apiVersion"] = json!("admission.k8s.io/v2");
    assert_eq!(denied(version).await["code"], 400);
    let operation = denied(review("ConfigMap", "EXPLODE", json!({}))).await;
    assert_eq!(operation["code"], 400);
    assert_eq!(denied(review("ConfigMap", "CREATE", json!({"data": {"panic": ""}}))).await["code"], 500);
}

/// Sends a review with this operation and object to a webhook that adds a label to Pods. Returns the patch in
/// the response, if there is one.
async fn labelled(operation: &str, object: Value) -> Option<Value> {
    let server = server().default(|_, mut pod: Pod| async move {
        pod.metadata.labels.get_or_insert_default().insert("team".to_owned(), "blue".to_owned());
        if let Some(spec) = &mut pod.spec {
            spec.containers[0].image = Some("new".to_owned());
        }
        Ok(pod)
    });
    let (_, reviewed) = post(&server, "/mutate--v1-pod", review("Pod", operation, object).to_string()).await;
    assert_eq!(reviewed["response"]["allowed"], true, "{reviewed}");
    let patch = reviewed["response"]["patch"].as_str()?;
    assert_eq!(reviewed["response"]["patchType"], "JSONPatch");
    serde_json::from_slice(&STANDARD.decode(patch).expect("base64")).ok()
}

#[tokio::test]
async fn defaulter_patch_keeps_unknown_fields() {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"futureField": 1, "containers": [{"name": "web", "image": "old", "futureField": {"a": 1}}]},
    });
    let patch = labelled("CREATE", object.clone()).await.expect("a patch");
    let mut patched = object;
    let patch: json_patch::Patch = serde_json::from_value(patch).expect("a patch");
    json_patch::patch(&mut patched, &patch).expect("the patch applies");
    assert_eq!(patched["metadata"]["labels"]["team"], "blue");
    assert_eq!(
        patched["spec"]["containers"][0],
        json!({"name": "web", "image": "new", "futureField": {"a": 1}})
    );
    assert_eq!(patched["spec"]["futureField"], 1);
}

#[tokio::test]
async fn defaulter_is_not_called_for_deletions_and_sends_no_empty_patch() {
    assert_eq!(labelled("DELETE", Value::Null).await, None);
    let done = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"team": "blue"}},
    });
    assert_eq!(labelled("UPDATE", done).await, None);
}

#[test]
fn paths_are_those_of_controller_runtime() {
    assert_eq!(super::path::<Pod>("validate"), "/validate--v1-pod");
    assert_eq!(super::path::<Deployment>("mutate"), "/mutate-apps-v1-deployment");
    assert_eq!(
        super::path::<k8s_openapi::api::networking::v1::NetworkPolicy>("mutate"),
        "/mutate-networking-k8s-io-v1-networkpolicy"
    );
}

/// Returns an object as a Rust type would show it that does not know the fields whose names begin with `x`:
/// without these fields.
fn view(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter().filter(|(k, _)| !k.starts_with('x')).map(|(k, v)| (k.clone(), view(v))).collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(view).collect()),
        other => other.clone(),
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..5_i64).prop_map(Value::from)];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let name = prop::sample::select(vec!["a", "b", "name", "a/b", "x1", "x2"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..4).prop_map(|map| map
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<serde_json::Map<_, _>>()
                .into()),
        ]
    })
}

proptest! {
    #[test]
    fn patch_transforms_the_view(raw in values(), after in values()) {
        let (before, after) = (view(&raw), view(&after));
        let operations = patch::between(&raw, &before, &after, &ListKeys::default());
        let mut patched = raw.clone();
        let patch: json_patch::Patch = serde_json::from_value(Value::Array(operations)).expect("a patch");
        json_patch::patch(&mut patched, &patch).expect("the patch applies");
        prop_assert_eq!(view(&patched), after);
    }

    #[test]
    fn unchanged_view_is_not_patched(raw in values()) {
        let before = view(&raw);
        prop_assert!(patch::between(&raw, &before, &before, &ListKeys::default()).is_empty());
    }
}

macro_rules! version {
    ($name:ident, $version:literal, $field:ident) => {
        #[derive(Serialize, Deserialize, Clone)]
        struct $name {
            metadata: kube_core::ObjectMeta,
            $field: String,
        }

        impl Resource for $name {
            type DynamicType = ();
            type Scope = kube_core::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                "Greeting".into()
            }
            fn group((): &()) -> std::borrow::Cow<'_, str> {
                "example.com".into()
            }
            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }
            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                "greetings".into()
            }
            fn meta(&self) -> &kube_core::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut kube_core::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

version!(GreetingV1, "v1", text);
version!(GreetingV1beta1, "v1beta1", words);
version!(GreetingV1alpha1, "v1alpha1", letters);

fn greetings() -> WebhookServer {
    type Converted<T> = Result<T, std::io::Error>;
    let conversion = Conversion::hub::<GreetingV1>()
        .spoke(
            |old: GreetingV1beta1| -> Converted<GreetingV1> {
                Ok(GreetingV1 { metadata: old.metadata, text: old.words })
            },
            |new: GreetingV1| Ok(GreetingV1beta1 { metadata: new.metadata, words: new.text }),
        )
        .spoke(
            |old: GreetingV1alpha1| -> Converted<GreetingV1> {
                match old.letters.as_str() {
                    "" => Err(std::io::Error::other("it says nothing")),
                    _ => Ok(GreetingV1 { metadata: old.metadata, text: old.letters }),
                }
            },
            |new: GreetingV1| Ok(GreetingV1alpha1 { metadata: new.metadata, letters: new.text }),
        );
    server().convert([conversion])
}

async fn converted(desired: &str, objects: Value) -> Value {
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "4711", "desiredAPIVersion": desired, "objects": objects},
    });
    let (status, reviewed) = post(&greetings(), "/convert", review.to_string()).await;
    assert_eq!((status, &reviewed["response"]["uid"]), (StatusCode::OK, &json!("4711")));
    reviewed["response"].clone()
}

fn greeting(version: &str, field: &str, text: &str) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Greeting", "metadata": {"name": "hi"}, field: text})
}

#[test]
fn registered_webhooks_have_the_resources_of_their_types_and_no_duplicates() {
    let allow = |_: AdmissionRequest<Deployment>| async { Ok(Allowed::new()) };
    let webhooks = greetings()
        .validate(allow)
        .default(|_, map: ConfigMap| async move { Ok(map) })
        .validate_with(WebhookOptions::new().operations([AdmissionOperation::Delete]), allow)
        .convert([Conversion::hub::<GreetingV1>()]);
    let conversion = Gvk::new("example.com", "v1", "Greeting");
    assert_eq!(
        webhooks.registered(),
        [
            RegisteredWebhook::Mutating {
                path: "/mutate--v1-configmap".to_owned(),
                resource: Gvr::new("", "v1", "configmaps"),
                options: WebhookOptions::new(),
            },
            RegisteredWebhook::Validating {
                path: "/validate-apps-v1-deployment".to_owned(),
                resource: Gvr::new("apps", "v1", "deployments"),
                options: WebhookOptions::new().operations([AdmissionOperation::Delete]),
            },
            RegisteredWebhook::Conversion { path: "/convert".to_owned(), kind: conversion },
        ]
    );
}

#[tokio::test]
async fn standalone_webhook_server_responds_and_cannot_run_in_a_manager() {
    let allow = |_: AdmissionRequest<ConfigMap>| async { Ok(Allowed::new()) };
    let webhooks = WebhookServer::standalone().validate(allow);
    let create = review("ConfigMap", "CREATE", json!({})).to_string();
    let (_, reviewed) = post(&webhooks, "/validate--v1-configmap", create).await;
    assert_eq!(reviewed["response"]["allowed"], true);

    let client = Client::from_service(ApiServer::builder().build().service(), "default");
    let error = Manager::new(client).add(webhooks).run_until(std::future::pending::<()>()).await;
    let error = error.expect_err("it has no certificate");
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    assert_eq!(
        cause,
        "run the webhook server: it is standalone, without address and certificate; create it with \
         WebhookServer::new or WebhookServer::at"
    );
}

#[tokio::test]
async fn objects_are_converted_through_the_hub() {
    let objects = json!([
        greeting("v1beta1", "words", "a"),
        greeting("v1", "text", "b"),
        greeting("v1alpha1", "letters", "c")
    ]);
    let response = converted("example.com/v1beta1", objects).await;
    assert_eq!(response["result"]["status"], "Success", "{response}");
    let words: Vec<&str> = (0..3).filter_map(|i| response["convertedObjects"][i]["words"].as_str()).collect();
    assert_eq!(words, ["a", "b", "c"]);
    assert_eq!(response["convertedObjects"][2]["apiVersion"], "example.com/v1beta1");
}

#[tokio::test]
async fn failed_conversion_names_the_object() {
    let message = |response: Value| response["result"]["message"].as_str().unwrap_or_default().to_owned();
    let nothing = converted("example.com/v1", json!([greeting("v1alpha1", "letters", "")])).await;
    assert_eq!(nothing["result"]["status"], "Failure");
    assert_eq!(message(nothing), "convert Greeting hi to v1: it says nothing");
    let unknown = converted("example.com/v7", json!([greeting("v1", "text", "a")])).await;
    assert_eq!(
        message(unknown),
        "convert Greeting hi to v7: there is no conversion of Greeting to or from v7"
    );
    let field = converted("example.com/v1", json!([greeting("v1beta1", "text", "secret")])).await;
    assert!(!message(field.clone()).contains("secret") && message(field).contains("the field"));
    let group = converted("other.com/v1", json!([greeting("v1", "text", "a")])).await;
    assert_eq!(message(group), "there is no conversion of Greeting in other.com");
}

#[cfg(feature = "prometheus")]
#[tokio::test]
async fn reviews_are_counted_by_path_and_code() {
    let mut registry = prometheus_client::registry::Registry::default();
    let server = no_passwords();
    let _ = server.metrics.set(super::WebhookMetrics::register(&mut registry));
    let path = "/validate--v1-configmap";
    let panics = review("ConfigMap", "CREATE", json!({"data": {"panic": ""}}));
    for body in ["{}".to_owned(), panics.to_string(), review("ConfigMap", "CREATE", json!({})).to_string()] {
        post(&server, path, body).await;
    }
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodable metrics");
    for line in [
        r#"controller_runtime_webhook_requests_total{webhook="/validate--v1-configmap",code="200"} 2"#,
        r#"controller_runtime_webhook_requests_total{webhook="/validate--v1-configmap",code="400"} 1"#,
        r#"controller_runtime_webhook_requests_in_flight{webhook="/validate--v1-configmap"} 0"#,
        r#"controller_runtime_webhook_latency_seconds_count{webhook="/validate--v1-configmap"} 3"#,
        "controller_runtime_webhook_panics_total 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
