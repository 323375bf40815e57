//! Defaults and validation of pod specs: aggregated resources and security contexts. `pod_validation.rs` has
//! the other rules.

use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{dry_create, json};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})
}

#[tokio::test]
async fn unknown_se_linux_change_policy_is_rejected_in_loaded_pods() {
    let server = ApiServer::builder().build();
    let with_policy = |policy: &str| {
        pod(json!({
            "containers": [{"name": "a", "image": "a:1"}],
            "securityContext": {"seLinuxChangePolicy": policy},
        }))
    };
    let cause = "NotSupported spec.securityContext.seLinuxChangePolicy".to_owned();
    for policy in ["MountOption", "Other", ""] {
        let created = dry_create(&server, PODS, &with_policy(policy)).await;
        assert_eq!(created, (422, vec![cause.clone()]), "{policy}");
    }
    let pods = Gvr::new("", "v1", "pods");
    for policy in ["Other", ""] {
        let rejected = server.create(&pods, "default", with_policy(policy)).unwrap_err().to_string();
        assert!(rejected.contains("seLinuxChangePolicy"), "{rejected}");
    }
    server.create(&pods, "default", with_policy("MountOption")).unwrap();
}

/// kube-apiserver keeps the format (binary or decimal) of the first quantity of a sum or maximum.
#[tokio::test]
async fn defaulted_pod_level_requests_keep_the_format_of_the_first_quantity() {
    const GIBIBYTE: &str = "1073741824";
    let server = ApiServer::builder().build();
    let with_memory =
        |name: &str, memory: Value| json!({"name": name, "image": "a:1", "resources": {"requests": memory}});
    let container = |memory: &str| with_memory("a", json!({"memory": memory}));
    let init = |memory: &str| with_memory("i", json!({"memory": memory}));
    let sidecar = |memory: &str| {
        let mut sidecar = with_memory("s", json!({"memory": memory}));
        sidecar["restartPolicy"] = "Always".into();
        sidecar
    };
    let empty = || with_memory("a", json!({}));
    for (containers, init_containers, expected) in [
        (container("1Gi"), json!([init(GIBIBYTE)]), "1Gi"),
        (container(GIBIBYTE), json!([init("1Gi")]), GIBIBYTE),
        (empty(), json!([sidecar("1Gi"), init(GIBIBYTE)]), "2147483648"),
        (empty(), json!([sidecar(GIBIBYTE), init("1Gi")]), "2Gi"),
        (container(GIBIBYTE), json!([sidecar("1Gi")]), "2147483648"),
    ] {
        let spec = json!({
            "resources": {"limits": {"memory": "8Gi"}},
            "containers": [containers], "initContainers": init_containers,
        });
        let url = format!("{PODS}?dryRun=All");
        let (status, created) = json(&server, "POST", &url, &pod(spec.clone()).to_string()).await;
        assert_eq!(
            (status, &created["spec"]["resources"]["requests"]["memory"]),
            (201, &json!(expected)),
            "{spec}"
        );
    }
}
