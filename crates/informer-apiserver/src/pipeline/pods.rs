//! The `binding` and `eviction` subresources of pods.

use std::sync::Arc;

use informer_core::{Gvr, LabelSelector};
use serde_json::{Value, json};

use crate::admission::Scope;
use crate::model::cause::Cause;
use crate::model::error::{ApiError, Details};
use crate::model::json::parse;
use crate::model::selectors::selector_text;
use crate::model::write_options::WriteMode;
use crate::pipeline::delete::check_preconditions;
use crate::pipeline::preconditions::{Precondition, check_state};
use crate::pipeline::retry::{MAX_ATTEMPTS, WriteError, retry};
use crate::pipeline::{DeleteOptions, Pipeline};
use crate::registry::select::Filter;
use crate::registry::storage::Stored;

impl Pipeline {
    pub(crate) fn bind(&self, scope: Scope<'_>, name: &str, binding: &Value) -> Result<(), ApiError> {
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
        retry(scope.kind(), name, || {
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
    }

    /// Evicts a pod: deletes it unless a PDB forbids it.
    pub(crate) async fn evict(
        &self,
        scope: Scope<'_>,
        name: &str,
        eviction: &Value,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let given = text(&eviction["metadata"]["name"]);
        if !given.is_empty() && given != name {
            return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
        }
        let current = self.find(scope.resource, scope.namespace, name)?;
        check_preconditions(scope.kind(), &current, options)?;
        let pod = parse(current.as_slice());
        let phase = text(&pod["status"]["phase"]);
        let over =
            matches!(phase, "Succeeded" | "Failed" | "Pending") || crate::pipeline::is_terminating(&pod);
        if !over {
            self.consume_disruption(scope, name, &pod).await?;
        }
        let marked = self.mark_evicted(scope, name, options)?;
        self.delete(scope, name, &options.following(&marked)).await.map(drop)
    }

    /// Decrements `disruptionsAllowed` of the PDB that selects the evicted pod.
    async fn consume_disruption(
        &self,
        scope: Scope<'_>,
        pod_name: &str,
        pod: &Value,
    ) -> Result<(), ApiError> {
        let resource = self.resource(&Gvr::new("policy", "v1", "poddisruptionbudgets"))?;
        let budgets = Scope { resource: &resource, ..scope };
        for _ in 0..MAX_ATTEMPTS {
            let matching = self.matching_budgets(budgets, pod);
            let budget = match &matching[..] {
                [] => return Ok(()),
                [budget] => budget,
                _ => {
                    let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does \
                               not support.";
                    return Err(ApiError::new(500, "InternalError", why));
                }
            };
            let mut object = parse(budget.as_slice());
            let ready =
                object["status"]["conditions"].is_array() || object["status"]["observedGeneration"].is_i64();
            let (name, status) = (budget.key.name(), &object["status"]);
            let number = |name: &str| status[name].as_i64().unwrap_or_default();
            if !ready
                || number("observedGeneration")
                    < object["metadata"]["generation"].as_i64().unwrap_or_default()
            {
                let why = format!("The disruption budget {name} is still being processed by the server.");
                return Err(forbidden_by_budget(why, 10));
            }
            let (allowed, healthy, desired) =
                (number("disruptionsAllowed"), number("currentHealthy"), number("desiredHealthy"));
            if allowed <= 0 {
                let why = format!(
                    "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
                );
                return Err(forbidden_by_budget(why, 0));
            }
            object["status"]["disruptionsAllowed"] = (allowed - 1).into();
            object["status"]["disruptedPods"][pod_name] = self.now().into();
            if allowed == 1 {
                let condition = json!({
                    "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
                    "observedGeneration": object["metadata"]["generation"], "lastTransitionTime": self.now(),
                });
                set_condition(&mut object, condition);
            }
            let Value::Object(mut object) = object else { return Err(ApiError::unknown_resource()) };
            self.update_status_managers(budgets.resource, budget, &mut object);
            match self.replace(budgets, Arc::clone(budget), object, WriteMode::Status).await {
                Ok(_) => return Ok(()),
                Err(WriteError::Conflict) => {}
                Err(WriteError::Api(error)) => return Err(error),
            }
        }
        Err(ApiError::modified(budgets.kind(), pod_name))
    }

    fn matching_budgets(&self, scope: Scope<'_>, pod: &Value) -> Vec<Arc<Stored>> {
        let labels: informer_core::Labels = pod["metadata"]["labels"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name, value.as_str()?)))
            .collect();
        let filter = Filter::namespace(scope.namespace);
        let live = self.storage.read().live(scope.resource.table);
        let applies = |stored: &Arc<Stored>| {
            let selector = &parse(stored.as_slice())["spec"]["selector"];
            // A PDB without a selector selects no pod, and a PDB with an empty selector selects all pods.
            selector.is_object()
                && selector_text(selector)
                    .parse()
                    .is_ok_and(|selector: LabelSelector| selector.matches(&labels))
        };
        live.iter().filter(|stored| filter.matches(stored) && applies(stored)).cloned().collect()
    }

    fn mark_evicted(
        &self,
        scope: Scope<'_>,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Arc<Stored>, ApiError> {
        retry(scope.kind(), name, || {
            let current = self.find(scope.resource, scope.namespace, name)?;
            check_preconditions(scope.kind(), &current, options)?;
            let mut pod = parse(current.as_slice());
            if crate::pipeline::is_terminating(&pod) {
                return Ok(current);
            }
            set_condition(
                &mut pod,
                json!({
                    "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": self.now(),
                }),
            );
            let Value::Object(pod) = pod else { return Err(ApiError::unknown_resource().into()) };
            self.put(scope, &current, &pod)
        })
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn set_condition(object: &mut Value, condition: Value) {
    let conditions = &mut object["status"]["conditions"];
    match conditions.as_array_mut() {
        Some(list) => {
            list.retain(|other| other["type"] != condition["type"]);
            list.push(condition);
        }
        None => *conditions = json!([condition]),
    }
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

fn forbidden_by_budget(why: String, seconds: u32) -> ApiError {
    let text = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut error = ApiError::retry_later(429, "TooManyRequests", text, seconds);
    if let Some(details) = &mut error.details {
        details.causes.push(Cause { reason: "DisruptionBudget", message: why, field: String::new() });
    }
    error
}
