use informer_schema::{KindSchema, Schema};
use serde_json::{Value, json};

use super::fit;

/// Returns the result of `fit` for a pod, and the pod without its unknown fields.
fn fitted(mut pod: Value) -> (Result<Vec<String>, String>, Value) {
    let schema = Schema::builtin();
    let message = schema.kind_by_api_version("v1", "Pod").map(KindSchema::message).unwrap();
    let result = fit(message, pod.as_object_mut().unwrap());
    (result, pod)
}

#[test]
fn unknown_fields_are_reported_with_paths_and_removed() {
    let container = json!({"name": "a", "ports": [{"containerPort": 1}, {"containerPort": 2, "odd": 3}]});
    let (result, pod) =
        fitted(json!({"extra": 1, "spec": {"containers": [{"name": "b"}, container], "strange": {"a": 1}}}));
    let mut result = result.unwrap();
    result.sort();
    assert_eq!(result, ["extra", "spec.containers[1].ports[1].odd", "spec.strange"]);
    let container = json!({"name": "a", "ports": [{"containerPort": 1}, {"containerPort": 2}]});
    assert_eq!(pod, json!({"spec": {"containers": [{"name": "b"}, container]}}));
}

#[test]
fn type_mismatch_is_reported_with_field_names_only() {
    let (result, _) = fitted(json!({"spec": {"containers": [{"name": "a"}, {"name": 7}]}}));
    let why = result.unwrap_err();
    assert!(why.contains(".spec.containers.name of type string"), "{why}");
    let (result, _) = fitted(json!({"metadata": {"labels": {"a.b/c": 7}}}));
    let why = result.unwrap_err();
    assert!(why.contains(".metadata.labels of type string"), "{why}");
}

#[test]
fn number_out_of_range_is_reported_by_value() {
    let wrong = |spec: Value| fitted(json!({"spec": spec})).0.unwrap_err();
    let result = "number 5000000000 into Go struct field PodSpec.spec.priority of type int32";
    assert!(wrong(json!({"priority": 5_000_000_000_i64})).ends_with(result));
    let result = "number 1.5 into Go struct field PodSpec.spec.priority of type int32";
    assert!(wrong(json!({"priority": 1.5})).ends_with(result));
    let result =
        "number 9223372036854775808 into Go struct field PodSpec.spec.activeDeadlineSeconds of type int64";
    assert!(wrong(json!({"activeDeadlineSeconds": 1_u64 << 63})).ends_with(result));
    let probe = json!({"httpGet": {"port": 5_000_000_000_i64}});
    let why = wrong(json!({"containers": [{"name": "a", "livenessProbe": probe}]}));
    assert_eq!(why, "json: cannot unmarshal number 5000000000 into Go value of type int32");
    fitted(json!({"spec": {"priority": i32::MIN, "activeDeadlineSeconds": i64::MAX}})).0.unwrap();
}

#[test]
fn invalid_time_is_reported_before_an_earlier_type_mismatch() {
    let spec = json!({"priority": "high"});
    let status = json!({"startTime": "2001-13-01T00:00:00Z"});
    let (result, _) = fitted(json!({"spec": spec, "status": status}));
    assert_eq!(result.unwrap_err(), r#"parsing time "2001-13-01T00:00:00Z": month out of range"#);
}

#[test]
fn time_is_normalized_like_go_and_zero_time_becomes_null() {
    let schema = Schema::builtin();
    let message = schema.kind_by_api_version("v1", "Pod").map(KindSchema::message).unwrap();
    let condition = json!({"type": "a", "status": "", "lastProbeTime": "0001-01-01T00:00:00Z", "lastTransitionTime": "2001-01-01T00:00:00.9-01:00"});
    let mut pod = json!({"status": {"startTime": "0001-01-01T01:00:00+01:00", "conditions": [condition]}});
    super::form(message, pod.as_object_mut().unwrap());
    let condition = json!({"type": "a", "status": "", "lastProbeTime": null, "lastTransitionTime": "2001-01-01T01:00:00Z"});
    assert_eq!(pod["status"], json!({"startTime": null, "conditions": [condition]}));
}
