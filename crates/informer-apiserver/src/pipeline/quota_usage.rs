//! Quota usage: maintains `status.used` of ResourceQuotas.
//!
//! Each commit adds the difference between the usage of the new and the old object, so the cost of a commit
//! does not depend on the number of objects. All objects of the namespace are counted only if a quota is new
//! or its `spec.hard` has changed.
//!
//! Commits run concurrently, so a full count may include a commit that has not yet added its difference. Such
//! a commit has an older resourceVersion than the full count, and its difference is then ignored.

use std::collections::HashMap;
use std::sync::Arc;

use informer_core::{Gvr, ObjectKey};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};

use crate::admission::Scope;
use crate::admission::quota::check::{self, Charge};
use crate::admission::quota::evaluator::Evaluator;
use crate::admission::quota::{QuotaWrite, ResourceList, resource_list, scopes};
use crate::model::error::ApiError;
use crate::model::json::Object;
use crate::model::json::parse;
use crate::model::kinds::KindDefinition;
use crate::model::kinds::core::pod::resources::add;
use crate::model::object_meta::display_name;
use crate::model::quantity::Amount;
use crate::model::rules::as_value;
use crate::model::write_options::WriteMode;
use crate::pipeline::Pipeline;
use crate::pipeline::managed_fields::ManagedWrite;
use crate::pipeline::retry::WriteError;
use crate::registry::Resource;
use crate::registry::select::Filter;
use crate::registry::storage::{Expect, Stored};

/// Maximum number of retries if another write changes a quota while it is charged, as in kube-apiserver.
pub(crate) const MAX_RETRIES: usize = 3;
/// The field managers of a quota's status, as in Kubernetes: `PLUGIN` for writes of the admission plugin, and
/// `CONTROLLER` for those of the quota controller.
const PLUGIN: &str = "kube-apiserver";
const CONTROLLER: &str = "kube-controller-manager";

/// The resourceVersion of the storage at the last full count of each quota.
type CountedVersions = HashMap<ObjectKey, u64>;

/// The lock under which ResourceQuotas are checked and their usage is updated.
#[derive(Debug, Default)]
pub(crate) struct QuotaUsage(Mutex<CountedVersions>);

pub(crate) type UsageGuard<'a> = MutexGuard<'a, CountedVersions>;

impl QuotaUsage {
    pub(crate) fn lock(&self) -> UsageGuard<'_> {
        self.0.lock()
    }

    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

pub(crate) struct Commit<'a> {
    pub(crate) kind: &'a KindDefinition,
    pub(crate) before: Option<&'a Stored>,
    pub(crate) after: Option<&'a Stored>,
    pub(crate) version: u64,
}

