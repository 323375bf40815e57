//! Validation of built-in kinds where a mistake would reject valid objects or harm the server. The recorded
//! verdicts of kube-apiserver in `conformance/apiserver` cover the rest.

use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{causes_of, json, read, send_with};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MERGE: &str = "application/merge-patch+json";

fn pod(spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "a", "image": "a:1"}]},
    });
    for (name, value) in spec.as_object().unwrap() {
        pod["spec"][name] = value.clone();
    }
    pod
}

/// Creates a pod as a dry run. Returns the status code and the fields of the causes.
async fn create(server: &ApiServer, spec: Value) -> (u16, Vec<String>) {
    let (status, body) = json(server, "POST", &format!("{PODS}?dryRun=All"), &pod(&spec).to_string()).await;
    let causes = body["details"]["causes"].as_array().into_iter().flatten();
    (status, causes.map(|cause| cause["field"].as_str().unwrap().to_owned()).collect())
}

#[tokio::test]
async fn valid_parts_of_pods_are_accepted() {
    let server = ApiServer::builder().build();
    let init = |container: Value| json!({"initContainers": [container]});
    let resize = json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}]);
    let container =
        |part: &str, value: Value| json!({"containers": [{"name": "a", "image": "a:1", part: value}]});
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]);
    let valid = [
        init(json!({"name": "i", "image": "a:1", "resizePolicy": resize})),
        json!({"containers": [{"name": "a", "image": "a:1", "restartPolicy": "Always", "restartPolicyRules": rules}]}),
        container("envFrom", json!([{"configMapRef": {"name": "settings-"}}])),
        container("securityContext", json!({"windowsOptions": {"runAsUserName": "MY_DOM.X\\user"}})),
        json!({"dnsConfig": {"searches": ["_tcp.example.com", "example.com."]}}),
        json!({"hostNetwork": true, "containers": [{"name": "a", "image": "a:1", "ports": [{"containerPort": 80}]}]}),
    ];
    for spec in valid {
        assert_eq!(create(&server, spec.clone()).await, (201, vec![]), "{spec}");
    }
}

#[tokio::test]
async fn init_container_with_another_resize_policy_is_rejected() {
    let server = ApiServer::builder().build();
    let policy = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    let init = json!({"initContainers": [{"name": "i", "image": "a:1", "resizePolicy": policy}]});
    let field = "spec.initContainers[0].resizePolicy[0].restartPolicy";
    assert_eq!(create(&server, init).await, (422, vec![field.to_owned()]));
}

#[tokio::test]
async fn image_volume_of_a_template_needs_no_reference() {
    let server = ApiServer::builder().build();
    let volumes = json!({"volumes": [{"name": "v", "image": {}}]});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod(&volumes)["spec"]});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    let url = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(json(&server, "POST", url, &deployment.to_string()).await.0, 201);
    let missing = "spec.volumes[0].image.reference".to_owned();
    assert_eq!(create(&server, volumes).await, (422, vec![missing]));
}

#[tokio::test]
async fn hostile_volumes_are_rejected_with_a_bounded_response() {
    let server = ApiServer::builder().build();
    for name in ["eui\u{e9}aaaaaaaaaaaaaaa", "\u{2603}", "iqn"] {
        let iscsi = json!({"targetPortal": "a:1", "iqn": name, "lun": 0});
        let (status, fields) = create(&server, json!({"volumes": [{"name": "v", "iscsi": iscsi}]})).await;
        assert_eq!((status, fields), (422, vec!["spec.volumes[0].iscsi.iqn".to_owned()]), "{name}");
    }
    let items: Vec<Value> = (0..10_000).map(|_| json!({"key": "a", "path": "a"})).collect();
    let secret = json!({"name": "a".repeat(500_000), "items": items});
    let quobyte =
        |commas: usize| json!({"name": "v", "quobyte": {"registry": ",".repeat(commas), "volume": "v"}});
    let specs = [
        json!({"volumes": [quobyte(1_000_000)]}),
        json!({"volumes": vec![quobyte(999); 500]}),
        json!({"volumes": [{"name": "v", "projected": {"sources": [{"secret": secret}]}}]}),
        json!({"containers": vec![json!({}); 100_000]}),
    ];
    for spec in specs {
        let (status, body) = json(&server, "POST", PODS, &pod(&spec).to_string()).await;
        assert_eq!((status, body["details"]["causes"].as_array().map(Vec::len)), (422, Some(1_000)));
        assert!(body.to_string().len() < 6_000_000, "the response has {} bytes", body.to_string().len());
    }
}

/// The update would take hours if the whole selector were compared for each of its values.
#[tokio::test]
async fn object_with_a_long_selector_is_updated_in_linear_time() {
    let server = ApiServer::builder().build();
    let values: Vec<String> = (0..100_000).map(|index| format!("value-{index}")).collect();
    let expression = json!({"key": "a", "operator": "NotIn", "values": values});
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a"},
        "spec": {"podSelector": {"matchExpressions": [expression]}},
    });
    let url = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    assert_eq!(json(&server, "POST", url, &policy.to_string()).await.0, 201);
    let patch = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    let response = send_with(&server, "PATCH", &format!("{url}/a"), &[("content-type", MERGE)], patch).await;
    assert_eq!(read(response).await.0, 200);
}

