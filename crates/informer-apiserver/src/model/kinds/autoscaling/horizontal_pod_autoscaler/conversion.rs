//! Conversion of HorizontalPodAutoscalers between `autoscaling/v1` and `autoscaling/v2`, in which they are
//! stored. Fields that do not exist in v1 are stored in annotations of the v1 object.

use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CPU: &str = "targetCPUUtilizationPercentage";
const CURRENT_CPU: &str = "currentCPUUtilizationPercentage";

/// The field names of one metric type: each v1 name with the JSON pointer to the field in a v2 metric, for
/// targets and for current values.
struct MetricFields {
    kind: &'static str,
    member: &'static str,
    wanted: &'static [(&'static str, &'static str)],
    current: &'static [(&'static str, &'static str)],
    /// The v1 quantities that are always written, with zero as default: one of the spec and one of the
    /// status.
    always: (&'static str, &'static str),
}

const METRIC_FIELDS: [MetricFields; 5] = [
    MetricFields {
        kind: "Resource",
        member: "resource",
        wanted: &[
            ("name", "/name"),
            ("targetAverageUtilization", "/target/averageUtilization"),
            ("targetAverageValue", "/target/averageValue"),
        ],
        current: &[
            ("name", "/name"),
            ("currentAverageUtilization", "/current/averageUtilization"),
            ("currentAverageValue", "/current/averageValue"),
        ],
        always: ("", "currentAverageValue"),
    },
    MetricFields {
        kind: "Pods",
        member: "pods",
        wanted: &[
            ("metricName", "/metric/name"),
            ("targetAverageValue", "/target/averageValue"),
            ("selector", "/metric/selector"),
        ],
        current: &[
            ("metricName", "/metric/name"),
            ("currentAverageValue", "/current/averageValue"),
            ("selector", "/metric/selector"),
        ],
        always: ("targetAverageValue", "currentAverageValue"),
    },
    MetricFields {
        kind: "Object",
        member: "object",
        wanted: &[
            ("target", "/describedObject"),
            ("metricName", "/metric/name"),
            ("targetValue", "/target/value"),
            ("selector", "/metric/selector"),
            ("averageValue", "/target/averageValue"),
        ],
        current: &[
            ("target", "/describedObject"),
            ("metricName", "/metric/name"),
            ("currentValue", "/current/value"),
            ("selector", "/metric/selector"),
            ("averageValue", "/current/averageValue"),
        ],
        always: ("targetValue", "currentValue"),
    },
    MetricFields {
        kind: "External",
        member: "external",
        wanted: &[
            ("metricName", "/metric/name"),
            ("metricSelector", "/metric/selector"),
            ("targetValue", "/target/value"),
            ("targetAverageValue", "/target/averageValue"),
        ],
        current: &[
            ("metricName", "/metric/name"),
            ("metricSelector", "/metric/selector"),
            ("currentValue", "/current/value"),
            ("currentAverageValue", "/current/averageValue"),
        ],
        always: ("", "currentValue"),
    },
    MetricFields {
        kind: "ContainerResource",
        member: "containerResource",
        wanted: &[
            ("name", "/name"),
            ("targetAverageUtilization", "/target/averageUtilization"),
            ("targetAverageValue", "/target/averageValue"),
            ("container", "/container"),
        ],
        current: &[
            ("name", "/name"),
            ("currentAverageUtilization", "/current/averageUtilization"),
            ("currentAverageValue", "/current/averageValue"),
            ("container", "/container"),
        ],
        always: ("", "currentAverageValue"),
    },
];

/// Converts a v1 object to v2 and back, which drops everything that v2 cannot store.
pub(crate) fn round_trip_v1(object: &mut Object) {
    to_v2(object);
    to_v1(object);
}

/// Returns true if the metric is the CPU utilization, the only metric with a field in v1.
fn is_cpu(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && metric["resource"]["target"]["averageUtilization"].is_number()
}

fn part<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    object.get_mut(name).and_then(Value::as_object_mut)
}