impl Pipeline {
    /// Checks the quotas of a namespace and rejects a write that exceeds one. The caller must pass the
    /// returned guard to the commit, so that no other request can use the same remaining quota.
    pub(crate) fn charge(
        &self,
        quota_write: Option<QuotaWrite<'_>>,
        object: &mut Object,
    ) -> Result<Option<UsageGuard<'_>>, ApiError> {
        let Some((quota_write, evaluator)) = self.counted_write(quota_write, object) else { return Ok(None) };
        let guard = self.quota_usage.lock();
        for _ in 0..=MAX_RETRIES {
            let quotas = self.quotas_in(quota_write.namespace);
            let used = check_write(&quotas, quota_write, &evaluator, object)?;
            // With a running quota controller, the usage is updated after the commit and not here.
            if quota_write.dry_run || self.controllers.quotas {
                return Ok(Some(guard));
            }
            match self.write_plugin_usages(&quotas, &used) {
                Ok(()) => return Ok(Some(guard)),
                Err(WriteError::Conflict) => {}
                Err(WriteError::NestedConflict(error) | WriteError::Api(error)) => return Err(error),
            }
        }
        Err(ApiError::internal("quotas change faster than they can be charged"))
    }

    /// Rejects a write that exceeds a quota, without charging it. Used before a conversion webhook is called,
    /// because kube-apiserver checks quotas before it converts an object. The write is
    /// [charged](Self::charge) afterwards.
    pub(crate) fn check_quotas(
        &self,
        quota_write: Option<QuotaWrite<'_>>,
        object: &mut Object,
    ) -> Result<(), ApiError> {
        let Some((quota_write, evaluator)) = self.counted_write(quota_write, object) else { return Ok(()) };
        check_write(&self.quotas_in(quota_write.namespace), quota_write, &evaluator, object).map(drop)
    }

    /// Returns the write with the quota evaluator of its kind, or `None` if no quota of its namespace can
    /// count it.
    fn counted_write<'a>(
        &self,
        quota_write: Option<QuotaWrite<'a>>,
        object: &mut Object,
    ) -> Option<(QuotaWrite<'a>, Evaluator)> {
        let quota_write = quota_write?;
        let evaluator = Evaluator::of(quota_write.kind)?;
        let counted = as_value(object, |object| is_counted(&evaluator, quota_write, object));
        (counted && self.has_quotas(quota_write.namespace)).then_some((quota_write, evaluator))
    }

    fn write_plugin_usages(&self, quotas: &[Quota], all: &[(usize, ResourceList)]) -> Result<(), WriteError> {
        for (index, used) in all {
            let quota = &quotas[*index];
            let mut status = quota.object["status"].clone();
            status["used"] = to_json(used);
            self.write_quota_status(quota, status, PLUGIN)?;
        }
        Ok(())
    }

    /// Updates the usage of quotas after a commit, if the quota controller runs. `guard` is the one that
    /// [`charge`](Self::charge) returned, if the write was charged.
    pub(crate) fn update_quota_usage(&self, commit: &Commit<'_>, guard: Option<UsageGuard<'_>>) {
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
        let mut guard = guard.unwrap_or_else(|| self.quota_usage.lock());
        if is_quota && after.is_none() {
            guard.remove(key);
        }
        let [before, after] = [before, after].map(|stored| stored.map(|stored| parse(stored.as_slice())));
        for quota in self.quotas_in(namespace) {
            let already_counted = guard.get(&quota.stored.key).is_some_and(|counted| version <= *counted);
            if resource_list(&quota.object["spec"]["hard"]) != resource_list(&quota.object["status"]["hard"])
            {
                self.recount(&mut guard, &quota);
            } else if !already_counted {
                match check::usage_after_change(&quota.object, &evaluator, (before.as_ref(), after.as_ref()))
                {
                    Some(used) => self.write_used(&quota, &used),
                    // The usage would become negative: the commit that created the removed object has not
                    // recorded its usage yet.
                    None => self.recount(&mut guard, &quota),
                }
            }
        }
    }

    /// Counts the objects of all quotas again after a bulk load of this kind.
    pub(crate) fn recount_quotas(&self, kind: &KindDefinition) {
        let (Some(evaluator), true) = (Evaluator::of(kind), self.controllers.quotas) else { return };
        let Ok(resource) = self.resource(&quotas()) else { return };
        let live = self.storage.read().live(resource.table);
        let mut guard = self.quota_usage.lock();
        for stored in live.iter() {
            let quota = Quota::of(Arc::clone(stored));
            let hard = resource_list(&quota.object["spec"]["hard"]);
            if kind.is("", "ResourceQuota") || hard.keys().any(|name| evaluator.counts(name)) {
                self.recount(&mut guard, &quota);
            }
        }
    }

    fn recount(&self, counted_versions: &mut CountedVersions, quota: &Quota) {
        let key = &quota.stored.key;
        let (used, counted) = self.count_usage(key.namespace().unwrap_or_default(), &quota.object);
        counted_versions.insert(key.clone(), counted);
        self.write_used(quota, &used);
    }

    fn write_used(&self, quota: &Quota, used: &ResourceList) {
        let status = json!({"hard": quota.object["spec"]["hard"], "used": to_json(used)});
        let same = |list: &str| resource_list(&status[list]) == resource_list(&quota.object["status"][list]);
        if !same("hard") || !same("used") {
            // An error means that another write deleted or changed the quota first. The commit of that write
            // then updates the usage.
            drop(self.write_quota_status(quota, status, CONTROLLER));
        }
    }

    /// Counts the objects of a namespace in a snapshot of the storage. Returns the usage and the
    /// resourceVersion of the snapshot.
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

    fn tracked_resources(&self, hard: &ResourceList) -> Vec<(Arc<Resource>, Evaluator)> {
        let registry = self.registry.read();
        // If several versions of a resource are served, only the storage version is counted.
        let own = registry.iter().filter(|resource| resource.kind.namespaced && resource.stored_as.is_none());
        let measured =
            own.filter_map(|resource| Some((Arc::clone(resource), Evaluator::of(&resource.kind)?)));
        measured.filter(|(_, evaluator)| hard.keys().any(|name| evaluator.counts(name))).collect()
    }

    fn quotas_in(&self, namespace: &str) -> Vec<Quota> {
        self.stored_in_namespace("resourcequotas", namespace).into_iter().map(Quota::of).collect()
    }

    /// Stores the status of a quota, unless another write has changed the quota.
    ///
    /// The caller holds the lock of the quota usage. The write bypasses
    /// [`update_quota_usage`](Self::update_quota_usage), which would wait for that lock. This is possible
    /// because writing a status consumes no quota.
    fn write_quota_status(&self, quota: &Quota, status: Value, manager: &str) -> Result<(), WriteError> {
        let resource = self.resource(&quotas())?;
        let Quota { stored: current, object: old } = quota;
        let (Value::Object(old), Value::Object(mut new)) = (old, old.clone()) else { return Ok(()) };
        new.insert("status".to_owned(), status);
        let scope = Scope { manager: Some(manager), ..Scope::new(&resource, current.key.namespace()) };
        self.update_managers(scope.kind(), old, &mut new, ManagedWrite::of(scope, WriteMode::Status));
        let draft = scope.draft(current.key.clone(), &mut new);
        let put = self.storage.write().put(resource.table, draft, Expect::At(current.version));
        self.announce(&resource);
        put?;
        Ok(())
    }
}

