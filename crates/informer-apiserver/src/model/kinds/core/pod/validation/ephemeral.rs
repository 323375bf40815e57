//! Validation of changes of the ephemeral containers of a pod.

use std::collections::HashMap;

use serde_json::Value;

use crate::model::cause::{Cause, Causes, NO_FIELD};
use crate::model::rules::checks::FieldView;
use crate::model::rules::warnings::{list, text};

use super::is_static;

/// Rejects an update of `/ephemeralcontainers` that changes or removes an existing container. As in
/// kube-apiserver, the order of the containers may change.
pub(super) fn check(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let Some(old) = at.old else { return };
    if is_static(old) {
        return causes
            .replace_all(Cause::forbidden(NO_FIELD, "static pods do not support ephemeral containers"));
    }
    let new = at.items("spec.ephemeralContainers");
    let new: HashMap<&str, &Value> =
        new.iter().map(|container| (text(&container["name"]), container)).collect();
    for before in list(&old["spec"]["ephemeralContainers"]) {
        let name = text(&before["name"]);
        let why = match new.get(name) {
            None => format!("existing ephemeral containers {name:?} may not be removed\n"),
            // kube-apiserver adds a diff of the two containers.
            Some(after) if *after != before => {
                format!("existing ephemeral containers {name:?} may not be changed\n")
            }
            Some(_) => continue,
        };
        causes.push(Cause::forbidden("spec.ephemeralContainers", &why));
    }
}
