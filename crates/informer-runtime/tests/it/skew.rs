//! Tests random edits of objects that have random fields of a newer server. The stored result must be the
//! same as after an edit by a client that reads and writes JSON, so the client must not lose fields that it
//! does not know.

use informer_runtime::KubeObject;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::fixture::Server;
use crate::newer_server::{ALL_READS, Reads, client, create, newer, replace, stored};

/// A random edit: the number of an action, and two numbers that select the elements to which the action
/// applies.
type Edit = (u8, u8, u8);

/// Adds fields that only a newer server knows to the JSON of a test object. An update by the client must keep
/// these fields. A random sequence of decisions, which repeats, selects the fields that are added.
struct Extras<'a>(std::iter::Cycle<std::slice::Iter<'a, bool>>);

impl Extras<'_> {
    fn add(&mut self, object: &mut Value, fields: Value) {
        let (Value::Object(object), Value::Object(fields)) = (object, fields) else { return };
        for (name, value) in fields {
            if self.0.next() == Some(&true) {
                object.insert(name, value);
            }
        }
    }
}

fn deployment(extras: &mut Extras<'_>) -> Value {
    let mut containers = Vec::new();
    for name in ["a", "b", "c"] {
        let mut env = Vec::new();
        for variable in ["X", "Y", "Z"] {
            let mut entry = json!({"name": variable, "value": name});
            extras.add(&mut entry, json!({"masked": variable == "X"}));
            env.push(entry);
        }
        let mut mounts = Vec::new();
        for path in ["/a", "/b"] {
            let mut mount = json!({"name": "v", "mountPath": path});
            extras.add(&mut mount, json!({"options": {"of": format!("{name}{path}")}}));
            mounts.push(mount);
        }
        let mut ports = Vec::new();
        for (number, protocol) in [(80, "TCP"), (80, "UDP"), (90, "TCP")] {
            let mut port = json!({"containerPort": number, "protocol": protocol});
            extras.add(&mut port, json!({"zone": format!("{name}{number}{protocol}")}));
            ports.push(port);
        }
        let mut container =
            json!({"name": name, "image": "i:1", "env": env, "volumeMounts": mounts, "ports": ports});
        extras.add(&mut container, json!({"shells": [name], "sandbox": {"name": name}}));
        containers.push(container);
    }
    let mut pod = json!({"containers": containers, "volumes": [{"name": "v", "emptyDir": {}}]});
    extras.add(&mut pod, json!({"priorityBand": "high"}));
    let mut metadata = json!({});
    extras.add(&mut metadata, json!({"lineage": [{"name": "l", "masked": true}]}));
    let mut conditions = Vec::new();
    for name in ["Available", "Progressing"] {
        let mut condition = json!({"type": name, "status": "True"});
        extras.add(&mut condition, json!({"observedBy": name}));
        conditions.push(condition);
    }
    json!({
        "metadata": metadata,
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "w"}},
            "template": {"metadata": {"labels": {"app": "w"}}, "spec": pod},
        },
        "status": {"conditions": conditions},
    })
}

