//! Generates an object from a valid one with one or two changes, which the schema and a seed determine.

use std::fmt;

use informer_schema::{BaseType, Field, KindSchema, Message, Shape};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Map, Value, json};

use super::values::{scalar, wrong_type};

/// The maximum nesting of a generated value.
const MAX_DEPTH: usize = 4;
/// The fields of `metadata` that are changed. The server sets the others.
const METADATA: [&str; 6] =
    ["name", "generateName", "labels", "annotations", "finalizers", "ownerReferences"];

/// One step of a path into an object.
#[derive(Debug, Clone)]
enum Step {
    Member(String),
    Element(usize),
}

/// A change of one value of an object.
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// The path of the value, as in the causes of an error: `spec.ports[0].port`.
    pub(super) path: String,
    steps: Vec<Step>,
    /// The new value; `None` if the value was removed.
    value: Option<Value>,
}

impl Change {
    pub(super) fn apply(&self, object: &mut Value) {
        set(object, &self.steps, self.value.clone());
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            None => write!(f, "without {}", self.path),
            Some(value) => write!(f, "{} = {value}", self.path),
        }
    }
}

/// A value that can be changed.
struct Site<'s> {
    steps: Vec<Step>,
    field: Field<'s>,
    /// The value is an element of the field's list or map, and not the whole field.
    is_element: bool,
    current: Option<Value>,
}

/// Returns changes of an object. `replaces` is true if the changed object replaces the valid one, so that it
/// must have the same name.
pub(super) fn changes(
    kind: KindSchema<'static>,
    base: &Value,
    replaces: bool,
    rng: &mut StdRng,
) -> Vec<Change> {
    let mut object = base.clone();
    let count = if rng.random_bool(0.2) { 2 } else { 1 };
    let mut changes = Vec::new();
    for _ in 0..count {
        let mut sites = Vec::new();
        find_sites(kind.message(), &object, &mut Vec::new(), &mut sites);
        sites.retain(|site| !(replaces && path_of(&site.steps) == "metadata.name"));
        // Most fields of a kind are absent. Present ones are preferred, because their validation has more
        // cases.
        let wants_present = rng.random_bool(0.6);
        let chosen: Vec<_> = sites.iter().filter(|site| site.current.is_some() == wants_present).collect();
        let Some(site) = chosen.get(rng.random_range(0..chosen.len().max(1))) else { continue };
        let value = new_value(site, rng);
        let change = Change { path: path_of(&site.steps), steps: site.steps.clone(), value };
        change.apply(&mut object);
        changes.push(change);
    }
    changes
}

fn find_sites<'s>(message: Message<'s>, object: &Value, at: &mut Vec<Step>, sites: &mut Vec<Site<'s>>) {
    let in_metadata = matches!(at.as_slice(), [Step::Member(name)] if name == "metadata");
    for field in message.fields() {
        let name = field.name();
        let skipped = match at.len() {
            0 => ["apiVersion", "kind", "status"].contains(&name),
            _ => in_metadata && !METADATA.contains(&name),
        };
        if skipped {
            continue;
        }
        at.push(Step::Member(name.to_owned()));
        let current = object.get(name).cloned();
        sites.push(Site { steps: at.clone(), field, is_element: false, current: current.clone() });
        let mut element = |step: Step, value: &Value, at: &mut Vec<Step>| {
            at.push(step);
            sites.push(Site { steps: at.clone(), field, is_element: true, current: Some(value.clone()) });
            if let BaseType::Message(message) = field.base() {
                find_sites(message, value, at, sites);
            }
            at.pop();
        };
        match (&current, field.shape(), field.base()) {
            (Some(Value::Array(elements)), Shape::List, _) => {
                elements
                    .iter()
                    .enumerate()
                    .for_each(|(index, value)| element(Step::Element(index), value, at));
            }
            (Some(Value::Object(members)), Shape::Map, _) => {
                members.iter().for_each(|(key, value)| element(Step::Member(key.clone()), value, at));
            }
            (Some(value), Shape::Value | Shape::Pointer, BaseType::Message(message)) => {
                find_sites(message, value, at, sites);
            }
            _ => {}
        }
        at.pop();
    }
}

