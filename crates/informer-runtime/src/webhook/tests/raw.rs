//! Webhooks for several kinds, at paths of their own, and for authentication and authorization.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use informer_core::Gvr;
use k8s_openapi::api::authentication::v1::{TokenReviewSpec, TokenReviewStatus, UserInfo};
use k8s_openapi::api::authorization::v1::{SubjectAccessReviewSpec, SubjectAccessReviewStatus};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Value, json};

use super::{post, review};
use crate::webhook::{
    AdmissionOperation, AdmissionRequest, Allowed, Denied, RegisteredWebhook, WebhookConfigurations,
    WebhookOptions, WebhookServer,
};

fn resources() -> [Gvr; 2] {
    [Gvr::new("", "v1", "pods"), Gvr::new("", "v1", "configmaps")]
}

async fn teams(request: AdmissionRequest<Value>) -> Result<Allowed, Denied> {
    if request.operation == AdmissionOperation::Connect {
        let command = &request.object.as_ref().unwrap()["command"];
        return match command[0].as_str() {
            Some("sh") => Err(Denied::new("no shells")),
            _ => Ok(Allowed::new()),
        };
    }
    if let Some(pod) = request.typed::<Pod>()? {
        let labels = pod.object.and_then(|pod| pod.metadata.labels).unwrap_or_default();
        return Ok(Allowed::new().audit("team", labels.get("team").map_or("none", String::as_str)));
    }
    assert!(request.typed::<ConfigMap>()?.is_some());
    Err(Denied::invalid("metadata.labels.team is missing")
        .cause("metadata.labels.team", "FieldValueRequired", "name the owner")
        .cause("data", "FieldValueInvalid", "it is empty"))
}

#[tokio::test]
async fn one_handler_reviews_several_kinds_by_their_types() {
    let server =
        WebhookServer::standalone().validate_raw("/teams", WebhookOptions::new(), resources(), teams);
    let pod = json!({"metadata": {"name": "web", "labels": {"team": "shop"}}});
    let (status, reviewed) = post(&server, "/teams", review("Pod", "CREATE", pod).to_string()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        reviewed["response"],
        json!({"uid": "4711", "allowed": true, "auditAnnotations": {"team": "shop"}})
    );

    let broken = json!({"metadata": {"labels": {"team": 3}}});
    let (_, reviewed) = post(&server, "/teams", review("Pod", "CREATE", broken).to_string()).await;
    assert_eq!(reviewed["response"]["status"]["code"], 400);

    let paths: Vec<_> = server.registered().iter().map(RegisteredWebhook::path).collect();
    assert_eq!(paths, ["/teams", "/teams"]);
}

#[tokio::test]
async fn denial_contains_its_causes() {
    let server =
        WebhookServer::standalone().validate_raw("/teams", WebhookOptions::new(), resources(), teams);
    let (_, reviewed) = post(&server, "/teams", review("ConfigMap", "CREATE", json!({})).to_string()).await;
    assert_eq!(
        reviewed["response"]["status"],
        json!({
            "status": "Failure", "code": 422, "reason": "Invalid", "message": "metadata.labels.team is missing",
            "details": {"causes": [
                {"field": "metadata.labels.team", "reason": "FieldValueRequired", "message": "name the owner"},
                {"field": "data", "reason": "FieldValueInvalid", "message": "it is empty"},
            ]},
        })
    );
}

#[tokio::test]
async fn options_of_a_connection_are_its_object() {
    let server =
        WebhookServer::standalone().validate_raw("/teams", WebhookOptions::new(), resources(), teams);
    let options = json!({"kind": "PodExecOptions", "apiVersion": "v1", "command": ["sh"]});
    let mut exec = review("PodExecOptions", "CONNECT", options);
    exec["request"]["subResource"] = json!("exec");
    let (_, reviewed) = post(&server, "/teams", exec.to_string()).await;
    assert_eq!(reviewed["response"]["status"]["message"], "no shells");
}

#[test]
fn webhook_of_a_subresource_has_a_valid_name_and_rule() {
    let connections = WebhookOptions::new().operations([AdmissionOperation::Connect]);
    let exec = [Gvr::new("", "v1", "pods/exec")];
    let server = WebhookServer::standalone().validate_raw("/exec", connections, exec, teams);
    let configurations = WebhookConfigurations::new("shop", server.registered(), |_| Default::default());
    let webhook = configurations.validating.and_then(|all| all.webhooks).unwrap_or_default().remove(0);
    assert_eq!(webhook.name, "v1.pods-exec.core");
    let rule = webhook.rules.unwrap_or_default().remove(0);
    assert_eq!(rule.resources, Some(vec!["pods/exec".to_owned()]));
    assert_eq!(rule.operations, Some(vec!["CONNECT".to_owned()]));

    let all = [Gvr::new("*", "*", "*/*")];
    let server = WebhookServer::standalone().validate_raw("/all", WebhookOptions::new(), all, teams);
    let configurations = WebhookConfigurations::new("shop", server.registered(), |_| Default::default());
    let webhook = configurations.validating.and_then(|all| all.webhooks).unwrap_or_default().remove(0);
    assert_eq!(webhook.name, "all.all-all.all");
}

