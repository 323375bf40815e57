//! PodSecurity admission: the labels of a namespace and their effect on pods. The differential suite compares
//! the messages with a kube-apiserver that runs without `--allow-privileged`. The tests in this file cover
//! the checks that such a server never reaches, and exempt requests.

use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{call, send_with};

const POD_SECURITY: &str = "pod-security.kubernetes.io";

fn pods() -> Gvr {
    Gvr::new("", "v1", "pods")
}

fn server() -> ApiServer {
    let server = ApiServer::builder().build();
    server.create(&Gvr::new("", "v1", "namespaces"), "", json!({"metadata": {"name": "n"}})).unwrap();
    server
}

/// Returns a pod that satisfies all Pod Security levels, with these additions to its container and its spec.
fn pod(name: &str, container: &Value, spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{
        "name": "c", "image": "i", "securityContext": {
            "allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }]}});
    let into = |place: &mut Value, more: &Value| {
        for (name, value) in more.as_object().unwrap() {
            place[name] = value.clone();
        }
    };
    into(&mut pod["spec"]["containers"][0]["securityContext"], container);
    into(&mut pod["spec"], spec);
    pod
}

async fn ask(server: &ApiServer, labels: &Value) -> Vec<String> {
    let patch = json!({"metadata": {"labels": labels}}).to_string();
    let headers = [("content-type", "application/merge-patch+json")];
    let response = send_with(server, "PATCH", "/api/v1/namespaces/n", &headers, &patch).await;
    assert_eq!(response.status(), 200);
    response.headers().get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect()
}

fn enforcing(level: &str, version: &str) -> Value {
    json!({format!("{POD_SECURITY}/enforce"): level, format!("{POD_SECURITY}/enforce-version"): version})
}

#[tokio::test]
async fn raising_the_pod_security_level_warns_about_violating_pods() {
    let cases = [
        ("privileged", json!({"privileged": true}), json!({})),
        ("hostProcess", json!({}), json!({"securityContext": {"windowsOptions": {"hostProcess": true}}})),
        ("procMount", json!({"procMount": "Unmasked"}), json!({})),
        ("runAsUser=0", json!({"runAsUser": 0}), json!({})),
        ("restricted volume types", json!({}), json!({"volumes": [{"name": "v", "rbd": {}}, {"name": "w"}]})),
        ("forbidden sysctls", json!({}), json!({"securityContext": {"sysctls": [{"name": "a"}]}})),
    ];
    for (reason, container, spec) in cases {
        let server = server();
        // Some of these pods are invalid, so only a raw write stores them.
        server.raw().create(&pods(), "n", pod("bad", &container, &spec)).unwrap();
        server.create(&pods(), "n", pod("good", &json!({}), &json!({}))).unwrap();
        server.raw().create(&pods(), "other", pod("bad", &container, &spec)).unwrap();
        let warnings = ask(&server, &enforcing("restricted", "latest")).await;
        let all = "299 - \"existing pods in namespace \\\"n\\\" violate the new PodSecurity enforce level \
                   \\\"restricted:latest\\\"\"";
        assert_eq!(warnings, [all.to_owned(), format!("299 - \"bad: {reason}\"")]);
    }
}

#[tokio::test]
async fn pod_security_checks_depend_on_the_enforced_version() {
    let server = server();
    let cases = [
        ("old", json!({"seLinuxOptions": {"type": "container_engine_t"}}), json!({})),
        ("own", json!({"runAsUser": 0, "procMount": "Unmasked"}), json!({"hostUsers": false})),
    ];
    for (name, container, spec) in cases {
        server.create(&pods(), "n", pod(name, &container, &spec)).unwrap();
    }
    let all = |version: &str| {
        format!(
            "299 - \"existing pods in namespace \\\"n\\\" violate the new PodSecurity enforce level \
             \\\"restricted:{version}\\\"\""
        )
    };
    assert_eq!(
        ask(&server, &enforcing("restricted", "v1.30")).await,
        [&all("v1.30"), "299 - \"old: seLinuxOptions\"", "299 - \"own: procMount, runAsUser=0\""]
    );
    // Since version 1.35, pods with their own user namespace may run as root, but not with an unmasked
    // `/proc`.
    assert_eq!(
        ask(&server, &enforcing("restricted", "v1.35")).await,
        [&all("v1.35"), "299 - \"own: procMount\""]
    );
    assert!(
        ask(&server, &enforcing("baseline", "v1.35")).await.is_empty(),
        "the baseline level allows these pods"
    );
}

#[tokio::test]
async fn at_most_3000_pods_are_checked_starting_with_one_per_owner() {
    let server = server();
    let owned = |owner: &str, name: String, container: &Value| {
        let mut pod = pod(&name, container, &json!({}));
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner});
        pod["metadata"]["ownerReferences"] = json!([owner]);
        pod
    };
    let good = (0..3000).map(|number| owned("a", format!("a-{number:04}"), &json!({})));
    let bad = (0..2).map(|number| owned("b", format!("b-{number}"), &json!({"privileged": true})));
    for pod in good.chain(bad) {
        server.raw().create(&pods(), "n", pod).unwrap();
    }
    let warnings = ask(&server, &enforcing("baseline", "latest")).await;
    assert_eq!(
        warnings[0],
        "299 - \"new PodSecurity enforce level only checked against the first 3000 of 3002 existing pods\""
    );
    assert_eq!(warnings[2..], ["299 - \"b-0: privileged\""]);
}

#[tokio::test]
async fn writes_of_the_embedding_program_bypass_pod_security() {
    let server = server();
    assert!(ask(&server, &enforcing("restricted", "latest")).await.is_empty());
    let bad = pod("bad", &json!({"runAsNonRoot": false}), &json!({}));
    let (status, text) = call(&server, "POST", "/api/v1/namespaces/n/pods", &bad.to_string()).await;
    assert_eq!(status, 403, "{text}");
    assert!(text.contains("violates PodSecurity \\\"restricted:latest\\\": runAsNonRoot != true"), "{text}");
    server.create(&pods(), "n", bad).unwrap();
}
