//! The `eviction` subresource of pods.

use std::sync::Arc;

use informer_core::{Gvr, LabelSelector};
use serde_json::{Map, Value, json};

use crate::admission::Scope;
use crate::model::cause::Cause;
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::model::kinds::Kind;
use crate::model::selectors::selector_text;
use crate::model::write_options::WriteMode;
use crate::pipeline::delete::{UncheckedDeleteOptions, check_preconditions};
use crate::pipeline::pods::set_condition;
use crate::pipeline::retry::{MAX_ATTEMPTS, WriteError, retry};
use crate::pipeline::{DeleteOptions, Pipeline};
use crate::registry::select::Filter;
use crate::registry::storage::Stored;

const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// Validates an eviction of the pod `name` before the validating admission. If `dry_run` is set, the request
/// is a dry run.
pub(crate) fn check_eviction(
    name: &str,
    eviction: &Map<String, Value>,
    dry_run: bool,
) -> Result<(), ApiError> {
    let member = |name: &str| eviction.get(name).unwrap_or(&Value::Null);
    if text(&member("metadata")["name"]) != name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = member("deleteOptions");
    if options[IGNORE_READ_ERROR] == true {
        let why = "can not be set for pod eviction, try after removing the option";
        let cause = Cause::invalid(&format!("deleteOptions.{IGNORE_READ_ERROR}"), "true", why);
        return Err(ApiError::invalid(&Kind::custom("policy", "v1", "Eviction"), name, cause));
    }
    let stages = strings(&options["dryRun"]);
    if dry_run && !stages.is_empty() && stages != ["All"] {
        let stages = stages.join(" ");
        let why = format!("Non-matching dry-run options in request and content: [All] and [{stages}]");
        return Err(ApiError::new(500, "", why));
    }
    Ok(())
}

impl Pipeline {
    /// Evicts a pod: deletes it unless a PDB forbids it.
    pub(crate) async fn evict(
        &self,
        mut scope: Scope<'_>,
        name: &str,
        eviction: &Value,
    ) -> Result<(), ApiError> {
        // A mutating webhook may have replaced the options by any JSON value.
        let mut given =
            eviction["deleteOptions"].as_object().cloned().map_or_else(|| json!({}), Value::Object);
        if strings(&given["dryRun"]).is_empty() && scope.dry_run {
            given["dryRun"] = json!(["All"]);
        }
        let unchecked = UncheckedDeleteOptions::of_body(&given);
        scope.dry_run = unchecked.options.dry_run;
        let current = self.find(scope.resource, scope.namespace, name)?;
        let pod = parse(current.as_slice());
        let phase = text(&pod["status"]["phase"]);
        let over =
            matches!(phase, "Succeeded" | "Failed" | "Pending") || crate::pipeline::is_terminating(&pod);
        if !over {
            self.consume_disruption(scope, name, &pod).await?;
        }
        let marked = self.mark_evicted(scope, name, &unchecked.options)?;
        // As in kube-apiserver, the options are validated after the pod has got its condition.
        let options = unchecked.check()?;
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
                    return Err(ApiError::new(500, "", why));
                }
            };
            let mut object = parse(budget.as_slice());
            if !is_ready(pod) && allows_unhealthy(&object) {
                return Ok(());
            }
            check_budget(&object)?;
            self.decrement(&mut object, pod_name);
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

    /// Records in the status of a PDB that a pod is being evicted.
    fn decrement(&self, budget: &mut Value, pod_name: &str) {
        let allowed = number(budget, "disruptionsAllowed");
        budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
        budget["status"]["disruptedPods"][pod_name] = self.now().into();
        if allowed == 1 {
            let condition = json!({
                "type": ALLOWED, "status": "False", "reason": "InsufficientPods", "message": "",
                "observedGeneration": budget["metadata"]["generation"], "lastTransitionTime": self.now(),
            });
            set_condition(budget, condition);
        }
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

/// The condition of a PDB that reports whether it allows evictions.
const ALLOWED: &str = "DisruptionAllowed";

/// Returns true if a PDB does not protect pods that are not ready.
fn allows_unhealthy(budget: &Value) -> bool {
    let (healthy, desired) = (number(budget, "currentHealthy"), number(budget, "desiredHealthy"));
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || (healthy >= desired && desired > 0)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Checks that a PDB allows an eviction.
fn check_budget(budget: &Value) -> Result<(), ApiError> {
    let name = text(&budget["metadata"]["name"]);
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or_default();
    if number(budget, "observedGeneration") < generation {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(forbidden_by_budget(why, 10));
    }
    if number(budget, "disruptionsAllowed") > 0 {
        return Ok(());
    }
    let conditions = budget["status"]["conditions"].as_array().into_iter().flatten();
    let reported = conditions.into_iter().find(|condition| condition["type"] == ALLOWED);
    let reported = reported.filter(|reported| reported["status"] == "False" && reported["message"] != "");
    let reported = reported.map(|reported| (text(&reported["reason"]), text(&reported["message"])));
    let (healthy, desired) = (number(budget, "currentHealthy"), number(budget, "desiredHealthy"));
    let denied = format!("The disruption budget {name} does not allow evicting pods currently");
    let why = match reported {
        Some(("SyncFailed", message)) => format!("{denied} because it failed sync: {message}"),
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => format!("{denied} ({reason}): {message}"),
        None => denied,
    };
    Err(forbidden_by_budget(why, 0))
}

fn number(budget: &Value, name: &str) -> i64 {
    budget["status"][name].as_i64().unwrap_or_default()
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(text).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn forbidden_by_budget(why: String, seconds: u32) -> ApiError {
    let text = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut error = ApiError::retry_later(429, "TooManyRequests", text, seconds);
    if let Some(details) = &mut error.details {
        details.causes.push(Cause { reason: "DisruptionBudget", message: why, field: String::new() });
    }
    error
}