#[tokio::test]
async fn raw_default_is_sent_as_a_patch_and_skips_deletions() {
    let server = WebhookServer::standalone().default_raw(
        "/mark",
        WebhookOptions::new(),
        resources(),
        |_, mut object| async move {
            object["metadata"]["labels"]["by"] = json!("hook");
            Ok(object)
        },
    );
    let object = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "unknown": [1, 2]});
    let (_, reviewed) = post(&server, "/mark", review("Pod", "UPDATE", object).to_string()).await;
    let patch = STANDARD.decode(reviewed["response"]["patch"].as_str().unwrap()).unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    assert_eq!(patch, json!([{"op": "add", "path": "/metadata/labels/by", "value": "hook"}]));

    let (_, reviewed) = post(&server, "/mark", review("Pod", "DELETE", Value::Null).to_string()).await;
    assert_eq!(reviewed["response"], json!({"uid": "4711", "allowed": true}));
}

#[tokio::test]
async fn two_webhooks_of_a_kind_have_paths_of_their_own() {
    let server = WebhookServer::standalone()
        .validate_at::<Pod>("/first", WebhookOptions::new(), |_| async { Err(Denied::new("first")) })
        .validate_at::<Pod>("/second", WebhookOptions::new(), |_| async { Err(Denied::new("second")) })
        .default_at::<Pod>("/third", WebhookOptions::new(), |_, pod| async { Ok(pod) });
    for path in ["/first", "/second"] {
        let (_, reviewed) = post(&server, path, review("Pod", "CREATE", json!({})).to_string()).await;
        assert_eq!(reviewed["response"]["status"]["message"], path.trim_start_matches('/'));
    }
    let configurations = WebhookConfigurations::new("shop", server.registered(), |_| Default::default());
    let validating = configurations.validating.and_then(|all| all.webhooks).unwrap_or_default();
    let names: Vec<_> = validating.into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["v1.pods.core", "2.v1.pods.core"], "names are unique in a configuration");
    assert!(configurations.mutating.is_some());
}

async fn authenticate(spec: TokenReviewSpec) -> TokenReviewStatus {
    match spec.token.as_str() {
        "valid" => TokenReviewStatus {
            authenticated: Some(true),
            user: Some(UserInfo { username: Some("jane".to_owned()), ..UserInfo::default() }),
            audiences: spec.audiences,
            ..TokenReviewStatus::default()
        },
        "panic" => panic!("in the authenticator"),
        _ => TokenReviewStatus { error: Some("unknown token".to_owned()), ..TokenReviewStatus::default() },
    }
}

async fn authorize(spec: SubjectAccessReviewSpec) -> SubjectAccessReviewStatus {
    let allowed = spec.groups.is_some_and(|groups| groups.contains(&"admins".to_owned()));
    SubjectAccessReviewStatus { allowed, ..SubjectAccessReviewStatus::default() }
}

fn access_review(version: &str, kind: &str, spec: Value) -> String {
    json!({"apiVersion": version, "kind": kind, "spec": spec}).to_string()
}

#[tokio::test]
async fn tokens_are_authenticated_and_requests_authorized() {
    let server =
        WebhookServer::standalone().authenticate("/authn", authenticate).authorize("/authz", authorize);
    let token = |version: &str, token: &str| {
        access_review(version, "TokenReview", json!({"token": token, "audiences": ["api"]}))
    };
    let (status, reviewed) = post(&server, "/authn", token("authentication.k8s.io/v1", "valid")).await;
    assert_eq!((status, &reviewed["kind"]), (StatusCode::OK, &json!("TokenReview")));
    assert_eq!(
        reviewed["status"],
        json!({"authenticated": true, "audiences": ["api"], "user": {"username": "jane"}})
    );
    let (_, reviewed) = post(&server, "/authn", token("authentication.k8s.io/v1beta1", "other")).await;
    assert_eq!(reviewed["apiVersion"], "authentication.k8s.io/v1beta1");
    assert_eq!(reviewed["status"], json!({"error": "unknown token"}));
    let (status, _) = post(&server, "/authn", token("authentication.k8s.io/v1", "panic")).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);

    let request = |field: &str| json!({"user": "jane", field: ["admins"]});
    for (version, field) in [("v1", "groups"), ("v1beta1", "group")] {
        let review =
            access_review(&format!("authorization.k8s.io/{version}"), "SubjectAccessReview", request(field));
        let (_, reviewed) = post(&server, "/authz", review).await;
        assert_eq!(reviewed["status"]["allowed"], true, "{version}");
    }
}

#[tokio::test]
async fn access_review_of_another_kind_is_rejected_without_its_token() {
    let server = WebhookServer::standalone().authenticate("/authn", authenticate);
    let other = access_review("authorization.k8s.io/v1", "SubjectAccessReview", json!({}));
    assert_eq!(post(&server, "/authn", other).await.0, StatusCode::BAD_REQUEST);
    let secret = access_review("authentication.k8s.io/v1", "TokenReview", json!({"token": ["secret"]}));
    let (status, text) = post(&server, "/authn", secret).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(!text.to_string().contains("secret"), "{text}");
}