fn take_list(object: &mut Object, part_name: &str, name: &str) -> Vec<Value> {
    let taken = part(object, part_name).and_then(|part| part.remove(name));
    match taken {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

pub(crate) fn to_v1(object: &mut Object) {
    let (cpu, others): (Vec<_>, Vec<_>) = take_list(object, "spec", "metrics").into_iter().partition(is_cpu);
    let behavior = part(object, "spec").and_then(|spec| spec.remove("behavior"));
    let (current, conditions) =
        (take_list(object, "status", "currentMetrics"), take_list(object, "status", "conditions"));
    if let (Some(cpu), Some(spec)) = (cpu.last(), part(object, "spec")) {
        spec.insert(CPU.into(), cpu["resource"]["target"]["averageUtilization"].clone());
    }
    if let Some(status) = part(object, "status") {
        for name in ["currentReplicas", "desiredReplicas"] {
            status.entry(name).or_insert(0.into());
        }
        let cpu = current.iter().find(|metric| metric["resource"]["name"] == "cpu");
        let cpu = cpu.map(|metric| &metric["resource"]["current"]["averageUtilization"]);
        if let Some(percent) = cpu.filter(|percent| percent.is_number()) {
            status.insert(CURRENT_CPU.into(), percent.clone());
        }
    }
    let list = |items: &[Value], write: &dyn Fn(&Value) -> String| {
        let items: Vec<String> = items.iter().map(write).collect();
        (!items.is_empty()).then(|| format!("[{}]", items.join(",")))
    };
    let texts = [
        (METRICS, list(&others, &|metric| encode_metric(metric, true))),
        (CURRENT, list(&current, &|metric| encode_metric(metric, false))),
        (
            CONDITIONS,
            list(&conditions, &|one| {
                encode_in_order(one, &["type", "status", "lastTransitionTime", "reason", "message"])
            }),
        ),
        (BEHAVIOR, behavior.filter(Value::is_object).map(|behavior| encode_behavior(&behavior))),
    ];
    for (name, text) in texts {
        if let Some(text) = text
            && let Some(metadata) = part(object, "metadata")
            && let Some(annotations) =
                metadata.entry("annotations").or_insert_with(|| json!({})).as_object_mut()
        {
            annotations.insert(name.into(), text.into());
        }
    }
}

/// Encodes the members `names` of an object as JSON in this order. Missing members are left out.
fn encode_in_order(object: &Value, names: &[&str]) -> String {
    let known = names.iter().filter_map(|name| Some((*name, object.get(*name)?.to_string())));
    encode_members(known)
}

fn encode_members<'a>(members: impl Iterator<Item = (&'a str, String)>) -> String {
    let members: Vec<String> = members.map(|(name, text)| format!("{name:?}:{text}")).collect();
    format!("{{{}}}", members.join(","))
}

fn encode_metric(metric: &Value, wanted: bool) -> String {
    let Some(source) = METRIC_FIELDS.iter().find(|source| metric["type"] == source.kind) else {
        return metric.to_string();
    };
    let (parts, always) =
        if wanted { (source.wanted, source.always.0) } else { (source.current, source.always.1) };
    let from = &metric[source.member];
    let parts = parts.iter().filter_map(|(name, pointer)| match (from.pointer(pointer), *name) {
        (Some(value), "target") => Some((*name, encode_in_order(value, &["kind", "name", "apiVersion"]))),
        (Some(value), "selector" | "metricSelector") => {
            Some((*name, encode_in_order(value, &["matchLabels", "matchExpressions"])))
        }
        (Some(value), name) => Some((name, value.to_string())),
        (None, name) if name == always => Some((name, "\"0\"".to_owned())),
        (None, _) => None,
    });
    format!("{{\"type\":{:?},{:?}:{}}}", source.kind, source.member, encode_members(parts))
}

/// Encodes `spec.behavior` as JSON for the annotation of a v1 object, with the fields of kube-apiserver's
/// internal type.
fn encode_behavior(behavior: &Value) -> String {
    let or_null = |value: &Value, name: &str| value.get(name).map_or("null".to_owned(), ToString::to_string);
    let policy = |policy: &Value| {
        let members = [("Type", "type"), ("Value", "value"), ("PeriodSeconds", "periodSeconds")];
        encode_members(members.into_iter().map(|(go, name)| (go, or_null(policy, name))))
    };
    let rules = |name: &str| match &behavior[name] {
        Value::Object(_) => {
            let rules = &behavior[name];
            let policies = rules["policies"].as_array().map(|all| {
                let all: Vec<String> = all.iter().map(policy).collect();
                format!("[{}]", all.join(","))
            });
            let members = [
                ("StabilizationWindowSeconds", or_null(rules, "stabilizationWindowSeconds")),
                ("SelectPolicy", or_null(rules, "selectPolicy")),
                ("Policies", policies.unwrap_or_else(|| "null".to_owned())),
                ("Tolerance", or_null(rules, "tolerance")),
            ];
            encode_members(members.into_iter())
        }
        _ => "null".to_owned(),
    };
    encode_members([("ScaleUp", rules("scaleUp")), ("ScaleDown", rules("scaleDown"))].into_iter())
}

