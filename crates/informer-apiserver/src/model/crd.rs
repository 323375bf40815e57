//! CustomResourceDefinitions, and defaulting, pruning and validation of objects by their schemas.

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
pub(crate) use definition::{resources, update_crd, validate_crd};
pub(crate) use lifecycle::{CLEANUP_FINALIZER, init_crd_status, mark_crd_terminating};
pub(crate) use names::served_spec;
#[cfg(feature = "cel")]
pub(crate) use nesting::{is_deeper, on_large_stack, parse};
#[cfg(feature = "cel")]
pub(crate) use parts::{calls_of, constructs_messages, members_of, names_of, parts, parts_mut};

use std::collections::HashMap;

use regex::Regex;
use serde_json::{Map, Value};

use crate::model::error::Cause;
use crate::model::rules::as_value;
use rules::Rules;

/// Maximum number of regular expressions that are compiled for one schema, as a limit for hostile schemas.
const MAX_PATTERNS: usize = 1000;

/// The schema of one CRD version, with its compiled patterns and CEL rules.
#[derive(Debug)]
pub(crate) struct Schema {
    root: Value,
    patterns: HashMap<String, Regex>,
    rules: Rules,
}

impl Schema {
    /// Compiles a schema. A `pattern` that the regex engine does not support matches every string.
    pub(crate) fn new(root: Value) -> Self {
        let mut patterns = HashMap::new();
        collect_patterns(&root, &mut patterns);
        Self { rules: Rules::new(&root), root, patterns }
    }

    pub(crate) fn root(&self) -> &Value {
        &self.root
    }

    /// Prunes and defaults a custom resource. Returns the paths of the pruned fields in order.
    pub(crate) fn shape(&self, object: &mut Map<String, Value>) -> Vec<String> {
        shape::shape(&self.root, object)
    }

    pub(crate) fn fill(&self, object: &mut Map<String, Value>) {
        shape::defaults(&self.root, object);
    }

    pub(crate) fn prune(&self, object: &mut Map<String, Value>) {
        drop(shape::prune_all(&self.root, object));
    }

    /// Validates a custom resource. Values that an update leaves unchanged are not validated again.
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
    if patterns.len() >= MAX_PATTERNS {
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
