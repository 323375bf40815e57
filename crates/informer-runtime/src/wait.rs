//! Conditions of objects, for waits.
//!
//! A condition is a function of an object, so each wait of this workspace accepts it:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use informer_cache::SharedInformer;
//! use informer_client::Lazy;
//! use informer_runtime::CachedClient;
//! use informer_runtime::wait::{deployment_rolled_out, has_condition, is_deleted, is_pod_ready};
//! use k8s_openapi::api::apps::v1::Deployment;
//! use k8s_openapi::api::core::v1::{Node, Pod};
//!
//! # async fn example(client: CachedClient, pods: SharedInformer<Lazy<Pod>>) -> Result<(), Box<dyn std::error::Error>> {
//! let (live, timeout) = (client.live(), Duration::from_secs(60));
//! live.wait_until("default/web", deployment_rolled_out, timeout).await?;
//! live.wait_until("worker-1", has_condition::<Node>("Ready", "True"), timeout).await?;
//! live.wait_until::<Pod>("default/web-0", is_deleted("5f3c"), timeout).await?;
//! pods.wait_until(|pods| pods.get("default/web-1").is_some_and(|pod| pod.get().is_ok_and(|pod| is_pod_ready(&pod))))
//!     .await?;
//! # Ok(()) }
//! ```
//!
//! `TestServer::eventually`, the wait of a test server, accepts them, too.
//!
//! Upstream: [`kube::runtime::wait::conditions`](https://docs.rs/kube-runtime/latest/kube_runtime/wait/conditions).

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::Resource;
use serde::Serialize;

/// A condition of an object that may not exist. A closure `Fn(&K) -> bool` is a condition that no missing
/// object meets.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a condition of `{K}`",
    label = "not a condition",
    note = "use a function such as `is_pod_ready`, `is_deleted(uid)`, or a closure `|object: &{K}| -> bool`"
)]
pub trait WaitCondition<K> {
    /// Returns true if the object meets the condition. `object` is `None` if it does not exist.
    fn is_met(&self, object: Option<&K>) -> bool;
}

impl<K, F: Fn(&K) -> bool> WaitCondition<K> for F {
    fn is_met(&self, object: Option<&K>) -> bool {
        object.is_some_and(self)
    }
}

/// Returns true if the pod is ready: its condition `Ready` is `True`.
pub fn is_pod_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    any_is_true(conditions.map(|condition| (&*condition.type_, &*condition.status)), "Ready")
}

/// Returns true if the pod runs: its phase is `Running`.
pub fn is_pod_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

/// Returns true if the API server serves the custom resources of this definition: its condition `Established`
/// is `True`.
pub fn is_crd_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    any_is_true(conditions.map(|condition| (&*condition.type_, &*condition.status)), "Established")
}

/// Returns true if the job has completed: its condition `Complete` is `True`.
pub fn is_job_completed(job: &Job) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    any_is_true(conditions.map(|condition| (&*condition.type_, &*condition.status)), "Complete")
}

/// Returns true if the rollout of the deployment is complete, as `kubectl rollout status` defines it: the
/// controller has observed the current spec, all replicas are updated and available, and no old ones are
/// left.
pub fn deployment_rolled_out(deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let updated = status.updated_replicas.unwrap_or_default();
    is_observed(deployment.metadata.generation, status.observed_generation)
        && updated >= wanted
        && status.replicas.unwrap_or_default() <= updated
        && status.available_replicas.unwrap_or_default() >= updated
}

/// Returns true if the rollout of the stateful set is complete, as `kubectl rollout status` defines it for
/// the update strategy `RollingUpdate` without a partition.
pub fn stateful_set_rolled_out(set: &StatefulSet) -> bool {
    let Some(status) = &set.status else { return false };
    let wanted = set.spec.replicas.unwrap_or(1);
    is_observed(set.metadata.generation, status.observed_generation)
        && status.ready_replicas.unwrap_or_default() >= wanted
        && status.updated_replicas.unwrap_or_default() >= wanted
        && status.update_revision == status.current_revision
}

/// Returns true if the rollout of the daemon set is complete, as `kubectl rollout status` defines it: all
/// pods are updated and available.
pub fn daemon_set_rolled_out(set: &DaemonSet) -> bool {
    let Some(status) = &set.status else { return false };
    let wanted = status.desired_number_scheduled;
    is_observed(set.metadata.generation, status.observed_generation)
        && status.updated_number_scheduled.unwrap_or_default() >= wanted
        && status.number_available.unwrap_or_default() >= wanted
}

fn is_observed(generation: Option<i64>, observed: Option<i64>) -> bool {
    observed.unwrap_or_default() >= generation.unwrap_or_default()
}

fn any_is_true<'a>(mut conditions: impl Iterator<Item = (&'a str, &'a str)>, wanted: &str) -> bool {
    conditions.any(|(condition_type, status)| condition_type == wanted && status == "True")
}

