//! The `RuntimeClass` plugin: applies the overhead, node selector and tolerations of a RuntimeClass to a pod.

use informer_core::Gvr;
use serde_json::{Map, Value};

use super::{AdmissionPlugin, NewObject, PendingWrite, part, set};
use crate::admission::Admission;
use crate::model::error::ApiError;
use crate::model::json::Object;
use crate::model::kinds::KindDefinition;
use crate::model::object_meta::display_name;
use crate::model::quantity::read;

const DIFFERENT: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

pub(super) struct RuntimeClass;

impl AdmissionPlugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn mutate(&self, admission: &Admission, write: &mut NewObject<'_>) -> Result<(), ApiError> {
        if write.kind.is("", "Pod") {
            admission.apply_runtime_class(write.kind, write.object)
        } else {
            Ok(())
        }
    }

    fn validate(&self, admission: &Admission, write: PendingWrite<'_>) -> Result<Vec<String>, ApiError> {
        if write.old.is_none() && write.kind().is("", "Pod") {
            admission.check_overhead(write)?;
        }
        Ok(Vec::new())
    }
}

impl Admission {
    fn apply_runtime_class(&self, kind: &KindDefinition, pod: &mut Object) -> Result<(), ApiError> {
        let refusal = |pod: &Object, why: &str| Err(ApiError::forbidden(kind, display_name(pod), why));
        let class = match self.runtime_class(pod) {
            Ok(None) => return Ok(()),
            Ok(Some(class)) => class,
            Err(why) => return refusal(pod, &why),
        };
        if class["overhead"].is_object() {
            let (given, fixed) = (&part(pod, "spec")["overhead"], &class["overhead"]["podFixed"]);
            if !is_empty(given) && !is_same(given, fixed) {
                return refusal(pod, DIFFERENT);
            }
            if !is_empty(fixed) {
                set(pod, "overhead", fixed.clone());
            }
        }
        match schedule(pod, &class["scheduling"]) {
            Ok(()) => Ok(()),
            Err(why) => refusal(pod, &why),
        }
    }

    /// Rejects a pod whose overhead differs from that of its RuntimeClass. Webhooks may have changed the
    /// overhead after this plugin set it.
    fn check_overhead(&self, write: PendingWrite<'_>) -> Result<(), ApiError> {
        let refusal = |why: &str| Err(ApiError::forbidden(&write.scope.resource.kind, write.name, why));
        let class = match self.runtime_class(write.object) {
            Ok(class) => class.unwrap_or_default(),
            Err(why) => return refusal(&why),
        };
        let overhead = &part(write.object, "spec")["overhead"];
        if class["overhead"].is_object() {
            let same = is_same(&class["overhead"]["podFixed"], overhead);
            return if same { Ok(()) } else { refusal(DIFFERENT) };
        }
        if overhead.is_object() {
            refusal("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
        } else {
            Ok(())
        }
    }

    /// Returns the RuntimeClass that a pod names, or an error message if it does not exist.
    fn runtime_class(&self, pod: &Object) -> Result<Option<Value>, String> {
        let Some(name) = part(pod, "spec")["runtimeClassName"].as_str() else { return Ok(None) };
        let class = self.class_of(&Gvr::new("node.k8s.io", "v1", "runtimeclasses"), name);
        class.map(Some).ok_or_else(|| format!("pod rejected: RuntimeClass {name:?} not found"))
    }
}

fn schedule(pod: &mut Object, scheduling: &Value) -> Result<(), String> {
    if !scheduling.is_object() {
        return Ok(());
    }
    let spec = part(pod, "spec");
    let mut selector = spec["nodeSelector"].as_object().cloned().unwrap_or_default();
    for (name, wanted) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if let Some(own) = selector.insert(name.clone(), wanted.clone()).filter(|own| own != wanted) {
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{name}] = {}; pod.spec.nodeSelector[{name}] = {}",
                text(wanted),
                text(&own)
            ));
        }
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let tolerations = merged([list(&spec["tolerations"]), list(&scheduling["tolerations"])].concat());
    if !selector.is_empty() {
        set(pod, "nodeSelector", selector.into());
    }
    if !tolerations.is_empty() {
        set(pod, "tolerations", tolerations.into());
    }
    Ok(())
}

fn merged(all: Vec<Value>) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let mut later = all[index + 1..].iter().filter(|other| *other != one);
        if !kept.iter().any(|other| covers(other, one)) && !later.any(|other| covers(other, one)) {
            kept.push(one.clone());
        }
    }
    kept
}

/// Returns true if the toleration `wide` matches every taint that `narrow` matches.
fn covers(wide: &Value, narrow: &Value) -> bool {
    fn text<'a>(toleration: &'a Value, name: &str) -> &'a str {
        toleration[name].as_str().unwrap_or_default()
    }
    if wide == narrow {
        return true;
    }
    let of_all_keys = text(wide, "key").is_empty() && text(wide, "operator") == "Exists";
    let same = |name: &str| text(wide, name) == text(narrow, name);
    let same_key = same("key") || of_all_keys;
    let same_effect = same("effect") || text(wide, "effect").is_empty();
    let seconds = |toleration: &Value| toleration["tolerationSeconds"].as_i64();
    let as_long = match seconds(wide) {
        Some(most) if text(wide, "effect") == "NoExecute" => seconds(narrow).is_some_and(|some| some <= most),
        _ => true,
    };
    let same_value = match text(wide, "operator") {
        "" | "Equal" => text(narrow, "operator") == "Equal" && same("value"),
        operator => operator == "Exists",
    };
    same_key && same_effect && as_long && same_value
}

fn is_empty(amounts: &Value) -> bool {
    amounts.as_object().is_none_or(Map::is_empty)
}

/// Returns true if two resource lists have the same quantities, which may be formatted differently.
fn is_same(left: &Value, right: &Value) -> bool {
    let (Some(left), Some(right)) = (left.as_object(), right.as_object()) else {
        return is_empty(left) && is_empty(right);
    };
    let amount = |value: Option<&Value>| value.and_then(Value::as_str).and_then(read);
    left.len() == right.len()
        && left.iter().all(|(name, value)| {
            right.get(name).is_some_and(|other| other == value || amount(Some(other)) == amount(Some(value)))
        })
}
