//! Pods, and the templates of pods.

use serde_json::{Value, json};

use super::Rules;
use super::defaults::Default::{self, Call, Fill, FillZero, In};
use super::path::{each_mut, get, set};

pub(super) fn rules((group, kind): (&str, &str)) -> Option<Rules> {
    match (group, kind) {
        ("", "Pod") => Some(Rules::new(POD, super::pod_checks::POD).changes(super::pod_checks::CHANGES)),
        _ => None,
    }
}

/// What every pod's specification has, also in templates.
pub(super) const TEMPLATE: &[Default] = &[In("spec", SPEC)];

const SPEC: &[Default] = &[
    Fill("dnsPolicy", "\"ClusterFirst\""),
    Fill("restartPolicy", "\"Always\""),
    Fill("securityContext", "{}"),
    Fill("terminationGracePeriodSeconds", "30"),
    Fill("schedulerName", "\"default-scheduler\""),
    Call(service_account),
    In("containers[]", CONTAINER),
    In("initContainers[]", CONTAINER),
    In("ephemeralContainers[]", CONTAINER),
    In("volumes[]", VOLUME),
];

const CONTAINER: &[Default] = &[
    Call(pull_policy),
    Fill("terminationMessagePath", "\"/dev/termination-log\""),
    Fill("terminationMessagePolicy", "\"File\""),
    In("ports[]", &[Fill("protocol", "\"TCP\"")]),
    In("env[].valueFrom.fieldRef", FIELD),
    In("livenessProbe", PROBE),
    In("readinessProbe", PROBE),
    In("startupProbe", PROBE),
    In("lifecycle.postStart.httpGet", GET),
    In("lifecycle.preStop.httpGet", GET),
];

const PROBE: &[Default] = &[
    FillZero("timeoutSeconds", 1),
    FillZero("periodSeconds", 10),
    FillZero("successThreshold", 1),
    FillZero("failureThreshold", 3),
    In("httpGet", GET),
    In("grpc", &[Fill("service", "\"\"")]),
];
const GET: &[Default] = &[Fill("path", "\"/\""), Fill("scheme", "\"HTTP\"")];
const FIELD: &[Default] = &[Fill("apiVersion", "\"v1\"")];
const MODE: &[Default] = &[Fill("defaultMode", "420")];

const VOLUME: &[Default] = &[
    Call(volume_source),
    In("secret", MODE),
    In("configMap", MODE),
    In("downwardAPI", MODE),
    In("downwardAPI.items[].fieldRef", FIELD),
    In("projected", MODE),
    In("projected.sources[].downwardAPI.items[].fieldRef", FIELD),
    In("projected.sources[].serviceAccountToken", &[Fill("expirationSeconds", "3600")]),
    In("hostPath", &[Fill("type", "\"\"")]),
    In("iscsi", &[Fill("iscsiInterface", "\"default\"")]),
    In(
        "azureDisk",
        &[
            Fill("cachingMode", "\"ReadWrite\""),
            Fill("fsType", "\"ext4\""),
            Fill("readOnly", "false"),
            Fill("kind", "\"Shared\""),
        ],
    ),
    In("ephemeral.volumeClaimTemplate", &[Fill("spec.volumeMode", "\"Filesystem\"")]),
];

const POD: &[Default] = &[
    In("spec", SPEC),
    In(
        "spec",
        &[
            In("containers[]", &[Call(requests)]),
            In("initContainers[]", &[Call(requests)]),
            Fill("enableServiceLinks", "true"),
            Call(host_ports),
            Call(least_grace),
        ],
    ),
];

/// The name under which the service account was known before is kept beside the new one.
fn service_account(spec: &mut Value) {
    for (from, to) in [("serviceAccountName", "serviceAccount"), ("serviceAccount", "serviceAccountName")] {
        let name = get(spec, from).cloned().filter(|name| name != "");
        if let Some(name) = name.filter(|_| super::defaults::is_empty(get(spec, to))) {
            set(spec, to, name);
        }
    }
}

/// An image without a tag, or with the tag `latest`, is pulled always.
fn pull_policy(container: &mut Value) {
    if !super::defaults::is_empty(get(container, "imagePullPolicy")) {
        return;
    }
    let image = get(container, "image").and_then(Value::as_str).unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let latest = match (image.contains('@'), name.split_once(':')) {
        (true, _) => false,
        (false, Some((_, tag))) => tag == "latest",
        // What is no image has no tag either.
        (false, None) => !image.is_empty(),
    };
    set(container, "imagePullPolicy", if latest { "Always" } else { "IfNotPresent" }.into());
}

fn volume_source(volume: &mut Value) {
    let named = volume
        .as_object()
        .is_some_and(|members| members.iter().any(|(name, value)| name != "name" && !value.is_null()));
    if !named {
        set(volume, "emptyDir", json!({}));
    }
}

/// Who sets limits asks for as much, where nothing else is asked for.
fn requests(container: &mut Value) {
    let limits = get(container, "resources.limits").and_then(Value::as_object).cloned();
    for (name, limit) in limits.into_iter().flatten() {
        if container["resources"]["requests"].get(&name).is_none() {
            container["resources"]["requests"][&name] = limit;
        }
    }
}

/// Less than no time is one second.
fn least_grace(spec: &mut Value) {
    if get(spec, "terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        set(spec, "terminationGracePeriodSeconds", 1.into());
    }
}

/// In the network of the host a port is the host's.
fn host_ports(spec: &mut Value) {
    if get(spec, "hostNetwork") != Some(&Value::Bool(true)) {
        return;
    }
    for path in ["containers[].ports[]", "initContainers[].ports[]"] {
        each_mut(spec, path, &mut |port| {
            if get(port, "hostPort").is_none_or(|number| *number == 0) {
                port["hostPort"] = port["containerPort"].clone();
            }
        });
    }
}
