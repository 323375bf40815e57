//! Validates custom resources by the structural schema of their CRD, with the messages of kube-apiserver.

use serde_json::{Value, json};

use super::Schema;
use crate::model::error::Cause;

/// Maximum number of validation errors for one object, as a limit for hostile objects.
const MAX_CAUSES: usize = 1000;
/// Maximum nesting depth of `allOf`, `anyOf`, `oneOf` and `not` in a schema.
const MAX_DEPTH: usize = 64;

pub(super) fn validate(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut check = Validator { schema, causes: Vec::new() };
    check.value(&schema.root, (object, old), "", 0);
    check.causes
}

struct Validator<'a> {
    schema: &'a Schema,
    causes: Vec<Cause>,
}

pub(super) fn type_of(value: &Value) -> &'static str {
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

impl Validator<'_> {
    fn report(&mut self, reason: &'static str, message: String, path: &str) {
        if self.causes.len() < MAX_CAUSES {
            self.causes.push(Cause { reason, message, field: path.to_owned() });
        }
    }

    fn invalid(&mut self, path: &str, value: &Value, why: &str) {
        self.report("FieldValueInvalid", format!("Invalid value: {value}: {path} in body {why}"), path);
    }

    fn value(&mut self, schema: &Value, (value, old): (&Value, Option<&Value>), path: &str, depth: usize) {
        // Ratcheting validation: an update may keep values unchanged that are already invalid.
        if old == Some(value) || depth > MAX_DEPTH {
            return;
        }
        if value.is_null() && schema["nullable"] == true {
            return;
        }
        if !self.has_type(schema, value, path) {
            return;
        }
        if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
            let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
            let message = format!("Unsupported value: {value}: supported values: {}", allowed.join(", "));
            self.report("FieldValueNotSupported", message, path);
        }
        match value {
            Value::Object(_) => self.object(schema, (value, old), path, depth),
            Value::Array(items) => self.array(schema, (items, old), path, depth),
            Value::String(text) => self.text(schema, text, value, path),
            Value::Number(number) => self.number(schema, number.as_f64().unwrap_or_default(), value, path),
            _ => {}
        }
        self.combined(schema, value, path, depth);
    }

    fn has_type(&mut self, schema: &Value, value: &Value, path: &str) -> bool {
        let found = type_of(value);
        let wanted = match schema["type"].as_str() {
            Some(wanted) => wanted,
            None if schema["x-kubernetes-int-or-string"] == true => {
                return matches!(found, "integer" | "string")
                    || self.report_wrong_type(found, "integer,string", path);
            }
            None => return true,
        };
        let is_valid = wanted == found
            || (wanted == "number" && found == "integer")
            || (wanted == "integer" && value.as_f64().is_some_and(|number| number.fract() == 0.0));
        if !is_valid {
            self.report_wrong_type(found, wanted, path);
            if wanted == "integer" && found == "number" {
                let why = format!(
                    "Invalid value: \"\": Checked value must be of type integer (default format) in {path}"
                );
                self.report("FieldValueInvalid", why, "<nil>");
            }
        }
        is_valid
    }

    fn report_wrong_type(&mut self, found: &str, wanted: &str, path: &str) -> bool {
        let message =
            format!("Invalid value: \"{found}\": {path} in body must be of type {wanted}: \"{found}\"");
        self.report("FieldValueTypeInvalid", message, path);
        false
    }

    fn object(&mut self, schema: &Value, (value, old): (&Value, Option<&Value>), path: &str, depth: usize) {
        let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        if schema["x-kubernetes-embedded-resource"] == true {
            for name in ["apiVersion", "kind"].into_iter().filter(|name| value.get(*name).is_none()) {
                self.report("FieldValueRequired", "Required value".to_owned(), &at(name));
            }
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if value.get(name).is_none() {
                self.report("FieldValueRequired", "Required value".to_owned(), &at(name));
            }
        }
        let count = value.as_object().map_or(0, serde_json::Map::len) as u64;
        if let Some(max) = schema["maxProperties"].as_u64().filter(|max| count > *max) {
            let message = format!("Too many: {count}: must have at most {max} items");
            self.report("FieldValueTooMany", message, path);
        }
        if let Some(min) = schema["minProperties"].as_u64().filter(|min| count < *min) {
            self.invalid(path, value, &format!("should have at least {min} properties"));
        }
        for (name, member) in value.as_object().into_iter().flatten() {
            let schema = match schema["properties"].get(name) {
                Some(schema) => schema,
                None if path.is_empty() && name == "metadata" => continue,
                None => &schema["additionalProperties"],
            };
            if schema.is_object() {
                let old = old.and_then(|old| old.get(name));
                self.value(schema, (member, old), &at(name), depth);
            }
        }
    }

    fn array(&mut self, schema: &Value, (items, old): (&[Value], Option<&Value>), path: &str, depth: usize) {
        let count = items.len() as u64;
        if let Some(max) = schema["maxItems"].as_u64().filter(|max| count > *max) {
            let message = format!("Too many: {count}: must have at most {max} items");
            self.report("FieldValueTooMany", message, path);
        }
        if let Some(min) = schema["minItems"].as_u64().filter(|min| count < *min) {
            self.invalid(path, &json!(count), &format!("should have at least {min} items"));
        }
        for (index, item) in items.iter().enumerate() {
            let old = old.and_then(|old| old.get(index));
            self.value(&schema["items"], (item, old), &format!("{path}[{index}]"), depth);
        }
        let identity: Box<dyn Fn(&Value) -> Value> = match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => Box::new(Value::clone),
            Some("map") => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array().cloned().unwrap_or_default();
                Box::new(move |item| {
                    let of = |key: &Value| Some((key.as_str()?.to_owned(), item.get(key.as_str()?)?.clone()));
                    Value::Object(keys.iter().filter_map(of).collect())
                })
            }
            _ => return,
        };
        let mut seen = std::collections::HashSet::new();
        for (index, item) in items.iter().enumerate() {
            let identity = identity(item);
            if !seen.insert(identity.to_string()) {
                let message = format!("Duplicate value: {identity}");
                self.report("FieldValueDuplicate", message, &format!("{path}[{index}]"));
            }
        }
    }

    fn text(&mut self, schema: &Value, text: &str, value: &Value, path: &str) {
        let count = text.chars().count() as u64;
        if let Some(max) = schema["maxLength"].as_u64().filter(|max| count > *max) {
            let message = format!("Too long: may not be more than {max} bytes");
            self.report("FieldValueTooLong", message, path);
        }
        if let Some(min) = schema["minLength"].as_u64().filter(|min| count < *min) {
            self.invalid(path, value, &format!("should be at least {min} chars long"));
        }
        if let Some(pattern) = schema["pattern"].as_str()
            && self.schema.patterns.get(pattern).is_some_and(|regex| !regex.is_match(text))
        {
            self.invalid(path, value, &format!("should match '{pattern}'"));
        }
        if let Some(format) = schema["format"].as_str().filter(|format| !has_format(format, text)) {
            let message = format!("Invalid value: {value}: {path} in body must be of type {format}: {value}");
            self.report("FieldValueTypeInvalid", message, path);
        }
    }

    fn number(&mut self, schema: &Value, number: f64, value: &Value, path: &str) {
        let bound = |name: &str| schema[name].as_f64();
        let shown = |name: &str| schema[name].to_string();
        if let Some(min) = bound("minimum") {
            let exclusive = schema["exclusiveMinimum"] == true;
            if number < min || (exclusive && number <= min) {
                let than = if exclusive { "greater than" } else { "greater than or equal to" };
                self.invalid(path, value, &format!("should be {than} {}", shown("minimum")));
            }
        }
        if let Some(max) = bound("maximum") {
            let exclusive = schema["exclusiveMaximum"] == true;
            if number > max || (exclusive && number >= max) {
                let than = if exclusive { "less than" } else { "less than or equal to" };
                self.invalid(path, value, &format!("should be {than} {}", shown("maximum")));
            }
        }
        if let Some(of) = bound("multipleOf").filter(|of| *of != 0.0 && (number / of).fract() != 0.0) {
            self.invalid(path, value, &format!("should be a multiple of {of}"));
        }
    }

    fn combined(&mut self, schema: &Value, value: &Value, path: &str, depth: usize) {
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.value(part, (value, None), path, depth + 1);
        }
        let holds = |part: &Value| {
            let mut check = Validator { schema: self.schema, causes: Vec::new() };
            check.value(part, (value, None), path, depth + 1);
            check.causes.is_empty()
        };
        let count =
            |name: &str| schema[name].as_array().map(|parts| parts.iter().filter(|part| holds(part)).count());
        let (any, one) = (count("anyOf"), count("oneOf"));
        let not = schema.get("not").is_some_and(holds);
        if any == Some(0) {
            self.invalid(path, &json!(""), "must validate at least one schema (anyOf)");
        }
        if one.is_some_and(|count| count != 1) {
            self.invalid(path, &json!(""), "must validate one and only one schema (oneOf)");
        }
        if not {
            self.invalid(path, &json!(""), "must not validate the schema (not)");
        }
    }
}

/// Returns true if a string has the `format` of a schema. As in kube-apiserver, an unknown format accepts
/// every string.
fn has_format(format: &str, text: &str) -> bool {
    match format {
        "date-time" => text.contains(['T', 't']) && text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "uuid" => uuid::Uuid::try_parse(text).is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        _ => true,
    }
}
