//! Quota usage: maintains `status.used` of ResourceQuotas.
//!
//! Each commit adds the difference between the usage of the new and the old object, so its cost does not
//! depend on the size of the namespace. All objects are counted only if a quota is new or its `spec.hard` has
//! changed.
//!
//! Commits run concurrently, so a full count may include a commit before that commit reports its difference.
//! The version of the last full count identifies such commits, and their differences are ignored.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use informer_core::{Gvr, ObjectKey};
use parking_lot::{ReentrantMutex, ReentrantMutexGuard};
use serde_json::{Map, Value, json};

use crate::admission::Scope;
use crate::admission::quota::check::{self, Charge};
use crate::admission::quota::evaluator::Evaluator;
use crate::admission::quota::pod::add;
use crate::admission::quota::{QuotaWrite, ResourceList, resource_list, scopes};
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::model::kinds::Kind;
use crate::model::metadata::{Object, display_name};
use crate::model::quantity::Amount;
use crate::model::rules::as_value;
use crate::model::write_options::WriteMode;
use crate::pipeline::Pipeline;
use crate::pipeline::ready::ready;
use crate::registry::Resource;
use crate::registry::select::Filter;
use crate::registry::storage::Stored;

/// Number of retries if a quota changes while it is charged, as in kube-apiserver.
pub(crate) const MAX_RETRIES: usize = 3;
/// Field managers of the status: of the admission plugin and of the controller, as in Kubernetes.
const PLUGIN: &str = "kube-apiserver";
const CONTROLLER: &str = "kube-controller-manager";

/// The version of the storage at the last full count of each quota.
#[derive(Debug, Default)]
pub(crate) struct QuotaUsage(ReentrantMutex<RefCell<HashMap<ObjectKey, u64>>>);

/// Guard that is held until the admitted object is stored.
pub(crate) type UsageGuard<'a> = ReentrantMutexGuard<'a, RefCell<HashMap<ObjectKey, u64>>>;

impl QuotaUsage {
    pub(crate) fn lock(&self) -> UsageGuard<'_> {
        self.0.lock()
    }

    /// Drops the state after a restore.
    pub(crate) fn clear(&self) {
        self.0.lock().borrow_mut().clear();
    }
}

/// The change of one commit.
pub(crate) struct Commit<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) before: Option<&'a Stored>,
    pub(crate) after: Option<&'a Stored>,
    pub(crate) version: u64,
}

