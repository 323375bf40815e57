//! Validates values by a structural schema, with the messages of kube-apiserver.
//!
//! The order of the checks, and which failure of an `anyOf` or `oneOf` is reported, are those of the
//! validator in `k8s.io/kube-openapi`.

mod number;
mod ratchet;

use serde_json::{Map, Value, json};

use super::Schema;
use super::formats::{has_format, is_supported};
use crate::model::cause::{Cause, MAX_CAUSES};
use crate::model::go_format::go_number;

/// Maximum nesting depth of `allOf`, `anyOf`, `oneOf` and `not` in a schema.
const MAX_DEPTH: usize = 64;
/// The largest float that Go accepts as an integer.
const MAX_EXACT_FLOAT: f64 = 9_007_199_254_740_991.0;
/// The field of errors that kube-apiserver reports without a path.
pub(super) const NO_PATH: &str = "<nil>";

/// Validates an object. The errors of parts that equal the same part of the old object are dropped.
pub(crate) fn validate(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    validate_part(schema, &schema.root, object, old)
}

/// Validates a value by a part of a schema. The paths of the errors are relative to the value.
pub(crate) fn validate_part(schema: &Schema, part: &Value, value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let check = SchemaValidator { schema };
    check.ratcheted(part, ValueAtPath { value, old, path: "" }, 0).causes
}

/// Prepends the path of a value to the fields of errors that are relative to the value.
pub(crate) fn prefix(path: &str, causes: Vec<Cause>) -> impl Iterator<Item = Cause> {
    causes.into_iter().map(move |mut cause| {
        cause.field = match cause.field.trim_start_matches('.') {
            _ if cause.field == NO_PATH => path.to_owned(),
            "" => path.to_owned(),
            field if path.is_empty() || field.starts_with('[') => format!("{path}{field}"),
            field => format!("{path}.{field}"),
        };
        cause
    })
}

pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[derive(Clone, Copy)]
struct ValueAtPath<'a> {
    value: &'a Value,
    /// The same part of the stored object, if the two can be correlated.
    old: Option<&'a Value>,
    path: &'a str,
}

/// The errors of one validation.
#[derive(Default)]
struct ValidationResult {
    causes: Vec<Cause>,
    /// The number of passed checks. It decides which failed alternative of an `anyOf` or `oneOf` is reported.
    matches: usize,
}

impl ValidationResult {
    fn add(&mut self, cause: Cause) {
        let is_known = |known: &Cause| known.field == cause.field && known.message == cause.message;
        if self.causes.len() < MAX_CAUSES && !self.causes.iter().any(is_known) {
            self.causes.push(cause);
        }
    }

    fn merge(&mut self, other: Self) {
        other.causes.into_iter().for_each(|cause| self.add(cause));
        self.matches += other.matches;
    }

    fn report(&mut self, reason: &'static str, message: String, path: &str) {
        let field = if path.is_empty() { NO_PATH } else { path };
        self.add(Cause { reason, message, field: field.to_owned() });
    }

    fn invalid(&mut self, path: &str, shown: &str, why: &str) {
        self.report("FieldValueInvalid", format!("Invalid value: {shown}: {path} in body {why}"), path);
    }

    /// Reports an error for which kube-apiserver has no path.
    fn pathless(&mut self, why: &str) {
        self.report("FieldValueInvalid", format!("Invalid value: \"\": {why}"), "");
    }

    fn wrong_type(&mut self, path: &str, wanted: &str, found: &str) {
        let why = format!("Invalid value: {found:?}: {path} in body must be of type {wanted}: {found:?}");
        self.report("FieldValueTypeInvalid", why, path);
    }
}

struct SchemaValidator<'a> {
    schema: &'a Schema,
}