/// Returns a condition that is met if `status.conditions` has a condition of this type and status, such as
/// `Ready` and `True`. It works for each kind with conditions, and serializes the object for that.
pub fn has_condition<K: Serialize>(
    condition_type: impl Into<String>,
    status: impl Into<String>,
) -> impl Fn(&K) -> bool + Send + Sync + 'static {
    let (condition_type, status) = (condition_type.into(), status.into());
    move |object| {
        let object = serde_json::to_value(object).unwrap_or_default();
        let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|held| held["type"] == *condition_type && held["status"] == *status)
    }
}

/// A condition that is met if the object does not exist, or has another uid; see [`is_deleted`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsDeleted {
    uid: String,
}

/// Returns a condition that is met if the object with this uid does not exist any more. An object of the same
/// name that was created later has another uid.
pub fn is_deleted(uid: impl Into<String>) -> IsDeleted {
    IsDeleted { uid: uid.into() }
}

impl<K: Resource> WaitCondition<K> for IsDeleted {
    fn is_met(&self, object: Option<&K>) -> bool {
        object.is_none_or(|object| object.meta().uid.as_deref() != Some(&*self.uid))
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn of<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    fn with_condition<K: DeserializeOwned>(condition_type: &str, status: &str) -> K {
        let condition = json!({"type": condition_type, "status": status, "reason": "", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let spec = json!({"group": "g", "names": {"plural": "p", "kind": "K"}, "scope": "Cluster", "versions": [],
            "containers": [], "template": {}});
        of(json!({"metadata": {}, "spec": spec, "status": {"conditions": [condition]}}))
    }

    #[test]
    fn conditions_need_their_type_and_status() {
        assert!(is_pod_ready(&with_condition("Ready", "True")));
        assert!(!is_pod_ready(&with_condition("Ready", "False")));
        assert!(!is_pod_ready(&with_condition("Initialized", "True")));
        assert!(!is_pod_ready(&Pod::default()));
        assert!(is_crd_established(&with_condition("Established", "True")));
        assert!(!is_crd_established(&with_condition("NamesAccepted", "True")));
        assert!(is_job_completed(&with_condition("Complete", "True")));
        assert!(!is_job_completed(&with_condition("Failed", "True")));
        let unknown = has_condition::<Pod>("Ready", "Unknown");
        assert!(unknown(&with_condition("Ready", "Unknown")) && !unknown(&Pod::default()));
        assert!(is_pod_running(&of(json!({"status": {"phase": "Running"}}))));
        assert!(!is_pod_running(&of(json!({"status": {"phase": "Pending"}}))));
    }

    #[test]
    fn deployment_is_rolled_out_when_only_available_updated_replicas_exist() {
        let deployment = |generation, observed, [replicas, updated, available]: [i32; 3]| {
            let spec = json!({"replicas": 2, "selector": {}, "template": {}});
            let status = json!({"observedGeneration": observed, "replicas": replicas,
                "updatedReplicas": updated, "availableReplicas": available});
            let object = json!({"metadata": {"generation": generation}, "spec": spec, "status": status});
            deployment_rolled_out(&of(object))
        };
        assert!(deployment(3, 3, [2, 2, 2]));
        for (observed, counts) in [(2, [2, 2, 2]), (3, [3, 2, 2]), (3, [2, 1, 2]), (3, [2, 2, 1])] {
            assert!(!deployment(3, observed, counts), "{observed} {counts:?}");
        }
        assert!(!deployment_rolled_out(&Deployment::default()));
    }

    #[test]
    fn sets_are_rolled_out_when_all_pods_are_updated_and_ready() {
        let stateful = |ready: i32, revision: &str| {
            let status = json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": ready,
                "updatedReplicas": 2, "currentRevision": "b", "updateRevision": revision});
            let spec = json!({"replicas": 2, "selector": {}, "template": {}, "serviceName": "web"});
            stateful_set_rolled_out(&of(
                json!({"metadata": {"generation": 1}, "spec": spec, "status": status}),
            ))
        };
        assert!(stateful(2, "b") && !stateful(1, "b") && !stateful(2, "c"));
        let daemon = |updated: i32, available: i32| {
            let status = json!({"observedGeneration": 1, "currentNumberScheduled": 2, "numberMisscheduled": 0,
                "numberReady": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": updated,
                "numberAvailable": available});
            let spec = json!({"selector": {}, "template": {}});
            daemon_set_rolled_out(&of(json!({"metadata": {"generation": 1}, "spec": spec, "status": status})))
        };
        assert!(daemon(2, 2) && !daemon(1, 2) && !daemon(2, 1));
    }

    #[test]
    fn object_with_another_uid_counts_as_deleted() {
        let pod = |uid: &str| of::<Pod>(json!({"metadata": {"uid": uid}}));
        let deleted = is_deleted("u-1");
        assert!(deleted.is_met(None::<&Pod>) && deleted.is_met(Some(&pod("u-2"))));
        assert!(!deleted.is_met(Some(&pod("u-1"))));
        assert!(!WaitCondition::<Pod>::is_met(&is_pod_ready, None));
    }
}