impl Pipeline {
    /// Checks quotas and rejects a write that exceeds one. Hold the returned guard until the object is
    /// stored.
    pub(crate) fn charge(
        &self,
        quota_write: Option<QuotaWrite<'_>>,
        object: &mut Object,
    ) -> Result<Option<UsageGuard<'_>>, ApiError> {
        let Some(quota_write) = quota_write else { return Ok(None) };
        let QuotaWrite { kind, namespace, old, dry_run, .. } = quota_write;
        let Some(evaluator) = Evaluator::of(kind) else { return Ok(None) };
        if !as_value(object, |object| is_counted(&evaluator, quota_write, object))
            || !self.has_quotas(namespace)
        {
            return Ok(None);
        }
        let guard = self.quota_usage.lock();
        for _ in 0..=MAX_RETRIES {
            let quotas = self.in_namespace("resourcequotas", namespace);
            let checked = as_value(object, |object| {
                let unbounded = quota_write.mode == WriteMode::Status;
                check::check(&quotas, &Charge { evaluator: &evaluator, object, old, unbounded })
            });
            let used = checked.map_err(|why| ApiError::forbidden(kind, display_name(object), &why))?;
            // If the quota controller runs, it updates the usage after the commit.
            if dry_run || self.controllers.quotas {
                return Ok(Some(guard));
            }
            let written =
                used.iter().try_for_each(|(place, used)| self.write_plugin_usage(&quotas[*place], used));
            match written {
                Err(conflict) if conflict.code == 409 => {}
                written => return written.map(|()| Some(guard)),
            }
        }
        Err(ApiError::internal("quotas change faster than they can be charged"))
    }

    /// Writes the usage that the admission plugin computed.
    pub(crate) fn write_plugin_usage(&self, quota: &Value, used: &ResourceList) -> Result<(), ApiError> {
        let mut quota = quota.clone();
        quota["status"]["used"] = to_json(used);
        self.write_quota_status(quota, PLUGIN)
    }

    /// Updates the usage after a commit, if the quota controller runs.
    pub(crate) fn update_quota_usage(&self, commit: &Commit<'_>) {
        let Commit { kind, before, after, version } = *commit;
        let Some(key) = before.or(after).map(|stored| &stored.key) else { return };
        let namespace = key.namespace().unwrap_or_default();
        let is_quota = kind.is("", "ResourceQuota");
        if !self.controllers.quotas || namespace.is_empty() {
            return;
        }
        let Some(evaluator) = Evaluator::of(kind).filter(|_| is_quota || self.has_quotas(namespace)) else {
            return;
        };
        let guard = self.quota_usage.lock();
        if is_quota && after.is_none() {
            guard.borrow_mut().remove(key);
        }
        let [before, after] = [before, after].map(|stored| stored.map(|stored| parse(stored.as_slice())));
        for stored in self.stored_in_namespace("resourcequotas", namespace) {
            let quota = parse(stored.as_slice());
            let already_counted = guard.borrow().get(&stored.key).is_some_and(|counted| version <= *counted);
            if resource_list(&quota["spec"]["hard"]) != resource_list(&quota["status"]["hard"]) {
                self.recount(&guard, &stored.key, quota);
            } else if !already_counted {
                match check::usage_after_change(&quota, &evaluator, (before.as_ref(), after.as_ref())) {
                    Some(used) => self.write_used(quota, &used),
                    // The commit that added the removed object has not reported its usage yet.
                    None => self.recount(&guard, &stored.key, quota),
                }
            }
        }
    }

    /// Counts all objects again after a bulk load of a kind.
    pub(crate) fn recount_quotas(&self, kind: &Kind) {
        let (Some(evaluator), true) = (Evaluator::of(kind), self.controllers.quotas) else { return };
        let Ok(resource) = self.resource(&Gvr::new("", "v1", "resourcequotas")) else { return };
        let live = self.storage.read().live(resource.table);
        let guard = self.quota_usage.lock();
        for stored in live.iter() {
            let quota = parse(stored.as_slice());
            let counts = resource_list(&quota["spec"]["hard"]).keys().any(|name| evaluator.counts(name));
            if counts || kind.is("", "ResourceQuota") {
                self.recount(&guard, &stored.key, quota);
            }
        }
    }

    fn recount(&self, guard: &UsageGuard<'_>, key: &ObjectKey, quota: Value) {
        let (used, counted) = self.count_usage(key.namespace().unwrap_or_default(), &quota);
        guard.borrow_mut().insert(key.clone(), counted);
        self.write_used(quota, &used);
    }

    fn write_used(&self, mut quota: Value, used: &ResourceList) {
        let status = json!({"hard": quota["spec"]["hard"], "used": to_json(used)});
        let same = |list: &str| resource_list(&status[list]) == resource_list(&quota["status"][list]);
        if !same("hard") || !same("used") {
            quota["status"] = status;
            // The quota was deleted or changed concurrently. The usage is then updated by that commit.
            drop(self.write_quota_status(quota, CONTROLLER));
        }
    }

    /// Counts the objects in a snapshot. Returns the usage and the version of the snapshot.
    fn count_usage(&self, namespace: &str, quota: &Value) -> (ResourceList, u64) {
        let hard = resource_list(&quota["spec"]["hard"]);
        let tracked_resources = self.tracked_resources(&hard);
        let storage = self.storage.read();
        let version = storage.version();
        let live = tracked_resources
            .into_iter()
            .map(|(resource, evaluator)| (storage.live(resource.table), evaluator));
        let live: Vec<_> = live.collect();
        drop(storage);
        let prefix = Filter::namespace(Some(namespace)).prefix();
        let mut used = ResourceList::new();
        for (live, evaluator) in live {
            let found = live.from(&prefix).take_while(|stored| stored.key.as_str().starts_with(&prefix));
            let objects: Vec<Value> = found.map(|stored| parse(stored.as_slice())).collect();
            let mut counted = check::total_usage(quota, &evaluator, objects.iter());
            counted.retain(|name, _| hard.contains_key(name));
            let names = hard.keys().filter(|name| evaluator.counts(name));
            used.extend(names.map(|name| (name.clone(), Amount::ZERO)));
            add(&mut used, &counted);
        }
        (used, version)
    }

    /// Returns the resources that a quota counts, with their evaluators.
    fn tracked_resources(&self, hard: &ResourceList) -> Vec<(Arc<Resource>, Evaluator)> {
        let registry = self.registry.read();
        // Of several served versions, only the storage version is counted.
        let own = registry.iter().filter(|resource| resource.kind.namespaced && resource.stored_as.is_none());
        let measured =
            own.filter_map(|resource| Some((Arc::clone(resource), Evaluator::of(&resource.kind)?)));
        measured.filter(|(_, evaluator)| hard.keys().any(|name| evaluator.counts(name))).collect()
    }

    fn write_quota_status(&self, quota: Value, manager: &str) -> Result<(), ApiError> {
        let resource = self.resource(&Gvr::new("", "v1", "resourcequotas"))?;
        let text = |name: &str| quota["metadata"][name].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let scope = Scope { manager: Some(manager), ..Scope::new(&resource, Some(&namespace)) };
        ready(self.update(scope, &name, quota, WriteMode::Status)).map(drop)
    }
}

fn to_json(all: &ResourceList) -> Value {
    Value::Object(
        all.iter().map(|(name, amount)| (name.clone(), amount.text().into())).collect::<Map<_, _>>(),
    )
}

/// Returns true if quotas evaluate this write.
fn is_counted(evaluator: &Evaluator, QuotaWrite { mode, old, .. }: QuotaWrite<'_>, object: &Value) -> bool {
    match (evaluator, old, mode) {
        (Evaluator::Claims, Some(_), WriteMode::Main | WriteMode::Status)
        | (Evaluator::Services, Some(_), WriteMode::Main)
        | (_, None, _) => true,
        (Evaluator::Pods, Some(old), WriteMode::Main) => {
            scopes::is_terminating(old) != scopes::is_terminating(object)
        }
        _ => false,
    }
}
