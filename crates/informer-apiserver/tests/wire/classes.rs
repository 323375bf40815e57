//! StorageClass, IngressClass, RuntimeClass and PriorityClass: their effects on PVCs, ingresses and pods.

use std::time::Duration;

use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{call, json as ask, send_with};

const CLAIMS: &str = "/api/v1/namespaces/n/persistentvolumeclaims";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/n/ingresses";
const PODS: &str = "/api/v1/namespaces/n/pods";

fn claim(annotations: &Value, class: &Value) -> String {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": class,
    });
    json!({"metadata": {"generateName": "c-", "annotations": annotations}, "spec": spec}).to_string()
}

fn class(server: &ApiServer, gvr: &Gvr, name: &str, mark: &str) {
    let metadata = json!({"name": name, "annotations": {mark: "true"}});
    server
        .create(
            gvr,
            "",
            json!({"metadata": metadata, "provisioner": "p", "spec": {"controller": "example.com/c"}}),
        )
        .unwrap();
}

#[tokio::test]
async fn a_pvc_without_a_class_gets_the_newest_default_class() {
    let server = ApiServer::builder().build();
    let classes = Gvr::new("storage.k8s.io", "v1", "storageclasses");
    let new = async |annotations: Value, class: Value| {
        let (status, claim) = ask(&server, "POST", CLAIMS, &claim(&annotations, &class)).await;
        assert_eq!(status, 201, "{claim}");
        claim["spec"]["storageClassName"].clone()
    };
    assert_eq!(new(json!({}), Value::Null).await, Value::Null, "no class exists");
    class(&server, &classes, "none", "unrelated");
    assert_eq!(new(json!({}), Value::Null).await, Value::Null, "no class is the default");
    class(&server, &classes, "a", "storageclass.beta.kubernetes.io/is-default-class");
    assert_eq!(new(json!({}), Value::Null).await, "a");
    server.advance(Duration::from_secs(60));
    class(&server, &classes, "c", "storageclass.kubernetes.io/is-default-class");
    assert_eq!(new(json!({}), Value::Null).await, "c", "c is newer");
    assert_eq!(new(json!({}), json!("")).await, "", "an empty class is kept");
    assert_eq!(new(json!({}), json!("other")).await, "other");
    let annotation = json!({"volume.beta.kubernetes.io/storage-class": "x"});
    assert_eq!(new(annotation, Value::Null).await, Value::Null);
}

#[tokio::test]
async fn an_ingress_without_a_class_gets_the_default_class() {
    let server = ApiServer::builder().build();
    let classes = Gvr::new("networking.k8s.io", "v1", "ingressclasses");
    class(&server, &classes, "b", "ingressclass.kubernetes.io/is-default-class");
    let new = async |annotations: Value| {
        let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
        let metadata = json!({"generateName": "i-", "annotations": annotations});
        let ingress = json!({"metadata": metadata, "spec": {"defaultBackend": backend}}).to_string();
        let (status, ingress) = ask(&server, "POST", INGRESSES, &ingress).await;
        assert_eq!(status, 201, "{ingress}");
        ingress["spec"]["ingressClassName"].clone()
    };
    assert_eq!(new(json!({})).await, "b");
    assert_eq!(new(json!({"kubernetes.io/ingress.class": "x"})).await, Value::Null);
}

#[tokio::test]
async fn a_pvc_grows_only_if_its_class_allows_and_never_shrinks_below_its_capacity() {
    let server = ApiServer::builder().build();
    let classes = Gvr::new("storage.k8s.io", "v1", "storageclasses");
    for (name, allowed) in [("soft", true), ("hard", false)] {
        let class = json!({"metadata": {"name": name}, "provisioner": "p", "allowVolumeExpansion": allowed});
        server.create(&classes, "", class).unwrap();
        let claim = json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "storageClassName": name,
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
        });
        server.create(&Gvr::new("", "v1", "persistentvolumeclaims"), "n", claim).unwrap();
    }
    let resize = async |name: &str, size: &str| {
        let patch = json!({"spec": {"resources": {"requests": {"storage": size}}}}).to_string();
        let headers = [("content-type", "application/merge-patch+json")];
        send_with(&server, "PATCH", &format!("{CLAIMS}/{name}"), &headers, &patch).await.status().as_u16()
    };
    assert_eq!(resize("hard", "2Gi").await, 403);
    assert_eq!(resize("hard", "1024Mi").await, 200, "the size is unchanged");
    assert_eq!(resize("soft", "3Gi").await, 200);
    assert_eq!(resize("soft", "2Gi").await, 200);
    assert_eq!(resize("soft", "1Gi").await, 422);
}

