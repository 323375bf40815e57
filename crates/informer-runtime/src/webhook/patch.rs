//! Computes the JSON patch with which a mutating webhook responds. A defaulter changes an object as a typed
//! value (its view), which lacks fields that the type does not know.
//!
//! The patch is computed from three states: the object as received (`raw`), its typed view (`before`), and
//! that view after the defaulter has changed it (`after`). Fields that the view lacks are in neither `before`
//! nor `after`, so they do not change. List elements are matched as in updates by the client.

use informer_client::ListKeys;
use serde_json::{Value, json};

use crate::client::difference::carried;

/// Returns the JSON patch (RFC 6902) that applies to the received object `raw` the change from the view
/// `before` to the view `after`. `keys` has the fields by which list elements are matched.
pub(super) fn between(raw: &Value, before: &Value, after: &Value, keys: &ListKeys) -> Vec<Value> {
    let mut operations = Vec::new();
    differ(&mut String::new(), raw, &carried(raw, before, after, keys.root()), &mut operations);
    operations
}

fn differ(path: &mut String, from: &Value, to: &Value, operations: &mut Vec<Value>) {
    match (from, to) {
        (from, to) if from == to => {}
        (Value::Object(from), Value::Object(to)) => {
            for name in from.keys().filter(|name| !to.contains_key(*name)) {
                below(path, name, |path| operations.push(json!({"op": "remove", "path": path})));
            }
            for (name, value) in to {
                below(path, name, |path| match from.get(name) {
                    Some(old) => differ(path, old, value, operations),
                    None => operations.push(json!({"op": "add", "path": path, "value": value})),
                });
            }
        }
        (Value::Array(from), Value::Array(to)) if from.len() == to.len() => {
            for (index, (from, to)) in from.iter().zip(to).enumerate() {
                below(path, &index.to_string(), |path| differ(path, from, to, operations));
            }
        }
        (_, to) => operations.push(json!({"op": "replace", "path": path, "value": to})),
    }
}

fn below(path: &mut String, name: &str, then: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(&name.replace('~', "~0").replace('/', "~1"));
    then(path);
    path.truncate(length);
}
