//! The cells of each kind, in the order of its columns.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::model::kinds::Kind;
use crate::model::table::columns::{built_in, columns};
use crate::model::table::text::{
    NONE, UNKNOWN, UNSET, age, int_or_text, items, joined, number, or, size, text,
};
use crate::model::table::workloads;

/// Returns the cells of an object.
pub(crate) fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![json!(text(&object["metadata"]["name"]))];
    let created = &object["metadata"]["creationTimestamp"];
    let age = age(created, now);
    if kind.is_custom() {
        cells.extend(columns(kind).into_iter().skip(1).map(|column| match column.path.as_str() {
            "" => json!(age),
            path => custom(object, path, &column.cell_type, now),
        }));
        return cells;
    }
    if built_in(kind).is_none() {
        cells.push(if created.is_null() { Value::Null } else { created.clone() });
        return cells;
    }
    cells.extend(match kind.gvr.group.as_str() {
        "" => core(&kind.kind, object, &age, now),
        "apps" | "batch" => workloads::cells(&kind.kind, object, &age, now),
        _ => other(&kind.kind, object, &age),
    });
    cells
}

/// Returns the value of a custom column.
fn custom(object: &Value, path: &str, cell_type: &str, now: Timestamp) -> Value {
    let Some(value) = crate::model::jsonpath::first(object, path) else { return Value::Null };
    match (cell_type, value) {
        ("date", Value::String(_)) => age(value, now).into(),
        ("integer", Value::Number(number)) if number.is_i64() => value.clone(),
        ("integer", Value::Number(number)) => number
            .as_f64()
            .map_or(Value::Null, |number| serde_json::from_str(&format!("{number:.0}")).unwrap_or_default()),
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => {
            value.clone()
        }
        ("string", value) => value.to_string().into(),
        _ => Value::Null,
    }
}

fn core(kind: &str, object: &Value, age: &str, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    match kind {
        "ConfigMap" => vec![json!(size(&object["data"]) + size(&object["binaryData"])), json!(age)],
        "Secret" => vec![json!(text(&object["type"])), json!(size(&object["data"])), json!(age)],
        "Namespace" => vec![json!(text(&status["phase"])), json!(age)],
        "ServiceAccount" => vec![json!(age)],
        "Endpoints" => vec![json!(endpoints(object)), json!(age)],
        "Pod" => workloads::pod(object, age, now),
        "ReplicationController" => workloads::cells("ReplicaSet", object, age, now),
        "Service" => service(object, age),
        "Node" => node(object, age),
        "Event" => event(object, now),
        "PersistentVolume" => {
            let claim = &spec["claimRef"];
            let claim = match text(&claim["name"]) {
                "" => String::new(),
                name => format!("{}/{name}", text(&claim["namespace"])),
            };
            vec![
                json!(text(&spec["capacity"]["storage"])),
                json!(access_modes(&spec["accessModes"])),
                json!(text(&spec["persistentVolumeReclaimPolicy"])),
                json!(volume_status(object)),
                json!(claim),
                json!(text(&spec["storageClassName"])),
                json!(or(&spec["volumeAttributesClassName"], UNSET)),
                json!(text(&status["reason"])),
                json!(age),
                json!(or(&spec["volumeMode"], UNSET)),
            ]
        }
        "PersistentVolumeClaim" => {
            let bound = !text(&spec["volumeName"]).is_empty();
            let modes = if bound { access_modes(&status["accessModes"]) } else { String::new() };
            let capacity = if bound { text(&status["capacity"]["storage"]) } else { "" };
            vec![
                json!(volume_status(object)),
                json!(text(&spec["volumeName"])),
                json!(capacity),
                json!(modes),
                json!(text(&spec["storageClassName"])),
                json!(or(&spec["volumeAttributesClassName"], UNSET)),
                json!(age),
                json!(or(&spec["volumeMode"], UNSET)),
            ]
        }
        _ => Vec::new(),
    }
}

fn volume_status(object: &Value) -> &str {
    match object["metadata"]["deletionTimestamp"].is_string() {
        true => "Terminating",
        false => text(&object["status"]["phase"]),
    }
}

fn access_modes(modes: &Value) -> String {
    joined(
        items(modes).map(|mode| match text(mode) {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            other => other,
        }),
        "",
    )
}

