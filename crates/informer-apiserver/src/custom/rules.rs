//! The rules in CEL of a schema.

#[cfg(feature = "cel")]
use kube_cel::{CompiledSchema, Validator};
use serde_json::Value;

use crate::error::Cause;

/// The compiled rules of one schema; there may be none.
#[derive(Default)]
pub(super) struct Rules {
    #[cfg(feature = "cel")]
    compiled: Option<CompiledSchema>,
}

#[cfg(feature = "cel")]
impl Rules {
    pub(super) fn new(schema: &Value) -> Self {
        let compiled = has_rules(schema).then(|| kube_cel::compile_schema(schema));
        Self { compiled }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.compiled.is_none()
    }

    /// The rules that an object breaks.
    pub(super) fn check(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let Some(compiled) = &self.compiled else { return Vec::new() };
        let Err(errors) = Validator::new().validate_compiled(compiled, object, old) else {
            return Vec::new();
        };
        let cause = |error: &kube_cel::ValidationError| {
            let path = error.field_path.clone();
            // Composite values are not printed.
            let value = match crate::jsonpath::first(object, &format!(".{path}")) {
                Some(value) if !value.is_object() && !value.is_array() => format!("{value}: "),
                _ => String::new(),
            };
            let reason = match error.reason.as_deref() {
                Some("FieldValueForbidden") => "FieldValueForbidden",
                Some("FieldValueRequired") => "FieldValueRequired",
                Some("FieldValueDuplicate") => "FieldValueDuplicate",
                _ => "FieldValueInvalid",
            };
            let message = match reason {
                "FieldValueForbidden" => format!("Forbidden: {}", error.message),
                "FieldValueRequired" => format!("Required value: {}", error.message),
                "FieldValueDuplicate" => format!("Duplicate value: {}", value.trim_end_matches(": ")),
                _ => format!("Invalid value: {value}{}", error.message),
            };
            Cause { reason, message, field: path }
        };
        errors.as_slice().iter().map(cause).collect()
    }
}

#[cfg(feature = "cel")]
fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            members.contains_key("x-kubernetes-validations") || members.values().any(has_rules)
        }
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

#[cfg(not(feature = "cel"))]
impl Rules {
    pub(super) fn new(_: &Value) -> Self {
        Self::default()
    }

    pub(super) fn is_empty(&self) -> bool {
        true
    }

    pub(super) fn check(&self, _: &Value, _: Option<&Value>) -> Vec<Cause> {
        Vec::new()
    }
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_empty() { "Rules(none)" } else { "Rules" })
    }
}
