//! The defaults of a schema, which must be valid and pruned.

use serde_json::{Map, Value, json};

use super::{items, members};
use crate::model::cause::{Cause, Causes};
use crate::model::schema::{Schema, embedded, pruning, validate};

pub(super) fn check(schema: &Value, path: &str) -> Vec<Cause> {
    if !super::schema::has_defaults(schema) {
        return Vec::new();
    }
    let compiled = Schema::new(schema.clone());
    let mut check = Defaults { compiled: &compiled, causes: Vec::new() };
    check.part(schema, path, SchemaPosition { embedded: true, metadata: None });
    check.causes
}

struct Defaults<'a> {
    compiled: &'a Schema,
    causes: Vec<Cause>,
}

/// The position of a schema relative to the resource that contains it.
#[derive(Clone)]
struct SchemaPosition {
    /// The schema is that of a resource.
    embedded: bool,
    /// The path within the resource, if the schema is that of a part of its type or metadata.
    metadata: Option<Vec<SchemaStep>>,
}

#[derive(Clone)]
enum SchemaStep {
    Field(String),
    Item,
}

impl SchemaPosition {
    fn below(&self, step: SchemaStep) -> Self {
        let metadata = match (&self.metadata, &step) {
            (Some(path), _) => Some(path.iter().cloned().chain([step]).collect()),
            (None, SchemaStep::Field(name))
                if self.embedded && matches!(name.as_str(), "metadata" | "apiVersion" | "kind") =>
            {
                Some(vec![step])
            }
            _ => None,
        };
        Self { embedded: false, metadata }
    }
}

impl Defaults<'_> {
    fn part(&mut self, schema: &Value, path: &str, at: SchemaPosition) {
        let is_embedded = schema["x-kubernetes-embedded-resource"] == true;
        let at = if is_embedded { SchemaPosition { embedded: true, metadata: None } } else { at };
        if let Some(default) = pruning::default_of(schema) {
            self.default(schema, default, &format!("{path}.default"), &at);
        }
        // Defaults are forbidden within `additionalProperties`.
        if let Some(items) = items(schema) {
            self.part(items, &format!("{path}.items"), at.below(SchemaStep::Item));
        }
        for (name, field) in members(schema, "properties") {
            let path = format!("{path}.properties[{name}]");
            self.part(field, &path, at.below(SchemaStep::Field(name.clone())));
        }
    }

    fn default(&mut self, schema: &Value, default: &Value, path: &str, at: &SchemaPosition) {
        if let Some(steps) = &at.metadata {
            let resource = surrounding(default, steps);
            let mut causes = Causes::default();
            embedded::check_embedded(&resource, "", &mut causes);
            if !causes.is_empty() {
                let why = format!("must result in valid metadata: {}", Cause::joined(&causes.into_vec()));
                self.causes.push(Cause::invalid(path, &default.to_string(), &why));
                return;
            }
        } else {
            if !is_pruned(schema, default) {
                let why = "must not have unknown fields";
                self.causes.push(Cause::invalid(path, &default.to_string(), why));
            }
            let causes = embedded::validate(schema, default, path);
            if !causes.is_empty() {
                self.causes.extend(causes);
                return;
            }
        }
        let causes = validate::validate_part(self.compiled, schema, default, None);
        if !causes.is_empty() {
            self.causes.extend(validate::prefix(path, causes));
            return;
        }
        let rules = crate::model::schema::rules::CompiledRules::new(schema).check(default, None);
        self.causes.extend(validate::prefix(path, rules.into_iter().map(|(cause, _)| cause).collect()));
    }
}

fn is_pruned(schema: &Value, default: &Value) -> bool {
    let mut pruned = default.clone();
    pruning::prune_value(schema, &mut pruned);
    pruned == *default
}

/// Returns a resource that has the value at a path.
fn surrounding(value: &Value, steps: &[SchemaStep]) -> Map<String, Value> {
    let value = steps.iter().rev().fold(value.clone(), |value, step| match step {
        SchemaStep::Field(name) => json!({name.as_str(): value}),
        SchemaStep::Item => json!([value]),
    });
    let mut resource = value.as_object().cloned().unwrap_or_default();
    resource.entry("kind").or_insert_with(|| "Validation".into());
    resource.entry("apiVersion").or_insert_with(|| "validation/v1".into());
    resource
}
