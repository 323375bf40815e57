//! Defaults of Pods and pod templates.

use serde_json::{Value, json};

use crate::model::kinds::core::pod::resources::{List, aggregate_container_resources};
use crate::model::rules::defaults::Default::{self, Call, Fill, FillZero, In};
use crate::model::rules::defaults::is_empty;
use crate::model::rules::path::{each_mut, get, set};
use crate::model::rules::resources::is_huge_pages_of_container;

pub(crate) const TEMPLATE: &[Default] = &[In("spec", SPEC)];

const SPEC: &[Default] = &[
    Fill("dnsPolicy", "\"ClusterFirst\""),
    Fill("restartPolicy", "\"Always\""),
    Fill("securityContext", "{}"),
    Fill("terminationGracePeriodSeconds", "30"),
    Fill("schedulerName", "\"default-scheduler\""),
    Call(sync_service_account_name),
    In("containers[]", CONTAINER),
    In("initContainers[]", CONTAINER),
    In("ephemeralContainers[]", CONTAINER),
    In("volumes[]", VOLUME),
];

const CONTAINER: &[Default] = &[
    Call(default_pull_policy),
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
    Call(default_volume_source),
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

pub(crate) const POD: &[Default] = &[
    In("spec", SPEC),
    In(
        "spec",
        &[
            In("containers[]", &[Call(default_requests)]),
            In("initContainers[]", &[Call(default_requests)]),
            Call(default_pod_resources),
            Fill("enableServiceLinks", "true"),
            Call(default_host_ports),
            Call(raise_grace_period),
        ],
    ),
];

/// Copies `serviceAccountName` to the deprecated `serviceAccount`, or the reverse if only that one is set.
fn sync_service_account_name(spec: &mut Value) {
    for (from, to) in [("serviceAccountName", "serviceAccount"), ("serviceAccount", "serviceAccountName")] {
        let name = get(spec, from).cloned().filter(|name| name != "");
        if let Some(name) = name.filter(|_| is_empty(get(spec, to))) {
            set(spec, to, name);
        }
    }
}

/// Defaults `imagePullPolicy` to `Always` for an image without a tag or with the tag `latest`.
fn default_pull_policy(container: &mut Value) {
    if !is_empty(get(container, "imagePullPolicy")) {
        return;
    }
    let image = get(container, "image").and_then(Value::as_str).unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let latest = match (image.contains('@'), name.split_once(':')) {
        (true, _) => false,
        (false, Some((_, tag))) => tag == "latest",
        // An image without a tag means `latest`, except for an empty image name.
        (false, None) => !image.is_empty(),
    };
    set(container, "imagePullPolicy", if latest { "Always" } else { "IfNotPresent" }.into());
}

fn default_volume_source(volume: &mut Value) {
    let named = volume
        .as_object()
        .is_some_and(|members| members.iter().any(|(name, value)| name != "name" && !value.is_null()));
    if !named {
        set(volume, "emptyDir", json!({}));
    }
}

fn default_requests(container: &mut Value) {
    let limits = get(container, "resources.limits").and_then(Value::as_object).into_iter().flatten();
    let requests = get(container, "resources.requests");
    let is_missing = |name: &str| requests.is_none_or(|requests| requests.get(name).is_none());
    let missing = limits.filter(|(name, _)| is_missing(name));
    let missing: Vec<(String, Value)> = missing.map(|(name, limit)| (name.clone(), limit.clone())).collect();
    for (name, limit) in missing {
        container["resources"]["requests"][&name] = limit;
    }
}

/// Defaults the pod-level resources if the pod sets some of them: limits of huge pages to those of the
/// containers, and requests to those of the containers or to the limits.
fn default_pod_resources(spec: &mut Value) {
    let given = |spec: &Value, list: &str| spec["resources"][list].as_object().cloned().unwrap_or_default();
    if given(spec, "limits").is_empty() && given(spec, "requests").is_empty() {
        return;
    }
    for (name, sum) in aggregate_container_resources(spec, List::Limits) {
        let resources = &spec["resources"];
        let is_given = ["limits", "requests"].iter().any(|list| resources[list].get(&name).is_some());
        if is_huge_pages_of_container(&name) && !is_given {
            spec["resources"]["limits"][&name] = sum.text().into();
        }
    }
    let limits = given(spec, "limits");
    if limits.is_empty() {
        return;
    }
    let is_compute = |name: &str| matches!(name, "cpu" | "memory");
    let sums = aggregate_container_resources(spec, List::Requests).into_iter();
    let sums = sums.filter(|(name, _)| is_compute(name)).map(|(name, sum)| (name, sum.text().into()));
    let limits = limits.into_iter().filter(|(name, _)| is_compute(name) || is_huge_pages_of_container(name));
    for (name, amount) in sums.chain(limits) {
        if spec["resources"]["requests"].get(&name).is_none() {
            spec["resources"]["requests"][&name] = amount;
        }
    }
}

/// Replaces a negative `terminationGracePeriodSeconds` by one second.
fn raise_grace_period(spec: &mut Value) {
    if get(spec, "terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        set(spec, "terminationGracePeriodSeconds", 1.into());
    }
}

/// Defaults `hostPort` to `containerPort` for pods in the host network.
fn default_host_ports(spec: &mut Value) {
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