impl SchemaValidator<'_> {
    /// Validates a value, and drops the errors if the value is unchanged.
    fn ratcheted(&self, schema: &Value, node: ValueAtPath<'_>, depth: usize) -> ValidationResult {
        let mut outcome = self.value(schema, node, depth);
        if node.old.is_some_and(|old| ratchet::are_equal(schema, old, node.value)) {
            outcome.causes.clear();
        }
        outcome
    }

    fn value(&self, schema: &Value, node: ValueAtPath<'_>, depth: usize) -> ValidationResult {
        let mut outcome = ValidationResult::default();
        if depth > MAX_DEPTH {
            return outcome;
        }
        let ValueAtPath { value, path, .. } = node;
        let types = Types::of(schema);
        outcome.merge(types.check(value, path));
        if value.is_null() {
            check_enum(schema, value, path, &mut outcome);
            return outcome;
        }
        if types.applies() {
            outcome.matches += 1;
        }
        outcome.merge(self.combined(schema, node, depth));
        outcome.matches += 1;
        match value {
            Value::String(text) => {
                self.text(schema, text, path, &mut outcome);
                outcome.matches += 1;
                if !types.format.is_empty() {
                    if !has_format(types.format, text) {
                        outcome.wrong_type(path, types.format, text);
                    }
                    outcome.matches += 1;
                }
            }
            Value::Number(number) => {
                number::check(schema, types.single(), types.format, number, path, &mut outcome);
                outcome.matches += 2;
            }
            Value::Array(items) => {
                self.array(schema, (items, node.old), path, depth, &mut outcome);
                outcome.matches += 2;
            }
            _ => {}
        }
        check_enum(schema, value, path, &mut outcome);
        outcome.matches += 1;
        if let Value::Object(members) = value {
            self.object(schema, (members, node.old), path, depth, &mut outcome);
            outcome.matches += 1;
        }
        outcome.matches += 1;
        outcome
    }

    fn text(&self, schema: &Value, text: &str, path: &str, outcome: &mut ValidationResult) {
        let count = text.chars().count() as u64;
        if let Some(max) = schema["maxLength"].as_u64().filter(|max| count > *max) {
            let unit = if max == 1 { "byte" } else { "bytes" };
            let message = format!("Too long: may not be more than {max} {unit}");
            return outcome.report("FieldValueTooLong", message, path);
        }
        let shown = || Value::from(text).to_string();
        if let Some(min) = schema["minLength"].as_u64().filter(|min| count < *min) {
            return outcome.invalid(path, &shown(), &format!("should be at least {min} chars long"));
        }
        if let Some(pattern) = schema["pattern"].as_str().filter(|pattern| !pattern.is_empty())
            && self.schema.patterns.get(pattern).is_some_and(|regex| !regex.is_match(text))
        {
            outcome.invalid(path, &shown(), &format!("should match '{pattern}'"));
        }
    }

    fn array(
        &self,
        schema: &Value,
        (items, old): (&[Value], Option<&Value>),
        path: &str,
        depth: usize,
        outcome: &mut ValidationResult,
    ) {
        if schema["items"].is_object() {
            for (index, item) in items.iter().enumerate() {
                let old = old.and_then(|old| ratchet::correlated(schema, old, item));
                let path = format!("{path}[{index}]");
                outcome.merge(self.ratcheted(
                    &schema["items"],
                    ValueAtPath { value: item, old, path: &path },
                    depth,
                ));
            }
        }
        let count = items.len() as u64;
        if let Some(min) = schema["minItems"].as_u64().filter(|min| count < *min) {
            outcome.invalid(path, &count.to_string(), &format!("should have at least {min} items"));
        }
        too_many(schema, "maxItems", count, path, outcome);
    }

    fn object(
        &self,
        schema: &Value,
        (members, old): (&Map<String, Value>, Option<&Value>),
        path: &str,
        depth: usize,
        outcome: &mut ValidationResult,
    ) {
        let count = members.len() as u64;
        if let Some(min) = schema["minProperties"].as_u64().filter(|min| count < *min) {
            outcome.invalid(path, &count.to_string(), &format!("should have at least {min} properties"));
        }
        too_many(schema, "maxProperties", count, path, outcome);
        let additional = &schema["additionalProperties"];
        // kube-apiserver does not correlate the type of the root, since both objects have the same.
        let old = |name: &str| match (path, name) {
            ("", "apiVersion" | "kind") => None,
            _ => old.and_then(|old| old.get(name)),
        };
        for (name, value) in members.iter().filter(|(name, _)| schema["properties"].get(*name).is_none()) {
            if *additional == false {
                let why = format!("Invalid value: {name:?}: {path}.{name} in body is a forbidden property");
                outcome.report("FieldValueInvalid", why, path);
            } else if additional.is_object() {
                let path = format!("{path}.{name}");
                outcome.merge(self.ratcheted(
                    additional,
                    ValueAtPath { value, old: old(name), path: &path },
                    depth,
                ));
            }
        }
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let Some(value) = members.get(name) else { continue };
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            outcome.merge(self.ratcheted(schema, ValueAtPath { value, old: old(name), path: &path }, depth));
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                let path = format!("{path}.{name}");
                outcome.report(
                    "FieldValueRequired",
                    "Required value".to_owned(),
                    path.trim_start_matches('.'),
                );
            }
        }
    }

    fn combined(&self, schema: &Value, node: ValueAtPath<'_>, depth: usize) -> ValidationResult {
        let mut outcome = ValidationResult::default();
        let path = node.path;
        let parts = |name: &str| schema[name].as_array().map_or(&[][..], Vec::as_slice);
        let check = |part: &Value| self.value(part, node, depth + 1);
        let any = parts("anyOf");
        if !any.is_empty() {
            let (valid, best) = alternatives(any, &check, true);
            if valid == 0 {
                outcome.pathless(&format!("{path:?} must validate at least one schema (anyOf)"));
            }
            outcome.merge(best);
        }
        let one = parts("oneOf");
        if !one.is_empty() {
            let (valid, best) = alternatives(one, &check, false);
            if valid != 1 {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    valid => format!("Found {valid} valid alternatives"),
                };
                outcome.pathless(&format!("{path:?} must validate one and only one schema (oneOf). {found}"));
            }
            if valid <= 1 {
                outcome.merge(best);
            }
        }
        let all = parts("allOf");
        let mut valid = 0;
        for part in all {
            let part = check(part);
            valid += usize::from(part.causes.is_empty());
            outcome.merge(part);
        }
        if valid != all.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            outcome.pathless(&format!("{path:?} must validate all the schemas (allOf){none}"));
        }
        if schema.get("not").is_some_and(|not| not.is_object() && check(not).causes.is_empty()) {
            outcome.pathless(&format!("{path:?} must not validate the schema (not)"));
        }
        outcome.matches += 1;
        outcome
    }
}