#[tokio::test]
async fn a_pod_gets_overhead_and_scheduling_of_its_runtime_class() {
    let server = ApiServer::builder().build();
    let classes = Gvr::new("node.k8s.io", "v1", "runtimeclasses");
    let class = json!({
        "metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"memory": "64Mi"}},
        "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [{"operator": "Exists"}]},
    });
    server.create(&classes, "", class).unwrap();
    let new = async |class: &str, more: Value| {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}], "runtimeClassName": class});
        for (name, value) in more.as_object().unwrap() {
            spec[name] = value.clone();
        }
        let pod = json!({"metadata": {"generateName": "p-"}, "spec": spec}).to_string();
        ask(&server, "POST", PODS, &pod).await
    };
    let (status, pod) = new("vm", json!({})).await;
    assert_eq!(status, 201, "{pod}");
    assert_eq!(pod["spec"]["overhead"], json!({"memory": "64Mi"}));
    assert_eq!(pod["spec"]["nodeSelector"], json!({"vm": "yes"}));
    assert_eq!(
        pod["spec"]["tolerations"],
        json!([{"operator": "Exists"}]),
        "this toleration covers all others"
    );
    assert_eq!(
        new("vm", json!({"overhead": {"memory": "65536Ki"}})).await.0,
        201,
        "the same quantity in another unit"
    );
    for (class, more, why) in [
        ("none", json!({}), "pod rejected: RuntimeClass \"none\" not found"),
        ("vm", json!({"overhead": {"memory": "1Mi"}}), "pod rejected: Pod's Overhead doesn't match"),
        (
            "vm",
            json!({"nodeSelector": {"vm": "no"}}),
            "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes",
        ),
    ] {
        let (status, refusal) = new(class, more).await;
        let message = refusal["message"].as_str().unwrap();
        assert!(status == 403 && message.starts_with("pods \"p-\" is forbidden: "), "{refusal}");
        assert!(message.contains(why), "{message}");
    }
}

#[tokio::test]
async fn a_pod_without_a_runtime_class_may_not_set_overhead() {
    let server = ApiServer::builder().build();
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "overhead": {"cpu": "1"}});
    let pod = json!({"metadata": {"name": "p"}, "spec": spec}).to_string();
    let (status, text) = call(&server, "POST", PODS, &pod).await;
    assert_eq!(status, 403, "{text}");
    assert!(text.contains("Pod Overhead set without corresponding RuntimeClass defined Overhead"), "{text}");
}

#[tokio::test]
async fn a_pod_gets_the_topology_labels_of_its_node() {
    let server = ApiServer::builder().build();
    let zone = "topology.kubernetes.io/zone";
    let node = json!({"metadata": {"name": "near", "labels": {zone: "z", "other": "x"}}});
    server.create(&Gvr::new("", "v1", "nodes"), "", node).unwrap();
    let pod = |name: &str, node: &str| {
        let spec = json!({"containers": [{"name": "c", "image": "i"}], "nodeName": node});
        json!({"metadata": {"name": name, "labels": {"own": "y"}}, "spec": spec}).to_string()
    };
    let labels = |name: &str| {
        let pod = server.get(&Gvr::new("", "v1", "pods"), "n", name).unwrap();
        pod["metadata"]["labels"].clone()
    };
    assert_eq!(call(&server, "POST", PODS, &pod("made", "near")).await.0, 201);
    assert_eq!(labels("made"), json!({"own": "y", zone: "z"}));
    assert_eq!(call(&server, "POST", PODS, &pod("bound", "")).await.0, 201);
    assert_eq!(labels("bound"), json!({"own": "y"}));
    let target = json!({"kind": "Node", "name": "near"});
    let binding = json!({"metadata": {"name": "bound", "labels": {"by": "me"}}, "target": target});
    assert_eq!(call(&server, "POST", &format!("{PODS}/bound/binding"), &binding.to_string()).await.0, 201);
    assert_eq!(labels("bound"), json!({"own": "y", "by": "me", zone: "z"}));
}

#[tokio::test]
async fn a_pod_with_scheduling_gates_has_a_condition_and_cannot_be_bound() {
    let server = ApiServer::builder().build();
    let gates = json!([{"name": "example.com/wait"}]);
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "schedulingGates": gates});
    let pod = json!({"metadata": {"name": "p"}, "spec": spec}).to_string();
    let (status, pod) = ask(&server, "POST", PODS, &pod).await;
    assert_eq!((status, &pod["status"]["conditions"][0]["reason"]), (201, &json!("SchedulingGated")));
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "near"}});
    let (status, text) = call(&server, "POST", &format!("{PODS}/p/binding"), &binding.to_string()).await;
    assert_eq!(status, 409, "{text}");
}

#[tokio::test]
async fn a_pod_with_another_priority_than_its_class_is_rejected() {
    let server = ApiServer::builder().build();
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class =
        |name: &str| json!({"metadata": {"name": name}, "value": 7, "globalDefault": true}).to_string();
    assert_eq!(call(&server, "POST", classes, &class("a")).await.0, 201);
    let (status, text) = call(&server, "POST", classes, &class("b")).await;
    assert!(status == 403 && text.contains("PriorityClass a is already marked as default"), "{text}");
    let new = async |priority: i64| {
        let spec = json!({"containers": [{"name": "c", "image": "i"}], "priority": priority});
        let pod = json!({"metadata": {"generateName": "p-"}, "spec": spec}).to_string();
        call(&server, "POST", PODS, &pod).await
    };
    assert_eq!(new(7).await.0, 201);
    let (status, text) = new(8).await;
    assert!(status == 403 && text.contains("priority admission controller computed 7"), "{text}");
}
