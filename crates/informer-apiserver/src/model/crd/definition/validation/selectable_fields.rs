//! Selectable fields.

use std::collections::HashSet;

use serde_json::Value;

use super::{field_path, text};
use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::{duplicate, required};

/// Maximum number of selectable fields of a version.
const MAX_FIELDS: usize = 8;

pub(super) fn check(fields: &[Value], schema: &Value, path: &str, causes: &mut Causes) {
    let mut seen = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        let (json_path, path) = (text(field, "jsonPath"), format!("{path}[{index}].jsonPath"));
        let shown = format!("{json_path:?}");
        let mut invalid = |why: &str| causes.push(Cause::invalid(&path, &shown, why));
        if json_path.is_empty() {
            causes.push(required(&path, ""));
            continue;
        }
        let found = match field_path::find(json_path, schema, false) {
            Ok(found) => found,
            Err(why) => {
                invalid(&format!("is an invalid path: {why}"));
                continue;
            }
        };
        if found.root == "metadata" {
            invalid("must not point to fields in metadata");
        }
        if !matches!(text(found.schema, "type"), "string" | "boolean" | "integer") {
            invalid(
                "must point to a field of type string, boolean or integer. Enum string fields and strings \
                 with formats are allowed.",
            );
        }
        if !seen.insert(found.path) {
            causes.push(duplicate(&path, &shown));
        }
    }
    if seen.len() > MAX_FIELDS {
        causes.push(Cause::too_many(path, seen.len(), MAX_FIELDS));
    }
}