/// Validates alternatives. Returns the number of valid ones, and the outcome of the first valid one, or else
/// of the one that passed most checks.
fn alternatives(
    parts: &[Value],
    check: &dyn Fn(&Value) -> ValidationResult,
    stop: bool,
) -> (usize, ValidationResult) {
    let (mut valid, mut best): (usize, Option<ValidationResult>) = (0, None);
    for part in parts {
        let outcome = check(part);
        if outcome.causes.is_empty() {
            valid += 1;
            if valid == 1 {
                best = Some(outcome);
            }
            if stop {
                break;
            }
        } else if valid == 0 && best.as_ref().is_none_or(|best| outcome.matches > best.matches) {
            best = Some(outcome);
        }
    }
    (valid, best.unwrap_or_default())
}

fn too_many(schema: &Value, name: &str, count: u64, path: &str, outcome: &mut ValidationResult) {
    if let Some(max) = schema[name].as_u64().filter(|max| count > *max) {
        let unit = if max == 1 { "item" } else { "items" };
        let message = format!("Too many: {count}: must have at most {max} {unit}");
        outcome.report("FieldValueTooMany", message, path);
    }
}

fn check_enum(schema: &Value, value: &Value, path: &str, outcome: &mut ValidationResult) {
    let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.is_empty()) else { return };
    let is_same = |one: &Value| match (one, value) {
        (_, Value::Null) | (Value::Null, _) => false,
        (Value::Number(one), Value::Number(value)) if one.is_f64() || value.is_f64() => {
            one.as_f64() == value.as_f64()
        }
        (one, value) => one == value,
    };
    if allowed.iter().any(is_same) {
        return;
    }
    let quoted = allowed.iter().map(|one| match one {
        Value::String(text) => json!(text).to_string(),
        other => json!(other.to_string()).to_string(),
    });
    let quoted: Vec<String> = quoted.collect();
    let shown = match value {
        Value::Number(number) => go_number(number),
        value => value.to_string(),
    };
    let message = format!("Unsupported value: {shown}: supported values: {}", quoted.join(", "));
    outcome.report("FieldValueNotSupported", message, path);
}

/// The types that a schema allows, and its format if the format applies to the type.
struct Types<'a> {
    all: Vec<&'a str>,
    nullable: bool,
    format: &'a str,
}

impl<'a> Types<'a> {
    fn of(schema: &'a Value) -> Self {
        let single = schema["type"].as_str().unwrap_or_default();
        let all = match single {
            _ if schema["x-kubernetes-int-or-string"] == true => vec!["integer", "string"],
            "" => Vec::new(),
            single => vec![single],
        };
        let format = schema["format"].as_str().unwrap_or_default();
        let kind = if all.len() == 1 { all[0] } else { "" };
        let format = if is_supported(format, kind) { format } else { "" };
        Self { all, nullable: schema["nullable"] == true, format }
    }

    fn applies(&self) -> bool {
        !self.all.is_empty() || !self.format.is_empty()
    }

    fn single(&self) -> &'a str {
        if let [single] = self.all[..] { single } else { "" }
    }

    fn has(&self, name: &str) -> bool {
        self.all.contains(&name)
    }

    fn check(&self, value: &Value, path: &str) -> ValidationResult {
        let mut outcome = ValidationResult { matches: 1, ..ValidationResult::default() };
        if !value.is_null() && !self.applies() {
            return ValidationResult::default();
        }
        let found = type_of(value);
        let wanted = self.all.join(",");
        let mut wrong = |wanted: &str, found: &str| {
            outcome.matches = 0;
            outcome.wrong_type(path, wanted, found);
        };
        if value.is_null() {
            if !self.all.is_empty() && !self.nullable {
                wrong(&wanted, found);
            }
            return outcome;
        }
        let is_exact = |number: f64| number.fract() == 0.0 && number.abs() <= MAX_EXACT_FLOAT;
        let whole = value.as_f64().is_some_and(is_exact);
        let is_whole = found == "number" && whole && self.has("integer");
        let is_number = found == "integer" && self.has("number");
        let is_text = matches!(value, Value::String(_) | Value::Array(_));
        let is_right = self.has(found) || is_whole || is_number;
        if !is_text && !self.format.is_empty() && !is_right {
            let format = match found {
                "integer" => "int64",
                "number" => "float64",
                _ => "",
            };
            wrong(self.format, format);
        } else if is_text && !self.format.is_empty() && !(self.has("number") || self.has("integer")) {
            // A string format is checked separately.
        } else if !is_right {
            wrong(&wanted, found);
        }
        outcome
    }
}

#[cfg(test)]
mod tests;
