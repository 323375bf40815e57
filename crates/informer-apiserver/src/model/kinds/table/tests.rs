use informer_schema::Schema;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::model::kinds::{KindDefinition, built_in};

fn kind(api_version: &str, name: &str) -> KindDefinition {
    let mut kinds = built_in(&Schema::builtin())
        .filter(|kind| kind.api_version == api_version && kind.kind == name)
        .collect::<Vec<_>>();
    kinds.pop().expect("the kind is served")
}

/// Returns the table cells of an object that was created two minutes ago.
fn cells(api_version: &str, name: &str, mut object: Value) -> Value {
    let now: Timestamp = "2026-01-01T00:02:00Z".parse().expect("the time is valid");
    object["metadata"]["name"] = "one".into();
    object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    kind(api_version, name).table_cells(&object, now).into()
}

#[test]
fn each_row_has_a_cell_for_every_column() {
    for kind in built_in(&Schema::builtin()) {
        let columns = kind.table_columns().len();
        let cells = kind.table_cells(&json!({"metadata": {}}), Timestamp::UNIX_EPOCH).len();
        // kube-apiserver also sends the age of an IPAddress as an additional cell without a column.
        let surplus = usize::from(kind.kind == "IPAddress");
        assert_eq!(columns + surplus, cells, "{} {}", kind.api_version, kind.kind);
    }
}

#[test]
fn columns_of_the_schema_table_are_used_by_every_kind_that_has_them() {
    for kind in built_in(&Schema::builtin()).filter(|kind| !kind.columns.is_empty()) {
        let shown: Vec<String> = kind.table_columns().into_iter().map(|column| column.name).collect();
        let known: Vec<&str> = kind.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(shown, known, "{} {}", kind.api_version, kind.kind);
    }
}

#[test]
fn tables_of_events_end_with_the_name() {
    let columns = kind("v1", "Event").table_columns();
    assert_eq!(columns.first().map(|column| column.name.as_str()), Some("Last Seen"));
    let event = json!({"type": "Normal", "reason": "Pulled", "message": " done ", "count": 3,
        "lastTimestamp": "2026-01-01T00:01:00Z", "involvedObject": {"kind": "Pod", "name": "web"},
        "source": {"component": "kubelet", "host": "node-1"}});
    let expected =
        json!(["60s", "Normal", "Pulled", "pod/web", "", "kubelet, node-1", "done", "<unknown>", 3, "one"]);
    assert_eq!(cells("v1", "Event", event), expected);
    let event = json!({"type": "Normal", "reason": "Pulled", "note": "done",
        "eventTime": "2026-01-01T00:01:00.000000Z", "regarding": {"kind": "Node"},
        "reportingController": "kubelet"});
    let expected = json!(["60s", "Normal", "Pulled", "node", "", "kubelet", "done", "60s", 1, "one"]);
    assert_eq!(cells("events.k8s.io/v1", "Event", event), expected);
}