fn service(extras: &mut Extras<'_>) -> Value {
    let mut ports = Vec::new();
    for (name, number, protocol) in [("a", 80, "TCP"), ("b", 80, "UDP"), ("c", 90, "TCP")] {
        let mut port = json!({"name": name, "port": number, "protocol": protocol});
        extras.add(&mut port, json!({"weight": number + 1}));
        ports.push(port);
    }
    let mut status = json!({"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}});
    extras.add(&mut status, json!({"band": "x"}));
    json!({"spec": {"clusterIP": "None", "ports": ports, "selector": {"app": "w"}}, "status": status})
}

const LISTS: [&str; 4] = ["", "env", "volumeMounts", "ports"];

/// Applies random edits to the JSON of a Deployment, which may have fields of a newer server. The test
/// applies the same edits through the client.
fn edit_deployment(object: &mut Value, edits: &[Edit]) {
    for (number, &(action, one, other)) in edits.iter().enumerate() {
        let (one, other) = (usize::from(one), usize::from(other));
        if action == 0 {
            object["spec"]["replicas"] = json!(other % 5);
            object["metadata"]["labels"]["edited"] = json!(format!("l{one}"));
            continue;
        }
        let containers = &mut object["spec"]["template"]["spec"]["containers"];
        let which = LISTS[one % LISTS.len()];
        let count = containers.as_array().map_or(1, Vec::len);
        let list = match which {
            "" => &mut *containers,
            member => &mut containers[other % count][member],
        };
        let Some(list) = list.as_array_mut().filter(|list| !list.is_empty()) else { continue };
        let place = (one / LISTS.len()) % list.len();
        match (action, which) {
            (1, _) if list.len() > 1 => drop(list.remove(place)),
            (2, _) => list.rotate_left(place),
            (3, _) => list.reverse(),
            (4, "") => list.insert(place, json!({"name": format!("new-{number}"), "image": "n:1"})),
            (4, "env") => list.insert(place, json!({"name": format!("N{number}"), "value": "n"})),
            (_, "") => list[place]["image"] = json!(format!("i:{number}")),
            (_, "env") => list[place]["value"] = json!(format!("v{number}")),
            (_, "volumeMounts") => list[place]["readOnly"] = json!(true),
            _ => list[place]["hostIP"] = json!(format!("10.0.0.{number}")),
        }
    }
}

fn edit_service(object: &mut Value, edits: &[Edit]) {
    for (number, &(action, one, _)) in edits.iter().enumerate() {
        let Some(ports) = object["spec"]["ports"].as_array_mut() else { continue };
        let place = usize::from(one) % ports.len();
        match action {
            0 => object["metadata"]["annotations"]["edited"] = json!(format!("a{one}")),
            1 if ports.len() > 1 => drop(ports.remove(place)),
            2 => ports.rotate_left(place),
            3 => ports.reverse(),
            4 => ports.insert(place, json!({"name": format!("n{number}"), "port": 1000 + number})),
            _ => ports[place]["targetPort"] = json!(2000 + number),
        }
    }
}

fn edit_conditions(object: &mut Value, edits: &[Edit]) {
    let Some(conditions) = object["status"]["conditions"].as_array_mut() else { return };
    for (number, &(action, one, _)) in edits.iter().enumerate() {
        let place = usize::from(one) % conditions.len();
        match action {
            0..=2 if conditions.len() > 1 => drop(conditions.remove(place)),
            3 | 4 => conditions.reverse(),
            _ => conditions[place]["message"] = json!(format!("m{number}")),
        }
    }
}

struct Case {
    resource: &'static str,
    object: fn(&mut Extras<'_>) -> Value,
    edit: fn(&mut Value, &[Edit]),
    status: bool,
}

async fn left_by_json<K: KubeObject>(case: &Case, object: Value, edits: &[Edit]) -> Value {
    let server = newer();
    create::<K>(&server, "default/x", object).await;
    let mut edited = server.get(case.resource, "default/x");
    (case.edit)(&mut edited, edits);
    replace::<K>(&server, "default/x", case.status.then_some("status"), &edited).await;
    stored(&server, case.resource, "default/x")
}

async fn left_by_update<K: KubeObject>(case: &Case, object: Value, edits: &[Edit], reads: Reads) -> Value {
    let server: Server = newer();
    create::<K>(&server, "default/x", object).await;
    let client = client::<K>(&server, reads);
    let read = client.get::<K>("default/x").await.expect("a successful read").expect("it exists");
    let mut edited = read.edit();
    let mut typed = serde_json::to_value(&*edited).expect("it is JSON");
    (case.edit)(&mut typed, edits);
    *edited = serde_json::from_value(typed).expect("it fits the type");
    if case.status {
        client.status().update(&edited).await.expect("a successful write")
    } else {
        client.update(&edited).await.expect("a successful write")
    };
    stored(&server, case.resource, "default/x")
}

fn check<K: KubeObject>(case: &Case, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let seed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let edits = prop::collection::vec((0..6_u8, any::<u8>(), any::<u8>()), 1..6);
    let extras = prop::collection::vec(any::<bool>(), 1..40);
    let checked = TestRunner::new_with_rng(config, seed).run(&(edits, extras), |(edits, extras)| {
        runtime.block_on(async {
            let object = (case.object)(&mut Extras(extras.iter().cycle()));
            let expected = left_by_json::<K>(case, object.clone(), &edits).await;
            for reads in ALL_READS {
                let left = left_by_update::<K>(case, object.clone(), &edits, reads).await;
                prop_assert_eq!(&left, &expected, "{:?}", reads);
            }
            Ok::<(), TestCaseError>(())
        })
    });
    if let Err(error) = checked {
        panic!("{error}");
    }
}

#[test]
fn updates_leave_what_a_json_client_leaves_on_a_newer_server() {
    check::<Deployment>(
        &Case { resource: "deployments", object: deployment, edit: edit_deployment, status: false },
        12,
    );
}

#[test]
fn updates_of_the_status_leave_what_a_json_client_leaves_on_a_newer_server() {
    check::<Deployment>(
        &Case { resource: "deployments", object: deployment, edit: edit_conditions, status: true },
        8,
    );
}

#[test]
fn updates_of_a_service_leave_what_a_json_client_leaves_on_a_newer_server() {
    check::<Service>(&Case { resource: "services", object: service, edit: edit_service, status: false }, 12);
}