#[tokio::test]
async fn gated_pod_may_get_node_requirements_and_not_lose_them() {
    let server = ApiServer::builder().build();
    let affinity = |expressions: Value| {
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    };
    let exists = |key: &str| json!({"key": key, "operator": "Exists"});
    let spec = json!({
        "schedulingGates": [{"name": "example.com/quota"}],
        "nodeSelector": {"disk": "ssd"},
        "affinity": affinity(json!([exists("a")])),
    });
    assert_eq!(json(&server, "POST", PODS, &pod(&spec).to_string()).await.0, 201);
    let patch = async |spec: Value| {
        let patch = json!({"spec": spec}).to_string();
        let headers = [("content-type", MERGE)];
        let (status, body) =
            read(send_with(&server, "PATCH", &format!("{PODS}/a"), &headers, &patch).await).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        let causes = body["details"]["causes"].as_array().cloned().unwrap_or_default();
        (status, causes.iter().map(|cause| cause["field"].as_str().unwrap().to_owned()).collect::<Vec<_>>())
    };
    let narrowed = affinity(json!([exists("a"), exists("b")]));
    assert_eq!(patch(json!({"nodeSelector": {"zone": "b"}, "affinity": narrowed})).await, (200, vec![]));
    let terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    for (change, field) in [
        (json!({"nodeSelector": {"disk": "hdd"}}), "spec.nodeSelector".to_owned()),
        (json!({"affinity": affinity(json!([exists("b")]))}), format!("{terms}[0]")),
        (json!({"affinity": null}), terms.to_owned()),
        (json!({"hostname": "other"}), "spec".to_owned()),
    ] {
        assert_eq!(patch(change.clone()).await, (422, vec![field]), "{change}");
    }
    assert_eq!(patch(json!({"schedulingGates": null})).await, (200, vec![]));
    let late = json!({"nodeSelector": {"late": "yes"}});
    assert_eq!(patch(late).await, (422, vec!["spec".to_owned()]));
}

#[tokio::test]
async fn quantity_with_a_huge_exponent_is_accepted() {
    let server = ApiServer::builder().build();
    for limit in ["1e2147483647", "1e-2147483648"] {
        let volumes = json!({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": limit}}]});
        assert_eq!(create(&server, volumes).await, (201, vec![]), "{limit}");
    }
}

#[tokio::test]
async fn loaded_pod_may_have_ephemeral_containers_and_created_one_may_not() {
    let server = ApiServer::builder().build();
    let debug = json!({"ephemeralContainers": [{"name": "debug", "image": "b:1"}]});
    server.create(&Gvr::new("", "v1", "pods"), "default", pod(&debug)).unwrap();
    assert_eq!(create(&server, debug).await, (422, vec!["spec.ephemeralContainers".to_owned()]));
}

#[tokio::test]
async fn objects_that_were_stored_without_validation_can_be_labeled() {
    let server = ApiServer::builder().build();
    let source = json!({"kind": "PersistentVolumeClaim", "name": "b"});
    let claim = json!({
        "metadata": {"name": "a"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "dataSource": source,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    let (claims, namespaces) =
        (Gvr::new("", "v1", "persistentvolumeclaims"), Gvr::new("", "v1", "namespaces"));
    server.raw().create(&claims, "default", claim).unwrap();
    let namespace = json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["unqualified"]}});
    server.raw().create(&namespaces, "", namespace).unwrap();
    for url in ["/api/v1/namespaces/default/persistentvolumeclaims/a", "/api/v1/namespaces/n"] {
        let patch = r#"{"metadata":{"labels":{"a":"b"}}}"#;
        let response = send_with(&server, "PATCH", url, &[("content-type", MERGE)], patch).await;
        let (status, body) = read(response).await;
        assert_eq!(status, 200, "{url}: {body}");
    }
}

#[tokio::test]
async fn service_without_external_ips_loses_its_external_traffic_policy() {
    let server = ApiServer::builder().build();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"externalIPs": ["192.0.2.1"], "ports": [{"port": 80}]},
    });
    let url = "/api/v1/namespaces/default/services";
    let (status, mut created) = json(&server, "POST", url, &service.to_string()).await;
    assert_eq!((status, &created["spec"]["externalTrafficPolicy"]), (201, &json!("Cluster")));
    created["spec"].as_object_mut().unwrap().remove("externalIPs");
    let (status, updated) = json(&server, "PUT", &format!("{url}/a"), &created.to_string()).await;
    assert_eq!((status, &updated["spec"]["externalTrafficPolicy"]), (200, &Value::Null));
}

#[tokio::test]
async fn finalize_rejects_unqualified_finalizers() {
    let server = ApiServer::builder().build();
    let namespaces = "/api/v1/namespaces";
    let created = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let (_, mut namespace) = json(&server, "POST", namespaces, &created.to_string()).await;
    for (finalizer, causes) in [
        ("example.com/cleanup", vec![]),
        ("cleanup", vec!["Invalid spec.finalizers[1]".to_owned()]),
        ("a b/c", vec!["Invalid spec.finalizers[1]".to_owned()]),
    ] {
        namespace["spec"]["finalizers"] = json!(["kubernetes", finalizer]);
        namespace["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        let url = format!("{namespaces}/n/finalize");
        let (status, body) = json(&server, "PUT", &url, &namespace.to_string()).await;
        assert_eq!(
            (status, causes_of(&body)),
            (if causes.is_empty() { 200 } else { 422 }, causes),
            "{finalizer}"
        );
    }
}