/// Converts a v1 object to v2. Annotations that cannot be parsed are dropped.
pub(crate) fn to_v2(object: &mut Object) {
    let mut held = |name: &str| -> Value {
        let metadata = part(object, "metadata");
        let annotations = metadata.and_then(|metadata| part(metadata, "annotations"));
        let text = annotations.and_then(|annotations| annotations.remove(name));
        text.and_then(|text| serde_json::from_str(text.as_str()?).ok()).unwrap_or_default()
    };
    let (metrics, current, conditions, behavior) =
        (held(METRICS), held(CURRENT), held(CONDITIONS), held(BEHAVIOR));
    if let Some(metadata) = part(object, "metadata")
        && metadata.get("annotations").is_some_and(|all| all.as_object().is_some_and(Map::is_empty))
    {
        metadata.remove("annotations");
    }
    let list = |metrics: &Value, wanted: bool| -> Vec<Value> {
        metrics.as_array().into_iter().flatten().filter_map(|metric| read(metric, wanted)).collect()
    };
    if let Some(spec) = part(object, "spec") {
        let mut metrics = list(&metrics, true);
        if let Some(percent) = spec.remove(CPU).filter(Value::is_number) {
            let target = json!({"type": "Utilization", "averageUtilization": percent});
            metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
        }
        if !metrics.is_empty() {
            spec.insert("metrics".into(), metrics.into());
        }
        if behavior.is_object() {
            spec.insert("behavior".into(), lower_case_names(&behavior));
        }
    }
    if let Some(status) = part(object, "status") {
        let percent = status.remove(CURRENT_CPU).filter(Value::is_number);
        if status.get("currentReplicas").is_some_and(|replicas| *replicas == 0) {
            status.remove("currentReplicas");
        }
        let mut current = list(&current, false);
        if let (Some(percent), true) = (percent, current.is_empty()) {
            let cpu = json!({"name": "cpu", "current": {"averageUtilization": percent}});
            current.push(json!({"type": "Resource", "resource": cpu}));
        }
        status.insert("currentMetrics".into(), if current.is_empty() { Value::Null } else { current.into() });
        if conditions.as_array().is_some_and(|all| !all.is_empty()) {
            status.insert("conditions".into(), conditions);
        }
    }
}

fn read(metric: &Value, wanted: bool) -> Option<Value> {
    let source = METRIC_FIELDS.iter().find(|source| metric["type"] == source.kind)?;
    let (parts, always) =
        if wanted { (source.wanted, source.always.0) } else { (source.current, source.always.1) };
    let mut made = json!({});
    for (name, pointer) in parts {
        let Some(value) = metric[source.member].get(*name) else { continue };
        // v1 always writes one of the target quantities. If it is zero and another target is set, it was not
        // set by the client.
        let other = parts.iter().any(|(other, pointer)| {
            other != name && pointer.contains("/average") && metric[source.member].get(*other).is_some()
        });
        if *name == always && *value == "0" && other {
            continue;
        }
        let mut at = &mut made;
        for step in pointer.split('/').skip(1) {
            at = &mut at[step];
        }
        *at = value.clone();
    }
    if wanted {
        let target = &mut made["target"];
        let kind = match (target.get("averageUtilization"), target.get("averageValue")) {
            (Some(_), _) => "Utilization",
            (None, Some(_)) => "AverageValue",
            (None, None) => "Value",
        };
        target["type"] = kind.into();
    }
    Some(json!({"type": source.kind, source.member: made}))
}

/// Changes the first letter of all member names to lower case, and drops nulls.
fn lower_case_names(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| {
                let mut letters = name.chars();
                let first = letters.next().map(|letter| letter.to_ascii_lowercase());
                (first.into_iter().chain(letters).collect(), lower_case_names(value))
            });
            Value::Object(members.collect())
        }
        Value::Array(items) => items.iter().map(lower_case_names).collect(),
        value => value.clone(),
    }
}
