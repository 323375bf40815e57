//! JSON patches (RFC 6902), with limits for the size and depth of their results.

mod operation;

pub(crate) use operation::is_failed_test;

use serde_json::{Map, Value};

use crate::model::json::json_type;
use crate::model::json::read_json;

/// Maximum number of operations of a JSON patch, as in kube-apiserver.
pub(crate) const MAX_OPERATIONS: usize = 10_000;
/// Maximum nesting depth of the patched object, equal to that of the JSON decoder.
const MAX_DEPTH: usize = 128;
/// Maximum number of bytes that the `copy` operations of one patch may add, as in kube-apiserver. Without
/// this limit, copies of copies make an object grow exponentially.
const MAX_COPIED_BYTES: usize = 3 << 20;

#[derive(Debug)]
pub(crate) struct JsonPatch(Vec<Value>);

impl JsonPatch {
    /// Creates a JSON patch. Returns the number of operations as `Err` if there are too many.
    pub(crate) fn of(operations: Vec<Value>) -> Result<Self, usize> {
        if operations.len() > MAX_OPERATIONS { Err(operations.len()) } else { Ok(Self(operations)) }
    }

    /// Decodes a JSON patch that does not come from a patch request, for example one from a webhook.
    pub(crate) fn read(text: &[u8]) -> Result<Self, String> {
        match read_json(text)? {
            Value::Array(operations) if operations.iter().all(Value::is_object) => {
                Self::of(operations).map_err(|_| format!("more than {MAX_OPERATIONS} operations"))
            }
            other => Err(format!(
                "json: cannot unmarshal {} into Go value of type jsonpatch.Patch",
                json_type(&other)
            )),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn touches(&self, path: &str) -> bool {
        self.0.iter().any(|operation| operation["path"] == path)
    }

    /// Applies all operations of the JSON patch. The error names the operation that cannot be applied.
    pub(crate) fn apply(&self, mut object: Value) -> Result<Value, String> {
        let mut bounds = Limits::default();
        for operation in &self.0 {
            bounds.check(&mut object, operation)?;
            operation::apply(&mut object, operation)?;
        }
        Ok(object)
    }
}

pub(crate) fn mistyped(members: &Map<String, Value>) -> Option<String> {
    ["op", "path", "from"].into_iter().find_map(|name| {
        let value = members.get(name).filter(|value| !value.is_string() && !value.is_null())?;
        let found = json_type(value);
        Some(format!("json: cannot unmarshal {found} into Go struct field jsonPatchOp.{name} of type string"))
    })
}

/// Size and depth limits while one JSON patch is applied. They are checked before each operation, because a
/// patch of a few hundred bytes can create an object that exhausts the memory or the stack.
#[derive(Debug, Default)]
struct Limits {
    copied: usize,
}

impl Limits {
    /// Rejects a JSON patch operation that exceeds a limit. For an operation that cannot be applied,
    /// [`operation::apply`] returns the error.
    fn check(&mut self, object: &mut Value, operation: &Value) -> Result<(), String> {
        let text = |name: &str| operation[name].as_str().unwrap_or_default();
        let op = text("op");
        let made = match op {
            "add" | "replace" => operation.get("value"),
            "copy" | "move" => operation::found(object, text("from")),
            _ => None,
        };
        let Some(made) = made else { return Ok(()) };
        if text("path").matches('/').count() + depth(made) > MAX_DEPTH {
            return Err(deeper());
        }
        if op == "copy" {
            self.copied += made.to_string().len();
            if self.copied > MAX_COPIED_BYTES {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit \
                     {MAX_COPIED_BYTES}",
                    self.copied
                ));
            }
        }
        Ok(())
    }
}

/// Returns the error for a patched object that is nested too deeply to be stored. The JSON decoder checks
/// only request bodies, and not objects that a patch creates.
pub(crate) fn too_deep(object: &Value) -> Option<String> {
    (depth(object) > MAX_DEPTH).then(deeper)
}

fn deeper() -> String {
    format!("the patched object nests deeper than {MAX_DEPTH}")
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