/// Returns the new value of a site; `None` removes the value.
fn new_value(site: &Site<'_>, rng: &mut StdRng) -> Option<Value> {
    let Some(current) = &site.current else { return Some(of_field(site.field, 0, rng)) };
    match rng.random_range(0..10) {
        0 | 1 => return None,
        2 if !site.is_element => return Some(Value::Null),
        3 => return Some(wrong_type(current)),
        _ => {}
    }
    match (site.field.shape(), site.is_element, current) {
        (Shape::List, false, Value::Array(elements)) => Some(match rng.random_range(0..4) {
            0 => json!([]),
            1 if !elements.is_empty() => {
                let twice = elements[rng.random_range(0..elements.len())].clone();
                Value::Array(elements.iter().cloned().chain([twice]).collect())
            }
            _ => {
                let added = of_base(site.field, 1, rng);
                Value::Array(elements.iter().cloned().chain([added]).collect())
            }
        }),
        (Shape::Map, false, Value::Object(members)) => {
            let mut members = members.clone();
            match rng.random_range(0..4) {
                0 => members.clear(),
                _ => drop(members.insert(map_key(rng), of_base(site.field, 1, rng))),
            }
            Some(members.into())
        }
        _ => Some(of_base(site.field, 0, rng)),
    }
}

fn map_key(rng: &mut StdRng) -> String {
    let key = scalar(BaseType::String, "key", rng);
    key.as_str().unwrap_or_default().to_owned()
}

/// Generates a whole field.
fn of_field(field: Field<'_>, depth: usize, rng: &mut StdRng) -> Value {
    match field.shape() {
        Shape::Value | Shape::Pointer => of_base(field, depth, rng),
        Shape::List => {
            let count = rng.random_range(0..3);
            (0..count).map(|_| of_base(field, depth + 1, rng)).collect::<Vec<_>>().into()
        }
        Shape::Map => {
            let count = rng.random_range(0..3);
            let members = (0..count).map(|_| (map_key(rng), of_base(field, depth + 1, rng)));
            members.collect::<Map<_, _>>().into()
        }
    }
}

/// Generates one value of a field's base type.
fn of_base(field: Field<'_>, depth: usize, rng: &mut StdRng) -> Value {
    if let Some(values) = field.enum_values()
        && rng.random_bool(0.7)
    {
        let values: Vec<&str> = values.collect();
        if !values.is_empty() {
            return values[rng.random_range(0..values.len())].into();
        }
    }
    let BaseType::Message(message) = field.base() else { return scalar(field.base(), field.name(), rng) };
    let mut object = Map::new();
    if depth >= MAX_DEPTH {
        return object.into();
    }
    let fields = message.fields();
    let extra = rng.random_range(0..fields.len().max(1));
    for (index, field) in fields.into_iter().enumerate() {
        let chance = if field.is_required() { 0.9 } else { 0.15 };
        if index == extra || rng.random_bool(chance) {
            object.insert(field.name().to_owned(), of_field(field, depth + 1, rng));
        }
    }
    object.into()
}

fn set(object: &mut Value, steps: &[Step], value: Option<Value>) {
    let Some((last, parents)) = steps.split_last() else { return };
    let mut at = object;
    for step in parents {
        let next = match step {
            Step::Member(name) => at.get_mut(name),
            Step::Element(index) => at.get_mut(index),
        };
        let Some(next) = next else { return };
        at = next;
    }
    match (last, at, value) {
        (Step::Member(name), Value::Object(members), Some(value)) => {
            drop(members.insert(name.clone(), value))
        }
        (Step::Member(name), Value::Object(members), None) => drop(members.remove(name)),
        (Step::Element(index), Value::Array(elements), Some(value)) => elements[*index] = value,
        (Step::Element(index), Value::Array(elements), None) => drop(elements.remove(*index)),
        _ => {}
    }
}

fn path_of(steps: &[Step]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Member(name) if path.is_empty() => path.push_str(name),
            Step::Member(name) => path.extend([".", name]),
            Step::Element(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}