struct Quota {
    stored: Arc<Stored>,
    object: Value,
}

impl Quota {
    fn of(stored: Arc<Stored>) -> Self {
        let object = parse(stored.as_slice());
        Self { stored, object }
    }
}

fn quotas() -> Gvr {
    Gvr::new("", "v1", "resourcequotas")
}

/// Returns the new usage of each quota that a write changes, with the quota's index. Returns an error if the
/// write exceeds a quota.
fn check_write(
    quotas: &[Quota],
    quota_write: QuotaWrite<'_>,
    evaluator: &Evaluator,
    object: &mut Object,
) -> Result<Vec<(usize, ResourceList)>, ApiError> {
    let QuotaWrite { kind, old, mode, .. } = quota_write;
    let quotas = quotas.iter().map(|quota| &quota.object);
    let checked = as_value(object, |object| {
        let unbounded = mode == WriteMode::Status;
        check::check(quotas, &Charge { evaluator, object, old, unbounded })
    });
    checked.map_err(|why| ApiError::forbidden(kind, display_name(object), &why))
}

fn to_json(all: &ResourceList) -> Value {
    Value::Object(
        all.iter().map(|(name, amount)| (name.clone(), amount.text().into())).collect::<Map<_, _>>(),
    )
}

/// Returns true if ResourceQuotas count this write: creates, and updates that can change the usage.
fn is_counted(evaluator: &Evaluator, QuotaWrite { mode, old, .. }: QuotaWrite<'_>, object: &Value) -> bool {
    match (evaluator, old, mode) {
        (Evaluator::Claims, Some(_), WriteMode::Main | WriteMode::Status)
        | (Evaluator::Services, Some(_), WriteMode::Main)
        | (Evaluator::Pods, Some(_), WriteMode::Resize)
        | (_, None, _) => true,
        (Evaluator::Pods, Some(old), WriteMode::Main) => {
            scopes::is_terminating(old) != scopes::is_terminating(object)
        }
        _ => false,
    }
}
