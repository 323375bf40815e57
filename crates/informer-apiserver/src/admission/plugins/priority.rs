//! The `Priority` plugin: sets the priority of pods from their PriorityClass, and rejects a second default
//! PriorityClass.

use informer_core::Gvr;
use serde_json::{Value, json};

use super::{AdmissionPlugin, NewObject, PendingWrite, part};
use crate::admission::Admission;
use crate::model::error::ApiError;
use crate::model::json::Object;
use crate::model::json::parse;
use crate::model::kinds::KindDefinition;
use crate::model::object_meta::display_name;
use crate::model::rules::{get, set, with_value};

const DEFAULT_PREEMPTION_POLICY: &str = "PreemptLowerPriority";

pub(super) struct Priority;

impl AdmissionPlugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn mutate(&self, admission: &Admission, write: &mut NewObject<'_>) -> Result<(), ApiError> {
        if write.kind.is("", "Pod") { admission.set_priority(write.kind, write.object) } else { Ok(()) }
    }

    fn validate(&self, admission: &Admission, write: PendingWrite<'_>) -> Result<Vec<String>, ApiError> {
        if write.kind().is("scheduling.k8s.io", "PriorityClass") {
            admission.check_default_priority_class(write)?;
        }
        Ok(Vec::new())
    }
}

impl Admission {
    fn check_default_priority_class(&self, write: PendingWrite<'_>) -> Result<(), ApiError> {
        if part(write.object, "globalDefault") != true {
            return Ok(());
        }
        let known = self.default_class();
        let known = known.as_ref().and_then(|class| class["metadata"]["name"].as_str());
        let Some(other) = known.filter(|known| write.old.is_none() || *known != write.name) else {
            return Ok(());
        };
        let why = format!("PriorityClass {other} is already marked as default. Only one default can exist");
        Err(ApiError::forbidden(&write.scope.resource.kind, write.name, &why))
    }

    fn set_priority(&self, kind: &KindDefinition, object: &mut Object) -> Result<(), ApiError> {
        let name = object.get("spec").and_then(|spec| spec["priorityClassName"].as_str());
        let name = name.unwrap_or_default().to_owned();
        let class = match name.as_str() {
            "" => self.default_class(),
            "system-cluster-critical" => {
                Some(json!({"value": 2_000_000_000, "preemptionPolicy": DEFAULT_PREEMPTION_POLICY}))
            }
            "system-node-critical" => {
                Some(json!({"value": 2_000_001_000, "preemptionPolicy": DEFAULT_PREEMPTION_POLICY}))
            }
            name => match self.class(name) {
                Some(class) => Some(class),
                None => {
                    let why = format!("no PriorityClass with name {name} was found");
                    return Err(ApiError::forbidden(kind, display_name(object), &why));
                }
            },
        };
        let class =
            class.unwrap_or_else(|| json!({"value": 0, "preemptionPolicy": DEFAULT_PREEMPTION_POLICY}));
        self.check_priority(kind, object, &class)?;
        with_value(object, |pod| {
            if name.is_empty()
                && let Some(own) = class["metadata"]["name"].as_str()
            {
                set(pod, "spec.priorityClassName", own.into());
            }
            set(pod, "spec.priority", class["value"].clone());
            if get(pod, "spec.preemptionPolicy").is_none() {
                let policy = class["preemptionPolicy"].as_str().unwrap_or(DEFAULT_PREEMPTION_POLICY);
                set(pod, "spec.preemptionPolicy", policy.into());
            }
        });
        Ok(())
    }

    fn check_priority(&self, kind: &KindDefinition, pod: &Object, class: &Value) -> Result<(), ApiError> {
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        let checked = [
            ("priority", "integer value of priority"),
            ("preemptionPolicy", "string value of PreemptionPolicy"),
        ];
        for (name, what) in checked {
            let (given, computed) = (&spec[name], &class[name.replace("priority", "value").as_str()]);
            if given.is_null() || computed.is_null() || given == computed {
                continue;
            }
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let why = format!(
                "the {what} ({}) must not be provided in pod spec; priority admission controller computed {} from the given \
                 PriorityClass name",
                text(given),
                text(computed)
            );
            return Err(ApiError::forbidden(kind, display_name(pod), &why));
        }
        Ok(())
    }

    fn class(&self, name: &str) -> Option<Value> {
        let classes = self.resource(&Gvr::new("scheduling.k8s.io", "v1", "priorityclasses")).ok()?;
        self.find(&classes, None, name).ok().map(|stored| parse(stored.as_slice()))
    }

    /// Returns the default PriorityClass. If internal writes have created several, the one with the lowest
    /// value is used.
    fn default_class(&self) -> Option<Value> {
        let classes = self.resource(&Gvr::new("scheduling.k8s.io", "v1", "priorityclasses")).ok()?;
        let live = self.storage.read().live(classes.table);
        let all = live.iter().map(|stored| parse(stored.as_slice()));
        all.filter(|class| class["globalDefault"] == true).min_by_key(|class| class["value"].as_i64())
    }
}
