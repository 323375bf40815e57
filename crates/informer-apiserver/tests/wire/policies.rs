//! Validating admission policies.

use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::{Value, json};

use super::support::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn gvr(resource: &str) -> Gvr {
    Gvr::new("admissionregistration.k8s.io", "v1", resource)
}

fn policy(spec: &Value) -> Value {
    let mut policy = json!({"metadata": {"name": "rules"}, "spec": {"matchConstraints": {"resourceRules": [
        {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]},
    ]}}});
    for (name, value) in spec.as_object().unwrap() {
        policy["spec"][name] = value.clone();
    }
    policy
}

fn bind(server: &ApiServer, action: &str) {
    let spec = json!({"policyName": "rules", "validationActions": [action]});
    let binding = json!({"metadata": {"name": "rules"}, "spec": spec});
    server.create(&gvr("validatingadmissionpolicybindings"), "", binding).unwrap();
}

/// Creates a server with one validating policy for config maps, whose binding has this action.
fn server_with(spec: &Value, action: &str) -> ApiServer {
    let server = ApiServer::builder().build();
    // The policy is stored without validation, because some tests use expressions that do not compile.
    server.raw().create(&gvr("validatingadmissionpolicies"), "", policy(spec)).unwrap();
    bind(&server, action);
    server
}

async fn create(server: &ApiServer, name: &str, data: &Value) -> (u16, String) {
    let body = json!({"metadata": {"name": name}, "data": data}).to_string();
    let (status, response) = json(server, "POST", MAPS, &body).await;
    (status, response["message"].as_str().unwrap_or_default().to_owned())
}

