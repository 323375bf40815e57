//! `status.storedVersions`.

use serde_json::Value;

use super::{list, text};
use crate::model::cause::{Cause, Causes};

const FIELD: &str = "status.storedVersions";

pub(super) fn check(definition: &Value, causes: &mut Causes) {
    let versions = list(&definition["spec"], "versions");
    // The status of a new definition is set after its validation.
    let Some(stored) = definition["status"].get("storedVersions") else {
        if !versions.iter().any(|version| version["storage"] == true) {
            causes.push(Cause::invalid(FIELD, "null", "must have at least one stored version"));
        }
        return;
    };
    let names = stored.as_array().map_or(&[][..], Vec::as_slice);
    if names.is_empty() {
        causes.push(Cause::invalid(FIELD, "null", "must have at least one stored version"));
        return;
    }
    for version in versions.iter().filter(|version| version["storage"] == true) {
        if !names.contains(&version["name"]) {
            let why = format!("must have the storage version {}", text(version, "name"));
            causes.push(Cause::invalid(FIELD, &stored.to_string(), &why));
        }
    }
    for (index, name) in names.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let shown = name.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {shown} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {shown} and \
                 removes {shown} from status.storedVersions"
            );
            causes.push(Cause::invalid(&format!("{FIELD}[{index}]"), &name.to_string(), &why));
        }
    }
}
