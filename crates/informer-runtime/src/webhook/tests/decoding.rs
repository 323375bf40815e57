//! Tests how admission webhooks decode the objects of a review, including objects that cannot be decoded.

use super::*;

/// Returns a stored ConfigMap that cannot be decoded as its type. Such objects exist, for example, after a
/// change of a CRD's schema.
fn unreadable() -> Value {
    json!({"metadata": {"name": "web", "namespace": "default"}, "data": {"key": ["secret"]}})
}

fn with_old(mut review: Value, old: Value) -> Value {
    review["request"]["oldObject"] = old;
    review
}

/// Returns the review of a connection to the subresource `exec` of a Pod. The kind and the object of such a
/// review are those of the subresource's options.
fn exec_into_a_pod() -> Value {
    let options =
        json!({"apiVersion": "v1", "kind": "PodExecOptions", "command": ["sh"], "container": "main"});
    let mut review = review("PodExecOptions", "CONNECT", options);
    review["request"]["subResource"] = json!("exec");
    review
}

fn marking() -> WebhookServer {
    server().default(|_, mut map: ConfigMap| async move {
        map.metadata.labels.get_or_insert_default().insert("seen".to_owned(), "yes".to_owned());
        Ok(map)
    })
}

async fn mutated(review: Value) -> Value {
    let (status, reviewed) = post(&marking(), "/mutate--v1-configmap", review.to_string()).await;
    assert_eq!(status, StatusCode::OK);
    reviewed["response"].clone()
}

#[tokio::test]
async fn defaulting_webhook_allows_deletion_of_undecodable_object() {
    let delete = with_old(review("ConfigMap", "DELETE", Value::Null), unreadable());
    assert_eq!(mutated(delete).await, json!({"uid": "4711", "allowed": true}));
}

#[tokio::test]
async fn defaulting_webhook_allows_repair_of_undecodable_object() {
    let repaired = json!({"metadata": {"name": "web", "namespace": "default"}, "data": {"key": "text"}});
    let response = mutated(with_old(review("ConfigMap", "UPDATE", repaired), unreadable())).await;
    assert_eq!(response["allowed"], true, "{response}");
    assert!(response["patch"].is_string(), "the new object is defaulted: {response}");
}

#[tokio::test]
async fn defaulting_webhook_allows_removal_of_finalizers_of_undecodable_object() {
    let mut deleted = unreadable();
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut old = deleted.clone();
    old["metadata"]["finalizers"] = json!(["example.com/cleanup"]);
    let response = mutated(with_old(review("ConfigMap", "UPDATE", deleted), old.clone())).await;
    assert_eq!(response, json!({"uid": "4711", "allowed": true}));
    let response = mutated(with_old(review("ConfigMap", "UPDATE", unreadable()), old)).await;
    assert_eq!(response["status"]["code"], 400, "without a deletion it is rejected: {response}");
}

#[tokio::test]
async fn defaulting_webhook_allows_connect_without_decoding_its_options() {
    let server = server().default(|_, pod: Pod| async move { Ok(pod) });
    let (_, reviewed) = post(&server, "/mutate--v1-pod", exec_into_a_pod().to_string()).await;
    assert_eq!(reviewed["response"], json!({"uid": "4711", "allowed": true}));
}

/// Returns a webhook that denies requests for a stored ConfigMap with the key `keep`. If the stored object
/// cannot be decoded, it allows the request with a warning.
fn protecting() -> WebhookServer {
    server().validate(|request: AdmissionRequest<ConfigMap>| async move {
        match request.old_object() {
            Ok(Some(map)) if map.data.as_ref().is_some_and(|data| data.contains_key("keep")) => {
                Err(Denied::new("protected"))
            }
            Ok(_) => Ok(Allowed::new()),
            Err(error) => Ok(Allowed::new().warning(error.to_string())),
        }
    })
}

async fn validated(server: &WebhookServer, review: Value) -> Value {
    let path = "/validate--v1-configmap";
    post(server, path, review.to_string()).await.1["response"].clone()
}

#[tokio::test]
async fn validator_handles_undecodable_stored_object() {
    let protected = json!({"metadata": {"name": "web"}, "data": {"keep": ""}});
    let delete = |old| with_old(review("ConfigMap", "DELETE", Value::Null), old);
    let server = protecting();
    assert_eq!(validated(&server, delete(protected.clone())).await["allowed"], false);
    let response = validated(&server, delete(unreadable())).await;
    assert_eq!(response["allowed"], true, "{response}");
    let warning = response["warnings"][0].as_str().expect("a warning");
    assert!(warning.starts_with("oldObject cannot be decoded: the value of data.key"), "{warning}");
    assert!(!warning.contains("secret"), "{warning}");
    let repair = with_old(review("ConfigMap", "UPDATE", json!({"metadata": {"name": "web"}})), unreadable());
    assert_eq!(validated(&server, repair).await["allowed"], true);
    // A validator that returns the decoding error of the stored object with `?` denies the request.
    let response = validated(&no_passwords(), delete(unreadable())).await;
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(400)));
}

#[tokio::test]
async fn validator_of_a_connection_gets_options_and_no_object() {
    let server = server().validate(|request: AdmissionRequest<Pod>| async move {
        assert_eq!(request.operation, super::super::AdmissionOperation::Connect);
        assert_eq!((&*request.subresource, &*request.kind.kind), ("exec", "PodExecOptions"));
        assert!(request.object.is_none() && request.old_object()?.is_none());
        match request.options["command"][0].as_str() {
            Some("sh") => Err(Denied::new("no shells")),
            _ => Ok(Allowed::new()),
        }
    });
    let (_, reviewed) = post(&server, "/validate--v1-pod", exec_into_a_pod().to_string()).await;
    assert_eq!(reviewed["response"]["status"]["message"], "no shells", "{reviewed}");
}