fn service(object: &Value, age: &str) -> Vec<Value> {
    let spec = &object["spec"];
    let kind = or(&spec["type"], "ClusterIP");
    let external: Vec<&str> = items(&spec["externalIPs"]).map(text).collect();
    let ingress: Vec<&str> = items(&object["status"]["loadBalancer"]["ingress"])
        .map(|one| or(&one["ip"], text(&one["hostname"])))
        .collect();
    let address = match kind {
        "ExternalName" => or(&spec["externalName"], NONE).to_owned(),
        "LoadBalancer" if ingress.is_empty() && external.is_empty() => "<pending>".to_owned(),
        "LoadBalancer" => joined(ingress.into_iter().chain(external), NONE),
        _ => joined(external.into_iter(), NONE),
    };
    let ports: Vec<String> = items(&spec["ports"])
        .map(|port| {
            let (number, protocol) = (number(&port["port"]), or(&port["protocol"], "TCP"));
            match port["nodePort"].as_i64().filter(|port| *port > 0) {
                Some(node) => format!("{number}:{node}/{protocol}"),
                None => format!("{number}/{protocol}"),
            }
        })
        .collect();
    let selector: Vec<String> = spec["selector"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    vec![
        json!(kind),
        json!(or(&spec["clusterIP"], NONE)),
        json!(address),
        json!(joined(ports.iter().map(String::as_str), NONE)),
        json!(age),
        json!(joined(selector.iter().map(String::as_str), NONE)),
    ]
}

fn endpoints(object: &Value) -> String {
    let all: Vec<String> = items(&object["subsets"])
        .flat_map(|subset| {
            items(&subset["addresses"]).flat_map(move |address| {
                items(&subset["ports"])
                    .map(move |port| format!("{}:{}", text(&address["ip"]), number(&port["port"])))
            })
        })
        .collect();
    match all.len() {
        0 => NONE.to_owned(),
        count @ 1..=3 => all[..count].join(","),
        count => format!("{} + {} more...", all[..3].join(","), count - 3),
    }
}

fn node(object: &Value, age: &str) -> Vec<Value> {
    const ROLE: &str = "node-role.kubernetes.io/";
    let (status, info) = (&object["status"], &object["status"]["nodeInfo"]);
    let ready = items(&status["conditions"]).find(|condition| condition["type"] == "Ready");
    let mut state = match ready.map(|condition| text(&condition["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if object["spec"]["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let roles = labels.filter_map(|(name, _)| name.strip_prefix(ROLE));
    let address = |kind: &str| {
        let found = items(&status["addresses"]).find(|address| address["type"] == kind);
        found.map_or(NONE, |address| text(&address["address"])).to_owned()
    };
    vec![
        json!(state),
        json!(joined(roles, NONE)),
        json!(age),
        json!(text(&info["kubeletVersion"])),
        json!(address("InternalIP")),
        json!(address("ExternalIP")),
        json!(or(&info["osImage"], UNKNOWN)),
        json!(or(&info["kernelVersion"], UNKNOWN)),
        json!(or(&info["containerRuntimeVersion"], UNKNOWN)),
    ]
}

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let first =
        if object["firstTimestamp"].is_string() { &object["firstTimestamp"] } else { &object["eventTime"] };
    let last = match (&object["series"]["lastObservedTime"], &object["lastTimestamp"]) {
        (Value::String(_), _) => &object["series"]["lastObservedTime"],
        (_, Value::String(_)) => &object["lastTimestamp"],
        _ => first,
    };
    let about = &object["involvedObject"];
    let source = &object["source"];
    let component = or(&source["component"], text(&object["reportingComponent"]));
    let host = or(&source["host"], text(&object["reportingInstance"]));
    let source = [component, host].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let count = object["series"]["count"].as_i64().or(object["count"].as_i64()).filter(|count| *count > 0);
    vec![
        json!(age(last, now)),
        json!(text(&object["type"])),
        json!(text(&object["reason"])),
        json!(format!("{}/{}", text(&about["kind"]).to_lowercase(), text(&about["name"]))),
        json!(text(&about["fieldPath"])),
        json!(source),
        json!(text(&object["message"]).trim()),
        json!(age(first, now)),
        json!(count.unwrap_or(1)),
        json!(text(&object["metadata"]["name"])),
    ]
}

fn other(kind: &str, object: &Value, age: &str) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    match kind {
        "Lease" => vec![json!(text(&spec["holderIdentity"])), json!(age)],
        "PodDisruptionBudget" => vec![
            json!(int_or_text(&spec["minAvailable"], "N/A")),
            json!(int_or_text(&spec["maxUnavailable"], "N/A")),
            json!(number(&status["disruptionsAllowed"])),
            json!(age),
        ],
        "StorageClass" => vec![
            json!(text(&object["provisioner"])),
            json!(or(&object["reclaimPolicy"], "Delete")),
            json!(or(&object["volumeBindingMode"], UNSET)),
            json!(object["allowVolumeExpansion"] == true),
            json!(age),
        ],
        "ClusterRoleBinding" | "RoleBinding" => {
            let of = |kind: &str| -> Vec<String> {
                let subjects = items(&object["subjects"]).filter(|subject| subject["kind"] == kind);
                let name = |subject: &Value| match kind {
                    "ServiceAccount" => format!("{}/{}", text(&subject["namespace"]), text(&subject["name"])),
                    _ => text(&subject["name"]).to_owned(),
                };
                subjects.map(name).collect()
            };
            let role = &object["roleRef"];
            vec![
                json!(format!("{}/{}", text(&role["kind"]), text(&role["name"]))),
                json!(age),
                json!(of("User").join(", ")),
                json!(of("Group").join(", ")),
                json!(of("ServiceAccount").join(", ")),
            ]
        }
        "Ingress" => {
            let hosts = items(&spec["rules"]).map(|rule| or(&rule["host"], "*"));
            let addresses =
                items(&status["loadBalancer"]["ingress"]).map(|one| or(&one["ip"], text(&one["hostname"])));
            vec![
                json!(or(&spec["ingressClassName"], NONE)),
                json!(joined(hosts, "*")),
                json!(joined(addresses, "")),
                json!(if size(&spec["tls"]) > 0 { "80, 443" } else { "80" }),
                json!(age),
            ]
        }
        "EndpointSlice" => {
            let ports: Vec<String> =
                items(&object["ports"]).map(|port| int_or_text(&port["port"], "*")).collect();
            let addresses = items(&object["endpoints"]).flat_map(|endpoint| items(&endpoint["addresses"]));
            vec![
                json!(text(&object["addressType"])),
                json!(joined(ports.iter().map(String::as_str), UNSET)),
                json!(joined(addresses.map(text), UNSET)),
                json!(age),
            ]
        }
        _ => Vec::new(),
    }
}
