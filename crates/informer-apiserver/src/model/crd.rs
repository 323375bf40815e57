//! Custom resources: their definitions, and what the schemas of those say about objects.

pub(crate) mod conversion;
#[cfg(feature = "cel")]
pub(crate) mod costs;
pub(crate) mod definition;
mod lifecycle;
pub(crate) mod names;
#[cfg(feature = "cel")]
pub(crate) mod nesting;
#[cfg(feature = "cel")]
pub(crate) mod parts;
pub(crate) mod rules;
pub(crate) mod shape;
pub(crate) mod validate;

pub(crate) use conversion::{failed, read, review, shown, take};
#[cfg(feature = "cel")]
pub(crate) use costs::cost_of_expression;
pub(crate) use definition::{change_definition, check_definition, resources};
pub(crate) use lifecycle::{CLEANUP_FINALIZER, fill_new_definition, mark_definition};
pub(crate) use names::served_spec;
#[cfg(feature = "cel")]
pub(crate) use nesting::{is_deeper, on_large_stack, parse};
#[cfg(feature = "cel")]
pub(crate) use parts::{calls_of, makes_messages, members_of, names_of, parts, parts_mut};

use std::collections::HashMap;

use regex::Regex;
use serde_json::{Map, Value};

use crate::model::error::Cause;
use crate::model::rules::as_value;
use rules::Rules;

/// Patterns of one schema; longer lists are a mistake or an attack.
const PATTERNS_MAX: usize = 1000;

/// The schema of one version, ready to be used.
#[derive(Debug)]
pub(crate) struct Schema {
    root: Value,
    patterns: HashMap<String, Regex>,
    rules: Rules,
}

impl Schema {
    /// Makes a schema usable. Patterns that are no regular expressions here hold for everything.
    pub(crate) fn new(root: Value) -> Self {
        let mut patterns = HashMap::new();
        collect_patterns(&root, &mut patterns);
        Self { rules: Rules::new(&root), root, patterns }
    }

    /// The schema as the definition has it.
    pub(crate) fn root(&self) -> &Value {
        &self.root
    }

    /// Takes out what the schema does not know, and fills in its defaults. Answers the paths of unknown fields.
    pub(crate) fn shape(&self, object: &mut Map<String, Value>) -> Vec<String> {
        shape::shape(&self.root, object)
    }

    /// Fills in the defaults.
    pub(crate) fn fill(&self, object: &mut Map<String, Value>) {
        shape::defaults(&self.root, object);
    }

    /// Takes out what the schema does not know.
    pub(crate) fn prune(&self, object: &mut Map<String, Value>) {
        drop(shape::prune_all(&self.root, object));
    }

    /// What is wrong with an object. What an update leaves as it was is tolerated.
    pub(crate) fn check(&self, object: &mut Map<String, Value>, old: Option<&Value>) -> Vec<Cause> {
        as_value(object, |object| self.check_value(object, old))
    }

    fn check_value(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = validate::validate(self, object, old);
        let skips = causes.iter().any(|cause| {
            matches!(
                cause.reason,
                "FieldValueRequired"
                    | "FieldValueTypeInvalid"
                    | "FieldValueNotSupported"
                    | "FieldValueTooLong"
            )
        });
        match (skips, self.rules.is_empty()) {
            (true, false) => causes.push(Cause {
                reason: "FieldValueInvalid",
                message:
                    "Invalid value: null: some validation rules were not checked because the object was \
                          invalid; correct the existing errors to complete validation"
                        .to_owned(),
                field: "<nil>".to_owned(),
            }),
            (false, false) => causes.extend(self.rules.check(object, old)),
            _ => {}
        }
        causes
    }
}

fn collect_patterns(schema: &Value, patterns: &mut HashMap<String, Regex>) {
    if patterns.len() >= PATTERNS_MAX {
        return;
    }
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(pattern)) = members.get("pattern")
                && let Ok(regex) = Regex::new(pattern)
            {
                patterns.insert(pattern.clone(), regex);
            }
            members.values().for_each(|member| collect_patterns(member, patterns));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_patterns(item, patterns)),
        _ => {}
    }
}
