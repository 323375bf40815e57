//! The CEL validation rules (`x-kubernetes-validations`) of a CRD schema.

#[cfg(feature = "cel")]
use std::collections::HashSet;

#[cfg(feature = "cel")]
use kube_cel::{CompiledSchema, Validator};
use serde_json::Value;

use crate::model::cause::Cause;
#[cfg(feature = "cel")]
use crate::model::cel::nesting;

/// The compiled CEL rules of one schema; possibly none.
#[derive(Default)]
pub(crate) struct CompiledRules {
    #[cfg(feature = "cel")]
    compiled: Option<CompiledSchema>,
    /// True if at least one CEL rule is nested so deeply that it must be evaluated on a large stack.
    #[cfg(feature = "cel")]
    is_deep: bool,
    /// The rules with a `fieldPath`. The path of their errors is not that of the validated part.
    #[cfg(feature = "cel")]
    rules_with_path: HashSet<String>,
}

/// Maximum nesting depth of a CEL rule that is evaluated on the caller's stack.
#[cfg(feature = "cel")]
const MAX_LEVELS: usize = 16;

#[cfg(feature = "cel")]
impl CompiledRules {
    pub(crate) fn new(schema: &Value) -> Self {
        let compiled = has_rules(schema).then(|| {
            nesting::on_large_stack(|| {
                let mut compiled = kube_cel::compile_schema(&nesting::parsable(schema));
                let mut is_deep = false;
                reject_messages(&mut compiled, &mut is_deep);
                (compiled, is_deep)
            })
        });
        match compiled {
            Some((compiled, is_deep)) => {
                let mut rules_with_path = HashSet::new();
                collect_rules_with_path(schema, &mut rules_with_path);
                Self { compiled: Some(compiled), is_deep, rules_with_path }
            }
            None => Self::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.compiled.is_none()
    }

    /// Evaluates the rules. For each failed rule, also returns whether its error is dropped if the validated
    /// part is unchanged, which applies to rules that do not read the old object.
    pub(crate) fn check(&self, object: &Value, old: Option<&Value>) -> Vec<(Cause, bool)> {
        let check = || self.check_here(object, old);
        if self.is_deep { nesting::on_large_stack(check) } else { check() }
    }

    fn check_here(&self, object: &Value, old: Option<&Value>) -> Vec<(Cause, bool)> {
        let Some(compiled) = &self.compiled else { return Vec::new() };
        if let Some(cause) = super::costs::find_excess(compiled, object, old) {
            return vec![(cause, false)];
        }
        let Err(errors) = Validator::new().validate_compiled(compiled, object, old) else {
            return Vec::new();
        };
        let cause = |error: &kube_cel::ValidationError| {
            let path = error.field_path.clone();
            // As in kube-apiserver, the error does not contain the invalid value if it is an object or a
            // list.
            let value = match crate::model::jsonpath::first(object, &format!(".{path}")) {
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
            let ratchets =
                !error.rule.contains("oldSelf") && !self.rules_with_path.contains(error.rule.as_str());
            (Cause { reason, message, field: path }, ratchets)
        };
        errors.as_slice().iter().map(cause).collect()
    }
}

/// Rejects CEL rules that construct messages (`Type{...}`), because the interpreter panics for them. Sets
/// `is_deep` if another rule needs a large stack.
#[cfg(feature = "cel")]
fn reject_messages(compiled: &mut CompiledSchema, is_deep: &mut bool) {
    for rule in &mut compiled.validations {
        let Ok(result) = &*rule else { continue };
        let programs = [Some(&result.program), result.message_program.as_ref()].into_iter().flatten();
        let expressions: Vec<_> = programs.map(kube_cel::cel::Program::expression).collect();
        if !expressions.iter().any(|one| crate::model::cel::ast::constructs_messages(one)) {
            *is_deep |= expressions.iter().any(|one| nesting::is_deeper(one, MAX_LEVELS));
            continue;
        }
        let (rule_text, source) = (result.rule.rule.clone(), "undeclared reference to a type".into());
        *rule = Err(kube_cel::CompilationError::Parse { rule: rule_text, source });
    }
    let below = compiled.properties.values_mut().chain(compiled.items.as_deref_mut());
    let below = below.chain(compiled.additional_properties.as_deref_mut());
    let combined = compiled.all_of.iter_mut().chain(&mut compiled.one_of).chain(&mut compiled.any_of);
    below.chain(combined).for_each(|part| reject_messages(part, is_deep));
}

#[cfg(feature = "cel")]
fn collect_rules_with_path(schema: &Value, rules: &mut HashSet<String>) {
    match schema {
        Value::Object(members) => {
            if let (Some(Value::String(rule)), Some(_)) = (members.get("rule"), members.get("fieldPath")) {
                rules.insert(rule.clone());
            }
            members.values().for_each(|member| collect_rules_with_path(member, rules));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_rules_with_path(item, rules)),
        _ => {}
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
impl CompiledRules {
    pub(crate) fn new(_: &Value) -> Self {
        Self::default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        true
    }

    pub(crate) fn check(&self, _: &Value, _: Option<&Value>) -> Vec<(Cause, bool)> {
        Vec::new()
    }
}

impl std::fmt::Debug for CompiledRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_empty() { "Rules(none)" } else { "Rules" })
    }
}
