//! Mutating admission policies.

use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::{Value, json};

use super::support::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn gvr(resource: &str) -> Gvr {
    Gvr::new("admissionregistration.k8s.io", "v1", resource)
}

/// Creates a mutating policy for config maps with these fields in its `spec`, and a binding for it.
fn add(server: &ApiServer, name: &str, spec: &Value) {
    let mut policy = json!({"metadata": {"name": name}, "spec": {"reinvocationPolicy": "Never", "matchConstraints": {
        "resourceRules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    }}});
    for (name, value) in spec.as_object().unwrap() {
        policy["spec"][name] = value.clone();
    }
    // The policy is stored without validation, because some tests use expressions that do not compile.
    server.raw().create(&gvr("mutatingadmissionpolicies"), "", policy).unwrap();
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    server.create(&gvr("mutatingadmissionpolicybindings"), "", binding).unwrap();
}

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn server_with(spec: &Value) -> ApiServer {
    let server = ApiServer::builder().build();
    add(&server, "rules", spec);
    server
}

async fn create(server: &ApiServer, name: &str, data: &Value) -> (u16, Value) {
    let body = json!({"metadata": {"name": name}, "data": data}).to_string();
    json(server, "POST", MAPS, &body).await
}

#[cfg(not(feature = "cel"))]
#[tokio::test(start_paused = true)]
async fn a_mutating_policy_rejects_matching_writes_without_cel() {
    let server = server_with(&json!({"mutations": [apply("Object{}")]}));
    let (status, response) = create(&server, "a", &json!({})).await;
    let message = response["message"].as_str().unwrap();
    assert_eq!(status, 403);
    assert!(
        message.ends_with("expression 'Object{}' resulted in error: this server was built without CEL"),
        "{message}"
    );
}

#[cfg(feature = "cel")]
mod evaluated {
    use super::*;
    use crate::support::send;

    const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";

    fn patch(expression: &str) -> Value {
        json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
    }

    async fn data(server: &ApiServer, name: &str, data: &Value) -> Value {
        let (status, created) = create(server, name, data).await;
        assert_eq!(status, 201, "{created}");
        created["data"].clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_mutating_policy_applies_while_it_is_bound() {
        let server = server_with(&json!({"mutations": [apply("Object{data: {'by': request.operation}}")]}));
        assert_eq!(data(&server, "a", &json!({"k": "v"})).await, json!({"k": "v", "by": "CREATE"}));
        let (_, stored) = json(&server, "GET", &format!("{MAPS}/a"), "").await;
        assert_eq!(stored["data"]["by"], "CREATE", "the stored object equals the response");
        let body = json!({"metadata": {"name": "a"}, "data": {"k": "w"}}).to_string();
        let (_, updated) = json(&server, "PUT", &format!("{MAPS}/a"), &body).await;
        assert_eq!(updated["data"], json!({"k": "w", "by": "UPDATE"}));
        let (status, _) = json(&server, "DELETE", &format!("{MAPS}/a"), "").await;
        assert_eq!(status, 200, "a deleted object is not mutated");

        assert_eq!(send(&server, "DELETE", &format!("{BINDINGS}/rules"), "").await.status(), 200);
        assert_eq!(data(&server, "a", &json!({"k": "v"})).await, json!({"k": "v"}));
    }

    #[tokio::test(start_paused = true)]
    async fn mutating_policies_run_in_order_of_their_names_on_the_previous_result() {
        let server = ApiServer::builder().build();
        for name in ["b", "a"] {
            let grow = format!(
                "Object{{data: {{'all': (has(object.data.all) ? object.data.all : '') + '{name}'}}}}"
            );
            add(&server, name, &json!({"mutations": [apply(&grow), apply(&grow)]}));
        }
        assert_eq!(data(&server, "x", &json!({"k": "v"})).await["all"], "aabb");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_mutation_rejects_the_whole_write() {
        let server = server_with(&json!({"mutations": [
            apply("Object{data: {'a': 'b'}}"), patch("[JSONPatch{op: 'remove', path: '/data/none'}]"),
        ]}));
        let (status, response) = create(&server, "a", &json!({"k": "v"})).await;
        assert_eq!((status, &response["reason"]), (403, &json!("Invalid")));
        assert_eq!(
            response["message"],
            "policy 'rules' with binding 'rules' denied request: JSON Patch: error in remove for path: '/data/none': \
             Unable to remove nonexistent key: none: missing value"
        );
        assert_eq!(json(&server, "GET", &format!("{MAPS}/a"), "").await.0, 404);
    }

    #[tokio::test(start_paused = true)]
    async fn json_patch_operations_may_add_lists_of_objects() {
        let owner = "Object.metadata.ownerReferences{apiVersion: 'v1', kind: 'Node', name: 'n', uid: 'u'}";
        let add = format!("[JSONPatch{{op: 'add', path: '/metadata/ownerReferences', value: [{owner}]}}]");
        let server = server_with(&json!({"mutations": [patch(&add)]}));
        let (status, created) = create(&server, "a", &json!({})).await;
        assert_eq!((status, &created["metadata"]["ownerReferences"][0]["name"]), (201, &json!("n")));
        assert!(!created.to_string().contains("\\u0000"), "no type name remains: {created}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_mutation_of_the_wrong_type_is_an_error_and_changes_nothing() {
        for (mutation, why) in [
            (apply("Foo{data: {'a': 'b'}}"), "undeclared reference to 'Foo'"),
            (apply("Object.data{a: 'b'}"), "should evaluate to Object"),
            (apply("object"), "should evaluate to Object"),
            (patch("[Object{}]"), "should evaluate to array of JSONPatch"),
            (patch("object"), "should evaluate to array"),
            (patch("[JSONPatch{op: object, path: '/data'}]"), "'op' field"),
        ] {
            let server = server_with(&json!({"mutations": [mutation]}));
            let (status, response) = create(&server, "a", &json!({})).await;
            let message = response["message"].as_str().unwrap_or_default();
            assert_eq!(status, 403, "{response}");
            assert!(message.contains(why), "{why}: {message}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn deeply_nested_variables_are_an_error_and_do_not_overflow_the_stack() {
        let name = |n: usize| format!("v{n}");
        let variable = |n: usize| match n {
            0 => json!({"name": name(0), "expression": "[object.metadata.name]"}),
            n => json!({"name": name(n), "expression": format!("[variables.{}]", name(n - 1))}),
        };
        let variables: Vec<Value> = (0..3_000).map(variable).collect();
        // One policy evaluates the last variable first, and the other policy evaluates all variables in
        // order.
        let asked = apply("Object{data: {'a': string(size(variables.v2999))}}");
        let server = server_with(&json!({"variables": variables, "mutations": [asked]}));
        let (status, response) = create(&server, "a", &json!({})).await;
        assert_eq!(status, 403);
        assert!(response["message"].as_str().unwrap().contains("nests deeper than 128"), "{response}");

        let each: Vec<String> = (0..3_000).map(|n| format!("size(variables.v{n}) == 0")).collect();
        let each =
            format!("Object{{data: [{}].exists(it, it) ? {{'a': 'b'}} : {{'c': 'd'}}}}", each.join(", "));
        let server = server_with(&json!({"variables": variables, "mutations": [apply(&each)]}));
        let (status, response) = create(&server, "a", &json!({})).await;
        assert_eq!(status, 403);
        assert!(response["message"].as_str().unwrap().contains("nests deeper than 128"), "{response}");
    }

    #[tokio::test(start_paused = true)]
    async fn deeply_nested_expressions_are_evaluated_or_rejected_without_stack_overflow() {
        for (levels, status) in [(30, 201), (60, 201), (85, 201), (500, 403)] {
            let nested = format!("{}'x'{}", "[".repeat(levels), "]".repeat(levels));
            let asked = apply(&format!("Object{{data: {{'a': string(size({nested}))}}}}"));
            let server = server_with(&json!({"mutations": [asked]}));
            assert_eq!(create(&server, "a", &json!({})).await.0, status, "{levels}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_applied_object_may_not_be_nested_deeper_than_a_readable_one() {
        let nested =
            |levels: usize, core: &str| format!("{}{core}{}", "{'a': ".repeat(levels), "}".repeat(levels));
        // The value of each CEL variable of the policy contains the previous variable. Each expression is
        // nested less deeply than an object may be, but the value of the last variable is not.
        let variables: Vec<Value> = (0..6)
            .map(|n| {
                let core = if n == 0 { "'x'".to_owned() } else { format!("variables.v{}", n - 1) };
                json!({"name": format!("v{n}"), "expression": nested(20, &core)})
            })
            .collect();
        for (levels, status) in [(2, 201), (12, 403)] {
            let free = nested(levels, "variables.v5");
            let server = ApiServer::builder().build();
            let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
            let names = json!({"plural": "things", "kind": "Thing"});
            let spec =
                json!({"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions});
            let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
            server
                .create(&definitions, "", json!({"metadata": {"name": "things.example.com"}, "spec": spec}))
                .unwrap();
            let constraints = json!({"resourceRules": [
                {"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["things"]},
            ]});
            let mutations = json!([apply(&format!("Object{{free: {free}}}"))]);
            add(
                &server,
                "rules",
                &json!({"matchConstraints": constraints, "variables": variables, "mutations": mutations}),
            );
            let thing = r#"{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}"#;
            let path = "/apis/example.com/v1/namespaces/default/things";
            let (actual, body) = json(&server, "POST", path, thing).await;
            assert_eq!(actual, status, "{levels}: {body}");
            if status == 403 {
                assert!(body["message"].as_str().unwrap().ends_with("nests deeper than 128"), "{body}");
            } else {
                assert_eq!(json(&server, "GET", &format!("{path}/a"), "").await.0, 200);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn writes_of_the_embedding_program_bypass_mutating_policies() {
        let server = server_with(&json!({"mutations": [apply("Object{data: {'a': 'b'}}")]}));
        let maps = Gvr::new("", "v1", "configmaps");
        server.create(&maps, "default", json!({"metadata": {"name": "a"}})).unwrap();
        assert!(server.get(&maps, "default", "a").unwrap()["data"].is_null());
    }
}