#[test]
fn autoscalers_show_at_most_two_metrics() {
    let target = json!({"kind": "Deployment", "name": "web"});
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 80}}});
    let memory = json!({"type": "Resource", "resource": {"name": "memory",
        "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
    let queue = json!({"type": "External", "external": {"target": {"averageValue": "30"}}});
    let current = json!([{"type": "Resource", "resource": {"name": "cpu",
        "current": {"averageUtilization": 40, "averageValue": "100m"}}}]);
    let v2 = json!({"spec": {"scaleTargetRef": target, "maxReplicas": 9, "metrics": [cpu, memory, queue]},
        "status": {"currentReplicas": 2, "currentMetrics": current}});
    let shown = "cpu: 40%/80%, memory: <unknown>/1Gi + 1 more...";
    assert_eq!(
        cells("autoscaling/v2", "HorizontalPodAutoscaler", v2),
        json!(["one", "Deployment/web", shown, "<unset>", 9, 2, "2m"])
    );
    let v1 = json!({"spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9,
        "targetCPUUtilizationPercentage": 70}, "status": {"currentReplicas": 2, "desiredReplicas": 2}});
    assert_eq!(
        cells("autoscaling/v1", "HorizontalPodAutoscaler", v1),
        json!(["one", "Deployment/web", "cpu: <unknown>/70%", "1", 9, 2, "2m"])
    );
}

#[test]
fn tables_of_storage_and_networking_kinds() {
    let parameters = json!({"apiGroup": "example.com", "kind": "Params", "name": "external"});
    let class = json!({"metadata": {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
        "spec": {"controller": "example.com/ingress", "parameters": parameters}});
    assert_eq!(
        cells("networking.k8s.io/v1", "IngressClass", class),
        json!(["one (default)", "example.com/ingress", "Params.example.com/external", "2m"])
    );
    let selector = json!({"spec": {"podSelector": {}}});
    assert_eq!(cells("networking.k8s.io/v1", "NetworkPolicy", selector), json!(["one", "<none>", "2m"]));
    let parent =
        json!({"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "web"}}});
    let address = cells("networking.k8s.io/v1", "IPAddress", parent);
    assert_eq!(address[1], "services/default/web");
    let driver = json!({"spec": {"attachRequired": false, "tokenRequests": [{"audience": "a"}, {"audience": "b"}],
        "volumeLifecycleModes": ["Persistent", "Ephemeral"]}});
    assert_eq!(
        cells("storage.k8s.io/v1", "CSIDriver", driver),
        json!(["one", false, false, false, "a,b", false, "Persistent,Ephemeral", "2m"])
    );
}

#[test]
fn tables_of_policies_show_their_parameters() {
    let group = "admissionregistration.k8s.io/v1";
    let policy =
        json!({"spec": {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{}, {}]}});
    assert_eq!(cells(group, "ValidatingAdmissionPolicy", policy), json!(["one", 2, "v1/ConfigMap", "2m"]));
    let selector = json!({"matchLabels": {"a": "b"},
        "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}]});
    let binding = json!({"spec": {"policyName": "p", "paramRef": {"selector": selector}}});
    let shown = "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:\
                 []LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}";
    assert_eq!(cells(group, "ValidatingAdmissionPolicyBinding", binding), json!(["one", "p", shown, "2m"]));
    let binding = json!({"spec": {"policyName": "p", "paramRef": {"name": "q"}}});
    assert_eq!(cells(group, "MutatingAdmissionPolicyBinding", binding), json!(["one", "p", "*/q", "2m"]));
}

#[test]
fn tables_of_other_kinds() {
    let quota =
        json!({"status": {"hard": {"pods": "4", "limits.cpu": "2", "cpu": "1"}, "used": {"pods": "1"}}});
    assert_eq!(
        cells("v1", "ResourceQuota", quota),
        json!(["one", "cpu: 0/1, pods: 1/4", "limits.cpu: 0/2", "2m"])
    );
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": true});
    let revision = json!({"metadata": {"ownerReferences": [owner]}, "revision": 3});
    assert_eq!(
        cells("apps/v1", "ControllerRevision", revision),
        json!(["one", "statefulset.apps/web", 3, "2m"])
    );
    let template = json!({"template": {"metadata": {"labels": {"app": "web", "tier": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}}});
    assert_eq!(cells("v1", "PodTemplate", template), json!(["one", "c,d", "i,j", "app=web,tier=x"]));
    let condition = json!({"type": "Available", "status": "False", "reason": "ServiceNotFound"});
    let service = json!({"spec": {"service": {"namespace": "ns", "name": "api"}}, "status": {"conditions": [condition]}});
    assert_eq!(
        cells("apiregistration.k8s.io/v1", "APIService", service),
        json!(["one", "ns/api", "False (ServiceNotFound)", "2m"])
    );
    let request = json!({"spec": {"signerName": "example.com/s", "username": "jane", "expirationSeconds": 86400},
        "status": {"conditions": [{"type": "Approved"}], "certificate": "eA=="}});
    assert_eq!(
        cells("certificates.k8s.io/v1", "CertificateSigningRequest", request),
        json!(["one", "2m", "example.com/s", "jane", "24h", "Approved,Issued"])
    );
    let claim = json!({"status": {"allocation": {}, "reservedFor": [{}]}});
    assert_eq!(
        cells("resource.k8s.io/v1", "ResourceClaim", claim),
        json!(["one", "allocated,reserved", "2m"])
    );
    let limited = json!({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}});
    let level = json!({"spec": {"type": "Limited", "limited": limited}});
    assert_eq!(
        cells("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration", level),
        json!(["one", "Limited", 5, "<none>", "<none>", "<none>", "2m"])
    );
    let class = json!({"value": 7, "preemptionPolicy": "Never"});
    assert_eq!(
        cells("scheduling.k8s.io/v1", "PriorityClass", class),
        json!(["one", 7, false, "2m", "Never"])
    );
}
