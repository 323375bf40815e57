//! JSON patches (RFC 6902), and limits of what they may make.

mod operation;

pub(crate) use operation::is_failed_test;

use serde_json::{Map, Value};

use crate::model::json::read_json;
use crate::model::metadata::json_type;

/// Operations of one JSON patch, as upstream.
pub(crate) const OPERATIONS_MAX: usize = 10_000;
/// How deep what a patch makes may nest; the reader of JSON bounds the text alike.
const DEPTH_MAX: usize = 128;
/// Bytes that the copies of one JSON patch may make, as upstream: copies of copies grow with every operation.
const COPIED_BYTES_MAX: usize = 3 << 20;

/// The operations of a JSON patch.
#[derive(Debug)]
pub(crate) struct JsonPatch(Vec<Value>);

impl JsonPatch {
    /// Takes operations, unless they are too many: how many they are.
    pub(crate) fn of(operations: Vec<Value>) -> Result<Self, usize> {
        if operations.len() > OPERATIONS_MAX { Err(operations.len()) } else { Ok(Self(operations)) }
    }

    /// Reads the operations of a patch that did not come with a request; the error says why there are none.
    pub(crate) fn read(text: &[u8]) -> Result<Self, String> {
        match read_json(text)? {
            Value::Array(operations) if operations.iter().all(Value::is_object) => {
                Self::of(operations).map_err(|_| format!("more than {OPERATIONS_MAX} operations"))
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

    /// True where an operation names this path.
    pub(crate) fn touches(&self, path: &str) -> bool {
        self.0.iter().any(|operation| operation["path"] == path)
    }

    /// The object after all operations; the error tells of the one that does not apply.
    pub(crate) fn apply(&self, mut object: Value) -> Result<Value, String> {
        let mut bounds = Bounds::default();
        for operation in &self.0 {
            bounds.check(&mut object, operation)?;
            operation::apply(&mut object, operation)?;
        }
        Ok(object)
    }
}

/// Why the members of an operation are not those of one, as far as types tell.
pub(crate) fn mistyped(members: &Map<String, Value>) -> Option<String> {
    ["op", "path", "from"].into_iter().find_map(|name| {
        let value = members.get(name).filter(|value| !value.is_string() && !value.is_null())?;
        let found = json_type(value);
        Some(format!("json: cannot unmarshal {found} into Go struct field jsonPatchOp.{name} of type string"))
    })
}

/// What the operations of one JSON patch have made so far. It is asked before each of them, since a few hundred bytes of patch
/// can make an object that no memory holds, or that no stack can walk.
#[derive(Debug, Default)]
struct Bounds {
    copied: usize,
}

impl Bounds {
    /// Refuses an operation that would make too much; what does not apply is left to be found out.
    fn check(&mut self, object: &mut Value, operation: &Value) -> Result<(), String> {
        let text = |name: &str| operation[name].as_str().unwrap_or_default();
        let op = text("op");
        let made = match op {
            "add" | "replace" => operation.get("value"),
            "copy" | "move" => operation::found(object, text("from")),
            _ => None,
        };
        let Some(made) = made else { return Ok(()) };
        if text("path").matches('/').count() + depth(made) > DEPTH_MAX {
            return Err(deeper());
        }
        if op == "copy" {
            self.copied += made.to_string().len();
            if self.copied > COPIED_BYTES_MAX {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit \
                     {COPIED_BYTES_MAX}",
                    self.copied
                ));
            }
        }
        Ok(())
    }
}

/// Why an object cannot be stored that something else than its text has made.
pub(crate) fn too_deep(object: &Value) -> Option<String> {
    (depth(object) > DEPTH_MAX).then(deeper)
}

fn deeper() -> String {
    format!("the patched object nests deeper than {DEPTH_MAX}")
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
