//! One operation of a JSON patch, with the behavior and the messages of evanphx/json-patch v4. A missing
//! value equals null, indexes may count from the end, `replace` adds a missing member, and a copy of a
//! missing value is null.

use std::num::IntErrorKind;

use serde_json::Value;

use crate::model::json::json_type;

const MISSING: &str = "missing value";
const FAILED_TEST: &str = "test failed";

/// Applies one operation of a JSON patch. The error is the reason why it cannot be applied.
pub(crate) fn apply(object: &mut Value, operation: &Value) -> Result<(), String> {
    let value = || operation.get("value").cloned().unwrap_or_default();
    match operation.get("op").and_then(Value::as_str).unwrap_or("unknown") {
        "add" => add(object, path(operation, "add")?, value()),
        "remove" => remove(object, path(operation, "remove")?),
        "replace" => replace(object, path(operation, "replace")?, value()),
        "test" => test(object, path(operation, "test")?, &value()),
        "move" => relocate(object, operation),
        "copy" => copy(object, operation),
        other => Err(format!("Unexpected kind: {other}")),
    }
}

/// Returns the value at a path in an object, as JSON patch resolves it.
pub(crate) fn found<'v>(object: &'v mut Value, path: &str) -> Option<&'v Value> {
    JsonPatchTarget::find(object, path)?.get().ok()?
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let place = JsonPatchTarget::find(object, path);
    let place = place.ok_or_else(|| nowhere("add", &format!("doc is missing path: {path:?}")))?;
    place.add(value).map_err(|why| format!("error in add for path: '{path}': {why}"))
}

fn remove(object: &mut Value, path: &str) -> Result<(), String> {
    let place = JsonPatchTarget::find(object, path);
    let place = place.ok_or_else(|| nowhere("remove", &format!("doc is missing path: {path:?}")))?;
    place.remove().map(drop).map_err(|why| format!("error in remove for path: '{path}': {why}"))
}

fn replace(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err("replace operation value must be object or array".to_owned());
        }
        *object = value;
        return Ok(());
    }
    let place = JsonPatchTarget::find(object, path);
    let place = place.ok_or_else(|| nowhere("replace", &format!("doc is missing path: {path}")))?;
    place.set(value).map_err(|_| nowhere("replace", &format!("doc is missing key: {path}")))
}

fn test(object: &mut Value, path: &str, value: &Value) -> Result<(), String> {
    let found = match path {
        "" => Some(&*object),
        path => {
            let place = JsonPatchTarget::find(object, path);
            let place = place.ok_or_else(|| nowhere("test", &format!("is missing path: {path}")))?;
            place.get().map_err(|why| format!("error in test for path: '{path}': {why}"))?
        }
    };
    // A missing value equals null. A `test` for null therefore lets clients ensure that a value does not
    // exist before they add it.
    if found.unwrap_or(&Value::Null) == value {
        Ok(())
    } else {
        Err(format!("testing value {path} failed: {FAILED_TEST}"))
    }
}

/// Returns true if the error comes from a `test` operation that found another value.
pub(crate) fn is_failed_test(why: &str) -> bool {
    why.starts_with("testing value ") && why.ends_with(FAILED_TEST)
}

fn relocate(object: &mut Value, operation: &Value) -> Result<(), String> {
    let from = from(operation, "move")?;
    let place = JsonPatchTarget::find(object, from);
    let place = place.ok_or_else(|| nowhere("move", &format!("doc is missing from path: {from}")))?;
    let key = place.key.clone();
    let value = place.remove().map_err(|why| format!("error in move for path: '{key}': {why}"))?;
    let path = path(operation, "move")?;
    let place = JsonPatchTarget::find(object, path);
    let place = place.ok_or_else(|| nowhere("move", &format!("doc is missing destination path: {path}")))?;
    place.add(value).map_err(|why| format!("error in move for path: '{path}': {why}"))
}

fn copy(object: &mut Value, operation: &Value) -> Result<(), String> {
    let from = from(operation, "copy")?;
    let place = JsonPatchTarget::find(object, from);
    let place = place.ok_or_else(|| nowhere("copy", &format!("doc is missing from path: {from}")))?;
    let value = place.get().map_err(|why| format!("error in copy for from: '{from}': {why}"))?;
    let value = value.cloned().unwrap_or_default();
    let path = path(operation, "copy")?;
    let place = JsonPatchTarget::find(object, path);
    let place = place.ok_or_else(|| nowhere("copy", &format!("doc is missing destination path: {path}")))?;
    place.add(value).map_err(|why| format!("error while adding value during copy: {why}"))
}