#[cfg(not(feature = "cel"))]
#[tokio::test(start_paused = true)]
async fn a_validating_policy_rejects_matching_writes_without_cel() {
    let server = server_with(&json!({"validations": [{"expression": "true"}]}), "Deny");
    let (status, message) = create(&server, "a", &json!({})).await;
    assert_eq!(status, 422);
    assert!(
        message.ends_with("expression 'true' resulted in error: this server was built without CEL"),
        "{message}"
    );
    let (status, _) =
        json(&server, "POST", "/api/v1/namespaces/default/secrets", r#"{"metadata": {"name": "a"}}"#).await;
    assert_eq!(status, 201, "the policy is not for secrets");
}

#[cfg(feature = "cel")]
mod evaluated {
    use super::*;
    use crate::support::send;

    const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

    #[tokio::test(start_paused = true)]
    async fn a_validating_policy_applies_while_it_is_bound() {
        let server = ApiServer::builder().build();
        let strict =
            json!({"validations": [{"expression": "object.data.mode == 'strict'", "message": "be strict"}]});
        server.create(&gvr("validatingadmissionpolicies"), "", policy(&strict)).unwrap();
        assert_eq!(create(&server, "a", &json!({"mode": "lax"})).await.0, 201, "the policy is not bound");

        bind(&server, "Deny");
        assert_eq!(create(&server, "b", &json!({"mode": "strict"})).await.0, 201);
        let (status, message) = create(&server, "c", &json!({"mode": "lax"})).await;
        assert_eq!(status, 422);
        assert_eq!(
            message,
            "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'rules' with binding 'rules' denied request: be strict"
        );
        let (status, _) = json(&server, "GET", &format!("{MAPS}/c"), "").await;
        assert_eq!(status, 404, "a rejected object is not stored");

        let lax = json!({"validations": [{"expression": "object.data.mode == 'lax'"}]});
        server.update(&gvr("validatingadmissionpolicies"), "", policy(&lax)).unwrap();
        assert_eq!(
            create(&server, "c", &json!({"mode": "lax"})).await.0,
            201,
            "the new rule applies immediately"
        );
        assert_eq!(create(&server, "d", &json!({"mode": "strict"})).await.0, 422);

        assert_eq!(send(&server, "DELETE", &format!("{BINDINGS}/rules"), "").await.status(), 200);
        assert_eq!(create(&server, "d", &json!({"mode": "strict"})).await.0, 201);
    }

    #[tokio::test(start_paused = true)]
    async fn a_policy_with_the_action_warn_allows_the_write() {
        let server =
            server_with(&json!({"validations": [{"expression": "false", "message": "mind"}]}), "Warn");
        let response = send(&server, "POST", MAPS, r#"{"metadata": {"name": "a"}}"#).await;
        assert_eq!(response.status(), 201);
        assert_eq!(
            response.headers()["warning"],
            "299 - \"Validation failed for ValidatingAdmissionPolicy 'rules' with binding 'rules': mind\""
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_expression_over_the_cost_limit_is_cancelled() {
        let all = "object.data.all(a, object.data.all(b, object.data.all(c, a + b + c != 'x')))";
        let server = server_with(&json!({"validations": [{"expression": all}]}), "Deny");
        assert_eq!(create(&server, "few", &json!({"a": "1", "b": "2"})).await.0, 201);
        let many: serde_json::Map<String, Value> = (0..1000).map(|n| (format!("k{n}"), "v".into())).collect();
        let (status, message) = create(&server, "many", &many.into()).await;
        assert_eq!(status, 422);
        assert!(message.ends_with("operation cancelled: actual cost limit exceeded"), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn expressions_share_a_cost_budget() {
        let one = json!({"expression": "object.data.all(a, object.data.all(b, a + b != 'x'))"});
        let server = server_with(&json!({"validations": vec![one; 50]}), "Deny");
        let many: serde_json::Map<String, Value> = (0..400).map(|n| (format!("k{n}"), "v".into())).collect();
        let (status, message) = create(&server, "many", &many.into()).await;
        assert_eq!(status, 422);
        assert!(message.contains("running out of cost budget"), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_message_type_in_an_expression_is_an_error_and_not_a_panic() {
        let server = server_with(&json!({"validations": [{"expression": "Foo{a: 1} == object"}]}), "Deny");
        let (status, message) = create(&server, "a", &json!({})).await;
        assert_eq!(status, 422);
        assert!(message.contains("compilation error"), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_field_in_an_expression_is_an_error_and_not_false() {
        let rule = json!({"validations": [{"expression": "object.data.a == 'b'"}]});
        let server = server_with(&rule, "Deny");
        assert_eq!(create(&server, "a", &json!({"a": "b"})).await.0, 201);
        let (status, refused) = json(&server, "DELETE", &format!("{MAPS}/a"), "").await;
        let message = refused["message"].as_str().unwrap();
        assert_eq!(status, 422);
        assert!(message.ends_with("resulted in error: no such key: data"), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn variables_may_be_of_any_type() {
        let variables = json!([
            {"name": "amount", "expression": "quantity('1Gi')"},
            {"name": "time", "expression": "timestamp('2026-01-01T00:00:00Z')"},
            {"name": "span", "expression": "duration('90s')"},
            {"name": "maybe", "expression": "object.?data.?none"},
            {"name": "bytes", "expression": "b'abc'"},
            {"name": "numbers", "expression": "{1: 'one', 2: 'two'}"},
            {"name": "there", "expression": "object.?metadata.?name"},
            {"name": "all", "expression": "[variables.amount, variables.span]"},
        ]);
        let rule = "variables.amount.isGreaterThan(quantity('1Mi')) && variables.time.getFullYear() == 2026 && \
                    variables.span > duration('1m') && !variables.maybe.hasValue() && variables.maybe.orValue('x') == 'x' && \
                    variables.there.orValue('x') == 'a' && size(variables.bytes) == 3 && \
                    variables.numbers[1] == 'one' && size(variables.all) == 2";
        let validations = json!([{"expression": rule}]);
        let server = server_with(&json!({"variables": variables, "validations": validations}), "Deny");
        let (status, message) = create(&server, "a", &json!({})).await;
        assert_eq!((status, message.as_str()), (201, ""));
    }

    #[tokio::test(start_paused = true)]
    async fn without_rbac_the_authorizer_of_policies_allows_everything() {
        let rule = "authorizer.group('').resource('secrets').check('get').allowed()";
        let server = server_with(&json!({"validations": [{"expression": rule}]}), "Deny");
        assert_eq!(create(&server, "a", &json!({})).await.0, 201);
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_namespace_has_default_metadata_in_policies() {
        let rule = "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'default'";
        let server = server_with(&json!({"validations": [{"expression": rule}]}), "Deny");
        assert_eq!(create(&server, "a", &json!({})).await, (201, String::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn writes_of_the_embedding_program_bypass_validating_policies() {
        let server = server_with(&json!({"validations": [{"expression": "false"}]}), "Deny");
        let maps = Gvr::new("", "v1", "configmaps");
        server.create(&maps, "default", json!({"metadata": {"name": "a"}})).unwrap();
        server.delete(&maps, "default", "a").unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn policies_are_reloaded_after_a_restore() {
        let server = ApiServer::builder().build();
        let before = server.version();
        server
            .create(
                &gvr("validatingadmissionpolicies"),
                "",
                policy(&json!({"validations": [{"expression": "false"}]})),
            )
            .unwrap();
        bind(&server, "Deny");
        assert_eq!(create(&server, "a", &json!({})).await.0, 422);

        server.rewind(before).unwrap();
        // After the restore this policy has the same resourceVersion as the earlier one, but another
        // validation.
        server
            .create(
                &gvr("validatingadmissionpolicies"),
                "",
                policy(&json!({"validations": [{"expression": "true"}]})),
            )
            .unwrap();
        bind(&server, "Deny");
        assert_eq!(create(&server, "a", &json!({})).await.0, 201);
    }
}
