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
        let compiled = has_rules(schema).then(|| {
            let mut compiled = kube_cel::compile_schema(schema);
            refuse_messages(&mut compiled);
            compiled
        });
        Self { compiled }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.compiled.is_none()
    }

    /// The rules that an object breaks.
    pub(super) fn check(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let Some(compiled) = &self.compiled else { return Vec::new() };
        if let Some(cause) = super::costs::excess(compiled, object, old) {
            return vec![cause];
        }
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

/// Rules that make messages by their types are none: the interpreter has no types, and gives up the whole program over them.
#[cfg(feature = "cel")]
fn refuse_messages(compiled: &mut CompiledSchema) {
    for rule in &mut compiled.validations {
        let Ok(result) = &*rule else { continue };
        let programs = [Some(&result.program), result.message_program.as_ref()];
        if programs.into_iter().flatten().any(|program| super::parts::makes_messages(program.expression())) {
            let (rule_text, source) = (result.rule.rule.clone(), "undeclared reference to a type".into());
            *rule = Err(kube_cel::CompilationError::Parse { rule: rule_text, source });
        }
    }
    let below = compiled.properties.values_mut().chain(compiled.items.as_deref_mut());
    let below = below.chain(compiled.additional_properties.as_deref_mut());
    let combined = compiled.all_of.iter_mut().chain(&mut compiled.one_of).chain(&mut compiled.any_of);
    below.chain(combined).for_each(refuse_messages);
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