fn nowhere(op: &str, why: &str) -> String {
    format!("{op} operation does not apply: {why}: {MISSING}")
}

fn path<'o>(operation: &'o Value, op: &str) -> Result<&'o str, String> {
    text(operation, "path", "operation missing path field").map_err(|why| match op {
        "add" | "remove" | "copy" => format!("{op} operation failed to decode path: {MISSING}"),
        _ => format!("{op} operation failed to decode path: {why}"),
    })
}

fn from<'o>(operation: &'o Value, op: &str) -> Result<&'o str, String> {
    let from = text(operation, "from", "operation, missing from field");
    from.map_err(|why| format!("{op} operation failed to decode from: {why}"))
}

fn text<'o>(operation: &'o Value, name: &str, missing: &str) -> Result<&'o str, String> {
    match operation.get(name).unwrap_or(&Value::Null) {
        Value::String(text) => Ok(text),
        Value::Null => Err(format!("{missing}: {MISSING}")),
        other => Err(format!("json: cannot unmarshal {} into Go value of type string", json_type(other))),
    }
}

/// The target of a JSON patch path: the object or list that contains it, and a key that may be missing.
struct JsonPatchTarget<'v> {
    within: &'v mut Value,
    key: String,
}

impl<'v> JsonPatchTarget<'v> {
    fn find(object: &'v mut Value, path: &str) -> Option<Self> {
        // As in json-patch, the part of a path before its first slash is ignored.
        let mut parts: Vec<&str> = path.split('/').skip(1).collect();
        let key = decoded(parts.pop()?);
        let mut within = object;
        for part in parts {
            within = JsonPatchTarget { within, key: decoded(part) }.entry()?;
        }
        matches!(within, Value::Object(_) | Value::Array(_)).then_some(Self { within, key })
    }

    fn entry(self) -> Option<&'v mut Value> {
        match self.within {
            Value::Object(members) => members.get_mut(&self.key),
            Value::Array(items) => {
                let at = index(&self.key, items.len()).ok()?;
                items.get_mut(at)
            }
            _ => None,
        }
    }

    /// Returns the value of the target; `None` if its object has no such member.
    fn get(self) -> Result<Option<&'v Value>, String> {
        match self.within {
            Value::Array(items) => index(&self.key, items.len()).map(|at| items.get(at)),
            within => Ok(within.get(&self.key)),
        }
    }

    fn set(self, value: Value) -> Result<(), String> {
        match self.within {
            Value::Object(members) => drop(members.insert(self.key, value)),
            Value::Array(items) => {
                let at = index(&self.key, items.len())?;
                items[at] = value;
            }
            _ => {}
        }
        Ok(())
    }

    fn add(self, value: Value) -> Result<(), String> {
        match self.within {
            Value::Array(items) if self.key == "-" => items.push(value),
            Value::Array(items) => {
                let at = index(&self.key, items.len() + 1).map_err(|why| {
                    if why.starts_with("strconv") {
                        format!("value was not a proper array index: '{}': {why}", self.key)
                    } else {
                        why
                    }
                })?;
                items.insert(at, value);
            }
            _ => return self.set(value),
        }
        Ok(())
    }

    fn remove(self) -> Result<Value, String> {
        let key = self.key;
        match self.within {
            Value::Array(items) => index(&key, items.len()).map(|at| items.remove(at)),
            within => {
                let removed = within.as_object_mut().and_then(|members| members.remove(&key));
                removed.ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}"))
            }
        }
    }
}

fn decoded(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// Returns the index that a path contains for a list of `count` entries. Negative indexes count from the end.
fn index(key: &str, count: usize) -> Result<usize, String> {
    let number: i64 = key.parse().map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.Atoi: parsing {key:?}: {why}")
    })?;
    let from_start = usize::try_from(number).ok();
    let from_end = || count.checked_sub(usize::try_from(number.unsigned_abs()).ok()?);
    let at = if number < 0 { from_end() } else { from_start };
    at.filter(|at| *at < count)
        .ok_or_else(|| format!("Unable to access invalid index: {number}: invalid index referenced"))
}

#[cfg(test)]
mod tests;
