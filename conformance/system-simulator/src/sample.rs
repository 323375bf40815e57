//! The simulated kinds: the content of their objects, and the changes that programs make.

mod config_map;
mod deployment;
mod fruit;
mod pod;

use informer_core::Gvr;
use informer_runtime::KubeObject;
use informer_simulator::Random;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

pub(crate) use fruit::{Fruit, POISON, is_unreadable};

/// The namespaces of all simulated objects. A cache of N selected namespaces caches the first N of them.
pub(crate) const NAMESPACES: [&str; 3] = ["a", "b", "c"];

/// Values of the label `app`, by which some caches select.
pub(crate) const APPS: [&str; 2] = ["web", "db"];

/// The last digits of values that the validating webhooks deny.
const DENIED_DIGITS: [char; 3] = ['4', '7', '9'];

pub(crate) trait Sample: KubeObject {
    fn gvr() -> Gvr {
        Gvr::new(Self::group(&()), Self::version(&()), Self::plural(&()))
    }

    /// Returns a new object with random content. For some kinds it has fields that the Rust type lacks.
    fn draw(key: (&str, &str), random: &mut Random) -> Value;

    /// Changes an object as a controller does. Returns the paths of the fields that this may have changed.
    fn change(&mut self, random: &mut Random) -> Vec<String>;

    /// Returns a random change for the independent client: a JSON merge patch that can be applied to any
    /// object of the kind.
    fn raw_change(random: &mut Random) -> Value;

    /// Returns an object for server-side apply, and the paths of its fields.
    fn applied(key: (&str, &str), random: &mut Random) -> (Self, Vec<String>);

    fn is_denied(object: &Value) -> bool;

    /// Returns a field selector that matches some objects; `None` if the kind has no selectable fields.
    fn field_selector() -> Option<&'static str> {
        None
    }
}

fn metadata(key: (&str, &str), random: &mut Random) -> Value {
    let mut metadata = json!({
        "namespace": key.0,
        "name": key.1,
        "labels": {"app": random.pick(&APPS)},
        "annotations": {"sim.example.com/noise": format!("{:x}", random.draw())},
    });
    if random.one_in(3) {
        metadata["labels"]["tier"] = json!("front");
    }
    metadata
}

fn change_metadata(meta: &mut ObjectMeta, random: &mut Random) -> Vec<String> {
    match random.below(3) {
        0 => {
            let app = random.pick(&APPS).to_owned();
            meta.labels.get_or_insert_default().insert("app".to_owned(), app);
            vec!["metadata.labels.app".to_owned()]
        }
        1 => {
            let name = format!("note-{}", random.below(2));
            meta.annotations.get_or_insert_default().insert(name.clone(), random.below(100).to_string());
            vec![format!("metadata.annotations.{name}")]
        }
        _ => {
            meta.annotations.get_or_insert_default().remove("note-0");
            vec!["metadata.annotations.note-0".to_owned()]
        }
    }
}

fn raw_metadata_change(random: &mut Random) -> Value {
    match random.below(2) {
        0 => json!({"metadata": {"labels": {"app": random.pick(&APPS)}}}),
        _ => json!({"metadata": {"annotations": {"raw": random.below(100).to_string()}}}),
    }
}

fn applied_metadata(key: (&str, &str), random: &mut Random) -> (ObjectMeta, Vec<String>) {
    let annotations = [("applied".to_owned(), random.below(100).to_string())].into();
    let meta = ObjectMeta {
        namespace: Some(key.0.to_owned()),
        name: Some(key.1.to_owned()),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    };
    (meta, vec!["metadata.annotations.applied".to_owned()])
}

fn has_denied_image(pod_spec: &Value) -> bool {
    let containers = pod_spec["containers"].as_array().into_iter().flatten();
    containers.filter_map(|container| container["image"].as_str()).any(|image| image.ends_with(DENIED_DIGITS))
}
