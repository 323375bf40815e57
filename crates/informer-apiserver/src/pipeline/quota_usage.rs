//! Quota usage: maintains `status.used` of ResourceQuotas.
//!
//! Each commit adds the difference between the usage of the new and the old object, so its cost does not
//! depend on the size of the
//! namespace. All objects are counted only if a quota is new or its `spec.hard` has changed.
//!
//! Commits run concurrently, so a full count may include a commit before that commit reports its difference.
//! The version of the last full
//! count identifies such commits, and their differences are ignored.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use informer_core::{Gvr, ObjectKey};
use parking_lot::{ReentrantMutex, ReentrantMutexGuard};
use serde_json::{Map, Value, json};

use crate::admission::Scope;
use crate::admission::quota::check::{Charge, check, counted, moved};
use crate::admission::quota::evaluator::Measure;
use crate::admission::quota::pod::add;
use crate::admission::quota::{Amounts, Taking, amounts, scopes};
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::model::kinds::Kind;
use crate::model::metadata::{Object, told_name};
use crate::model::quantity::Amount;
use crate::model::rules::as_value;
use crate::model::write_options::WriteMode;
use crate::pipeline::Pipeline;
use crate::pipeline::ready::ready;
use crate::registry::Resource;
use crate::registry::select::Filter;
use crate::registry::storage::Stored;

/// Number of retries if a quota changes while it is charged, as in kube-apiserver.
pub(crate) const RETRIES_MAX: usize = 3;
/// Field managers of the status: of the admission plugin and of the controller, as in Kubernetes.
const PLUGIN: &str = "kube-apiserver";
const CONTROLLER: &str = "kube-controller-manager";

/// The version of the storage at the last full count of each quota.
#[derive(Debug, Default)]
pub(crate) struct Books(ReentrantMutex<RefCell<HashMap<ObjectKey, u64>>>);

/// Guard that is held until the admitted object is stored.
pub(crate) type Charging<'a> = ReentrantMutexGuard<'a, RefCell<HashMap<ObjectKey, u64>>>;

