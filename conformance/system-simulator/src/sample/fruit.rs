use std::borrow::Cow;

use informer_simulator::Random;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{NamespaceResourceScope, Resource};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::{Sample, applied_metadata, change_metadata, metadata, raw_metadata_change};

/// The color of objects whose decoding panics.
pub(crate) const POISON: &str = "poison";

/// A custom resource whose type knows fewer fields than the stored objects have.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fruit {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    metadata: ObjectMeta,
    #[serde(default)]
    spec: FruitSpec,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct FruitSpec {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "color")]
    color: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    slices: Vec<Slice>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Slice {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grams: Option<u32>,
}

/// Returns true if decoding the object as a `Fruit` panics. A cache then keeps the last state that could be
/// decoded, or no object.
pub(crate) fn is_unreadable(object: &Value) -> bool {
    object["spec"]["color"] == POISON
}

/// Decodes a color. Panics for [`POISON`], like a faulty `Deserialize` implementation of a program.
fn color<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let color = Option::<String>::deserialize(deserializer)?;
    assert!(color.as_deref() != Some(POISON), "simulated: the decoder panics");
    Ok(color)
}

impl Resource for Fruit {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Fruit".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "sim.example.com".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "fruits".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Sample for Fruit {
    fn draw(key: (&str, &str), random: &mut Random) -> Value {
        let unknown = random.below(1000);
        json!({
            "apiVersion": "sim.example.com/v1",
            "kind": "Fruit",
            "metadata": metadata(key, random),
            "spec": {
                "color": random.pick(&["red", "green"]),
                "unknown": unknown,
                "slices": [
                    {"name": "left", "grams": 10, "unknown": unknown},
                    {"name": "right", "unknown": {"deep": unknown}},
                ],
            },
        })
    }

    fn change(&mut self, random: &mut Random) -> Vec<String> {
        let slices = &mut self.spec.slices;
        match random.below(4) {
            0 => {
                self.spec.color = Some(random.pick(&["red", "green"]).to_owned());
                vec!["spec.color".to_owned()]
            }
            1 | 2 if !slices.is_empty() => {
                let slice = random.below(slices.len());
                let slice = &mut slices[slice];
                slice.grams = Some(u32::try_from(random.below(500)).unwrap_or_default());
                vec![format!("spec.slices[{}].grams", slice.name)]
            }
            _ => change_metadata(&mut self.metadata, random),
        }
    }

    fn raw_change(random: &mut Random) -> Value {
        match random.below(3) {
            0 => raw_metadata_change(random),
            1 => json!({"spec": {"color": random.pick(&["red", "green"])}}),
            _ => json!({"spec": {"unknown": random.below(1000)}}),
        }
    }

    fn is_denied(object: &Value) -> bool {
        let slices = object["spec"]["slices"].as_array();
        slices.into_iter().flatten().any(|slice| slice["grams"].as_u64().is_some_and(|grams| grams % 3 == 0))
    }

    fn applied(key: (&str, &str), random: &mut Random) -> (Self, Vec<String>) {
        let (metadata, mut paths) = applied_metadata(key, random);
        paths.push("spec.color".to_owned());
        let spec = FruitSpec { color: Some("red".to_owned()), slices: Vec::new() };
        let (api_version, kind) = ("sim.example.com/v1".to_owned(), "Fruit".to_owned());
        (Self { api_version, kind, metadata, spec }, paths)
    }

    fn field_selector() -> Option<&'static str> {
        Some("spec.color=red")
    }
}
