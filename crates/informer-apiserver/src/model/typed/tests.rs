use informer_schema::{Kind, Schema};
use serde_json::{Value, json};

use super::fit;

/// What is wrong with a pod, and what is left of it.
fn fitted(mut pod: Value) -> (Result<Vec<String>, String>, Value) {
    let schema = Schema::builtin();
    let message = schema.kind_by_api_version("v1", "Pod").map(Kind::message).unwrap();
    let told = fit(message, pod.as_object_mut().unwrap());
    (told, pod)
}

#[test]
fn unknown_fields_are_told_with_their_places_and_are_gone() {
    let container = json!({"name": "a", "ports": [{"containerPort": 1}, {"containerPort": 2, "odd": 3}]});
    let (told, pod) =
        fitted(json!({"extra": 1, "spec": {"containers": [{"name": "b"}, container], "strange": {"a": 1}}}));
    let mut told = told.unwrap();
    told.sort();
    assert_eq!(told, ["extra", "spec.containers[1].ports[1].odd", "spec.strange"]);
    let container = json!({"name": "a", "ports": [{"containerPort": 1}, {"containerPort": 2}]});
    assert_eq!(pod, json!({"spec": {"containers": [{"name": "b"}, container]}}));
}

#[test]
fn a_value_of_another_type_is_told_by_the_names_of_its_fields_alone() {
    let (told, _) = fitted(json!({"spec": {"containers": [{"name": "a"}, {"name": 7}]}}));
    let why = told.unwrap_err();
    assert!(why.contains(".spec.containers.name of type string"), "{why}");
    let (told, _) = fitted(json!({"metadata": {"labels": {"a.b/c": 7}}}));
    let why = told.unwrap_err();
    assert!(why.contains(".metadata.labels of type string"), "{why}");
}

#[test]
fn a_number_that_its_field_cannot_hold_is_told_itself() {
    let wrong = |spec: Value| fitted(json!({"spec": spec})).0.unwrap_err();
    let told = "number 5000000000 into Go struct field PodSpec.spec.priority of type int32";
    assert!(wrong(json!({"priority": 5_000_000_000_i64})).ends_with(told));
    let told = "number 1.5 into Go struct field PodSpec.spec.priority of type int32";
    assert!(wrong(json!({"priority": 1.5})).ends_with(told));
    let told =
        "number 9223372036854775808 into Go struct field PodSpec.spec.activeDeadlineSeconds of type int64";
    assert!(wrong(json!({"activeDeadlineSeconds": 1_u64 << 63})).ends_with(told));
    let probe = json!({"httpGet": {"port": 5_000_000_000_i64}});
    let why = wrong(json!({"containers": [{"name": "a", "livenessProbe": probe}]}));
    assert_eq!(why, "json: cannot unmarshal number 5000000000 into Go value of type int32");
    fitted(json!({"spec": {"priority": i32::MIN, "activeDeadlineSeconds": i64::MAX}})).0.unwrap();
}

#[test]
fn a_time_that_is_none_is_told_before_a_value_of_another_type_that_stands_before_it() {
    let spec = json!({"priority": "high"});
    let status = json!({"startTime": "2001-13-01T00:00:00Z"});
    let (told, _) = fitted(json!({"spec": spec, "status": status}));
    assert_eq!(told.unwrap_err(), r#"parsing time "2001-13-01T00:00:00Z": month out of range"#);
}

#[test]
fn a_time_is_kept_as_go_writes_it_and_the_zero_instant_as_null() {
    let schema = Schema::builtin();
    let message = schema.kind_by_api_version("v1", "Pod").map(Kind::message).unwrap();
    let condition = json!({"type": "a", "status": "", "lastProbeTime": "0001-01-01T00:00:00Z", "lastTransitionTime": "2001-01-01T00:00:00.9-01:00"});
    let mut pod = json!({"status": {"startTime": "0001-01-01T01:00:00+01:00", "conditions": [condition]}});
    super::form(message, pod.as_object_mut().unwrap());
    let condition = json!({"type": "a", "status": "", "lastProbeTime": null, "lastTransitionTime": "2001-01-01T01:00:00Z"});
    assert_eq!(pod["status"], json!({"startTime": null, "conditions": [condition]}));
}