impl Books {
    pub(crate) fn open(&self) -> Charging<'_> {
        self.0.lock()
    }

    /// Drops the state after a restore.
    pub(crate) fn forget(&self) {
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
        taking: Option<Taking<'_>>,
        object: &mut Object,
    ) -> Result<Option<Charging<'_>>, ApiError> {
        let Some(taking) = taking else { return Ok(None) };
        let Taking { kind, namespace, old, dry_run, .. } = taking;
        let Some(measure) = Measure::of(kind) else { return Ok(None) };
        if !as_value(object, |object| is_counted(&measure, taking, object)) || !self.has_quotas(namespace) {
            return Ok(None);
        }
        let charging = self.books.open();
        for _ in 0..=RETRIES_MAX {
            let quotas = self.bounds("resourcequotas", namespace);
            let checked = as_value(object, |object| {
                let unbounded = taking.mode == WriteMode::Status;
                check(&quotas, &Charge { measure: &measure, object, old, unbounded })
            });
            let used = checked.map_err(|why| ApiError::forbidden(kind, told_name(object), &why))?;
            // If the quota controller runs, it updates the usage after the commit.
            if dry_run || self.controllers.quotas {
                return Ok(Some(charging));
            }
            let entered = used.iter().try_for_each(|(place, used)| self.enter(&quotas[*place], used));
            match entered {
                Err(conflict) if conflict.code == 409 => {}
                entered => return entered.map(|()| Some(charging)),
            }
        }
        Err(ApiError::internal("quotas change faster than they can be charged"))
    }

    /// Writes the usage that the admission plugin computed.
    pub(crate) fn enter(&self, quota: &Value, used: &Amounts) -> Result<(), ApiError> {
        let mut quota = quota.clone();
        quota["status"]["used"] = listed(used);
        self.write_books(quota, PLUGIN)
    }

    /// Updates the usage after a commit, if the quota controller runs.
    pub(crate) fn keep_books(&self, commit: &Commit<'_>) {
        let Commit { kind, before, after, version } = *commit;
        let Some(key) = before.or(after).map(|stored| &stored.key) else { return };
        let namespace = key.namespace().unwrap_or_default();
        let is_quota = kind.is("", "ResourceQuota");
        if !self.controllers.quotas || namespace.is_empty() {
            return;
        }
        let Some(measure) = Measure::of(kind).filter(|_| is_quota || self.has_quotas(namespace)) else {
            return;
        };
        let charging = self.books.open();
        if is_quota && after.is_none() {
            charging.borrow_mut().remove(key);
        }
        let [before, after] = [before, after].map(|stored| stored.map(|stored| parse(stored.as_slice())));
        for stored in self.stored_bounds("resourcequotas", namespace) {
            let quota = parse(stored.as_slice());
            let told = charging.borrow().get(&stored.key).is_some_and(|counted| version <= *counted);
            if amounts(&quota["spec"]["hard"]) != amounts(&quota["status"]["hard"]) {
                self.count_anew(&charging, &stored.key, quota);
            } else if !told {
                match moved(&quota, &measure, (before.as_ref(), after.as_ref())) {
                    Some(used) => self.write_used(quota, &used),
                    // The commit that added the removed object has not reported its usage yet.
                    None => self.count_anew(&charging, &stored.key, quota),
                }
            }
        }
    }

    /// Counts all objects again after a bulk load of a kind.
    pub(crate) fn count_all(&self, kind: &Kind) {
        let (Some(measure), true) = (Measure::of(kind), self.controllers.quotas) else { return };
        let Ok(resource) = self.resource(&Gvr::new("", "v1", "resourcequotas")) else { return };
        let live = self.storage.read().live(resource.table);
        let charging = self.books.open();
        for stored in live.iter() {
            let quota = parse(stored.as_slice());
            let counts = amounts(&quota["spec"]["hard"]).keys().any(|name| measure.counts(name));
            if counts || kind.is("", "ResourceQuota") {
                self.count_anew(&charging, &stored.key, quota);
            }
        }
    }

    fn count_anew(&self, charging: &Charging<'_>, key: &ObjectKey, quota: Value) {
        let (used, counted) = self.recounted(key.namespace().unwrap_or_default(), &quota);
        charging.borrow_mut().insert(key.clone(), counted);
        self.write_used(quota, &used);
    }

    fn write_used(&self, mut quota: Value, used: &Amounts) {
        let status = json!({"hard": quota["spec"]["hard"], "used": listed(used)});
        let same = |list: &str| amounts(&status[list]) == amounts(&quota["status"][list]);
        if !same("hard") || !same("used") {
            quota["status"] = status;
            // The quota was deleted or changed concurrently. The usage is then updated by that commit.
            drop(self.write_books(quota, CONTROLLER));
        }
    }

    /// Counts the objects in a snapshot. Returns the usage and the version of the snapshot.
    fn recounted(&self, namespace: &str, quota: &Value) -> (Amounts, u64) {
        let hard = amounts(&quota["spec"]["hard"]);
        let tracked = self.tracked(&hard);
        let storage = self.storage.read();
        let version = storage.version();
        let live = tracked.into_iter().map(|(resource, measure)| (storage.live(resource.table), measure));
        let live: Vec<_> = live.collect();
        drop(storage);
        let prefix = Filter::namespace(Some(namespace)).prefix();
        let mut used = Amounts::new();
        for (live, measure) in live {
            let found = live.from(&prefix).take_while(|stored| stored.key.as_str().starts_with(&prefix));
            let objects: Vec<Value> = found.map(|stored| parse(stored.as_slice())).collect();
            let mut sum = counted(quota, &measure, objects.iter());
            sum.retain(|name, _| hard.contains_key(name));
            let names = hard.keys().filter(|name| measure.counts(name));
            used.extend(names.map(|name| (name.clone(), Amount::ZERO)));
            add(&mut used, &sum);
        }
        (used, version)
    }

    /// Returns the resources that a quota counts, with their evaluators.
    fn tracked(&self, hard: &Amounts) -> Vec<(Arc<Resource>, Measure)> {
        let registry = self.registry.read();
        // Of several served versions, only the storage version is counted.
        let own = registry.iter().filter(|resource| resource.kind.namespaced && resource.stored_as.is_none());
        let measured = own.filter_map(|resource| Some((Arc::clone(resource), Measure::of(&resource.kind)?)));
        measured.filter(|(_, measure)| hard.keys().any(|name| measure.counts(name))).collect()
    }

    fn write_books(&self, quota: Value, manager: &str) -> Result<(), ApiError> {
        let resource = self.resource(&Gvr::new("", "v1", "resourcequotas"))?;
        let text = |name: &str| quota["metadata"][name].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let scope = Scope { manager: Some(manager), ..Scope::new(&resource, Some(&namespace)) };
        ready(self.update(scope, &name, quota, WriteMode::Status)).map(drop)
    }
}

fn listed(all: &Amounts) -> Value {
    Value::Object(
        all.iter().map(|(name, amount)| (name.clone(), amount.text().into())).collect::<Map<_, _>>(),
    )
}

/// Returns true if quotas evaluate this write.
fn is_counted(measure: &Measure, Taking { mode, old, .. }: Taking<'_>, object: &Value) -> bool {
    match (measure, old, mode) {
        (Measure::Claims, Some(_), WriteMode::Main | WriteMode::Status)
        | (Measure::Services, Some(_), WriteMode::Main)
        | (_, None, _) => true,
        (Measure::Pods, Some(old), WriteMode::Main) => {
            scopes::is_terminating(old) != scopes::is_terminating(object)
        }
        _ => false,
    }
}
