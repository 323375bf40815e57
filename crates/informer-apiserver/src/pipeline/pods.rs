//! The `binding` subresource of pods.

use serde_json::{Value, json};

use crate::admission::Scope;
use crate::model::error::{ApiError, Details};
use crate::model::json::parse;
use crate::pipeline::Pipeline;
use crate::pipeline::preconditions::{Precondition, check_state};
use crate::pipeline::retry::{OnConflict, retry};

impl Pipeline {
    pub(crate) async fn bind(&self, scope: Scope<'_>, name: &str, binding: &Value) -> Result<(), ApiError> {
        let target = &binding["target"];
        let (kind, node) = (text(&target["kind"]), text(&target["name"]));
        if !matches!(kind, "" | "Node") {
            let why =
                format!("target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\"");
            return Err(ApiError::new(500, "", why));
        }
        if node.is_empty() {
            return Err(ApiError::new(500, "", "target.name: Required value"));
        }
        retry(scope.kind(), name, OnConflict::Retry, || async move {
            let current = self.find(scope.resource, scope.namespace, name)?;
            let (metadata, version) = (&binding["metadata"], current.version.to_string());
            let uid = Precondition { field: "UID", expected: text(&metadata["uid"]), stored: &current.uid };
            let version = Precondition {
                field: "ResourceVersion",
                expected: text(&metadata["resourceVersion"]),
                stored: &version,
            };
            check_state(scope.kind(), &current, [uid, version])?;
            let mut pod = parse(current.as_slice());
            let bound = text(&pod["spec"]["nodeName"]);
            if !bound.is_empty() {
                let why = format!("pod {name} is already assigned to node {bound:?}");
                return Err(already_bound(name, &why).into());
            }
            if crate::pipeline::is_terminating(&pod) {
                let why = format!("pod {name} is being deleted, cannot be assigned to a host");
                return Err(already_bound(name, &why).into());
            }
            if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
                let why = format!("pod {name} has non-empty .spec.schedulingGates");
                return Err(already_bound(name, &why).into());
            }
            pod["spec"]["nodeName"] = node.into();
            if let Some(status) = pod["status"].as_object_mut() {
                status.remove("nominatedNodeName");
            }
            for part in ["annotations", "labels"] {
                for (name, value) in binding["metadata"][part].as_object().into_iter().flatten() {
                    pod["metadata"][part][name] = value.clone();
                }
            }
            set_condition(
                &mut pod,
                json!({
                    "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": self.now(),
                }),
            );
            let Value::Object(pod) = pod else { return Err(ApiError::unknown_resource().into()) };
            // The pod is stored with `put`, which does not change the generation and also stores the status.
            self.put(scope, &current, &pod).map(drop)
        })
        .await
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Sets the condition of this type in the status of an object. Its `lastTransitionTime` changes only together
/// with its status. Returns false if the object already has the condition.
pub(super) fn set_condition(object: &mut Value, mut condition: Value) -> bool {
    let conditions = &mut object["status"]["conditions"];
    let Some(list) = conditions.as_array_mut() else {
        *conditions = json!([condition]);
        return true;
    };
    let Some(old) = list.iter_mut().find(|old| old["type"] == condition["type"]) else {
        list.push(condition);
        return true;
    };
    if old["status"] == condition["status"] {
        condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
    }
    let changed = *old != condition;
    *old = condition;
    changed
}

fn already_bound(name: &str, why: &str) -> ApiError {
    let mut error = ApiError::new(
        409,
        "Conflict",
        format!("Operation cannot be fulfilled on pods/binding \"{name}\": {why}"),
    );
    error.details = Some(Box::new(Details {
        name: name.to_owned(),
        kind: "pods/binding".to_owned(),
        ..Details::default()
    }));
    error
}
