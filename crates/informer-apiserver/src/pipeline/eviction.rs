//! The `eviction` subresource of pods.

use std::sync::Arc;

use informer_core::{Gvr, LabelSelector};
use serde_json::{Map, Value, json};

use crate::admission::Scope;
use crate::model::cause::Cause;
use crate::model::error::{ApiError, Details};
use crate::model::json::parse;
use crate::model::kinds::KindDefinition;
use crate::model::selectors::selector_text;
use crate::model::write_options::WriteMode;
use crate::pipeline::delete::{UncheckedDeleteOptions, check_preconditions};
use crate::pipeline::pods::set_condition;
use crate::pipeline::retry::{OnConflict, WriteError, retry};
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
        return Err(ApiError::invalid(&KindDefinition::custom("policy", "v1", "Eviction"), name, cause));
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
        let (scope, unchecked) = (scope, &unchecked);
        let on_conflict = OnConflict::for_request(unchecked.options.version.is_some());
        retry(scope.kind(), name, on_conflict, || async move {
            let current = self.find(scope.resource, scope.namespace, name)?;
            let pod = parse(current.as_slice());
            let mut unchecked = unchecked.clone();
            match BudgetCheck::of_pod(&pod) {
                BudgetCheck::Required => {
                    return Ok(self.evict_within_budget(scope, &current, unchecked).await?);
                }
                BudgetCheck::SkippedWhilePending if unchecked.options.version.is_none() => {
                    unchecked.options.version = Some(current.version.to_string());
                }
                BudgetCheck::SkippedWhilePending | BudgetCheck::Skipped => {}
            }
            self.delete_evicted(scope, name, unchecked).await.map_err(|error| {
                if error.is_conflict() { WriteError::NestedConflict(error) } else { error.into() }
            })
        })
        .await
    }

    /// Evicts a pod that its PDB may protect.
    async fn evict_within_budget(
        &self,
        scope: Scope<'_>,
        current: &Stored,
        mut unchecked: UncheckedDeleteOptions,
    ) -> Result<(), ApiError> {
        let name = current.key.name();
        let bypassed = self.consume_disruption(scope, name, &parse(current.as_slice())).await?;
        let Some(budget) = bypassed else { return self.delete_evicted(scope, name, unchecked).await };
        // The pod must still be unhealthy when it is deleted. As in kube-apiserver, its resourceVersion
        // replaces that of the client, and a conflict asks the client to repeat the eviction.
        let has_version = unchecked.options.version.replace(current.version.to_string()).is_some();
        match self.delete_evicted(scope, name, unchecked).await {
            Err(error) if error.is_conflict() && !has_version => Err(unprocessed_budget(&budget)),
            result => result,
        }
    }

    /// Adds the condition of an eviction to a pod and deletes it.
    async fn delete_evicted(
        &self,
        scope: Scope<'_>,
        name: &str,
        unchecked: UncheckedDeleteOptions,
    ) -> Result<(), ApiError> {
        if scope.dry_run {
            return self.delete(scope, name, &unchecked.check()?).await.map(drop);
        }
        let marked = self.mark_evicted(scope, name, &unchecked.options).await?;
        // As in kube-apiserver, the options are validated after the pod has got its condition.
        let options = unchecked.check()?;
        self.delete(scope, name, &options.following(&marked)).await.map(drop)
    }

    /// Decrements `disruptionsAllowed` of the PDB that selects the evicted pod. Returns the name of the PDB
    /// if it does not protect this pod because the pod is unhealthy.
    async fn consume_disruption(
        &self,
        scope: Scope<'_>,
        pod_name: &str,
        pod: &Value,
    ) -> Result<Option<String>, ApiError> {
        let resource = self.resource(&Gvr::new("policy", "v1", "poddisruptionbudgets"))?;
        let budgets = Scope { resource: &resource, ..scope };
        retry(budgets.kind(), pod_name, OnConflict::Retry, || async move {
            let matching = self.matching_budgets(budgets, pod);
            let budget = match &matching[..] {
                [] => return Ok(None),
                [budget] => budget,
                _ => {
                    let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does \
                               not support.";
                    return Err(ApiError::new(500, "", why).into());
                }
            };
            let mut object = parse(budget.as_slice());
            if !is_ready(pod) && allows_unhealthy(&object) {
                return Ok(Some(budget.key.name().to_owned()));
            }
            check_budget(&object)?;
            self.decrement(&mut object, pod_name);
            let Value::Object(mut object) = object else {
                return Err(ApiError::unknown_resource().into());
            };
            self.update_status_managers(budgets.resource, budget, &mut object);
            self.replace(budgets, Arc::clone(budget), object, WriteMode::Status).await?;
            Ok(None)
        })
        .await
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

    async fn mark_evicted(
        &self,
        scope: Scope<'_>,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Arc<Stored>, ApiError> {
        retry(scope.kind(), name, OnConflict::Retry, || async move {
            let current = self.find(scope.resource, scope.namespace, name)?;
            check_preconditions(scope.kind(), &current, options)?;
            let mut pod = parse(current.as_slice());
            let changed = set_condition(
                &mut pod,
                json!({
                    "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": self.now(),
                }),
            );
            if !changed {
                return Ok(current);
            }
            let Value::Object(pod) = pod else { return Err(ApiError::unknown_resource().into()) };
            self.put(scope, &current, &pod)
        })
        .await
    }
}

/// Whether an eviction needs the permission of a PDB.
enum BudgetCheck {
    Required,
    /// The pod is pending, so its eviction disrupts nothing. This holds only for the version of the pod that
    /// was checked, because the pod may become ready.
    SkippedWhilePending,
    /// The pod has terminated or is being deleted, which cannot change any more.
    Skipped,
}

impl BudgetCheck {
    fn of_pod(pod: &Value) -> Self {
        match text(&pod["status"]["phase"]) {
            "Succeeded" | "Failed" => Self::Skipped,
            _ if crate::pipeline::is_terminating(pod) => Self::Skipped,
            "Pending" => Self::SkippedWhilePending,
            _ => Self::Required,
        }
    }
}

/// The maximum number of evicted pods in the status of a PDB that the PDB controller has not confirmed yet.
const MAX_DISRUPTED_PODS: usize = 2_000;

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
    // As in kube-apiserver, these two errors name the kind and not the resource.
    let forbidden = |why: &str| {
        let message = format!("poddisruptionbudget.policy \"{name}\" is forbidden: {why}");
        let details = Details {
            name: name.to_owned(),
            group: "policy".to_owned(),
            kind: "poddisruptionbudget".to_owned(),
            ..Details::default()
        };
        Err(ApiError::new(403, "Forbidden", message).set_details(details))
    };
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or_default();
    if number(budget, "observedGeneration") < generation {
        return Err(unprocessed_budget(name));
    }
    let allowed = number(budget, "disruptionsAllowed");
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    let disrupted = budget["status"]["disruptedPods"].as_object().map_or(0, Map::len);
    if disrupted > MAX_DISRUPTED_PODS {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed > 0 {
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

/// Returns the error for a PDB whose status does not describe the current pods.
fn unprocessed_budget(name: &str) -> ApiError {
    forbidden_by_budget(format!("The disruption budget {name} is still being processed by the server."), 10)
}

fn forbidden_by_budget(why: String, seconds: u32) -> ApiError {
    let text = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut error = ApiError::retry_later(429, "TooManyRequests", text, seconds);
    if let Some(details) = &mut error.details {
        details.causes.push(Cause { reason: "DisruptionBudget", message: why, field: String::new() });
    }
    error
}
