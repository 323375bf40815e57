//! LimitRange and ResourceQuota.
//!
//! The decisions are pure functions ([`limits`], [`quota`]). This module finds the LimitRanges and
//! ResourceQuotas of a namespace.
//!
//! If the quota controller runs ([`Controllers::quotas`](crate::Controllers)), `status.used` follows each
//! commit. Otherwise only admission updates it, as the plugin of kube-apiserver does, and nothing ever
//! decreases it.
//!
//! See [limit ranges](https://kubernetes.io/docs/concepts/policy/limit-range/) and [resource
//! quotas](https://kubernetes.io/docs/concepts/policy/resource-quotas/).
//!
//! # Lock order
//!
//! The lock of [`QuotaUsage`](crate::pipeline::QuotaUsage) is held from the quota check until the object is
//! stored and its usage recorded, so that two requests cannot use the same remaining quota. It comes after
//! `allocations`, and before `registry` and `storage`. Code that writes a quota within that section takes the
//! lock again.

pub(crate) mod check;
pub(crate) mod evaluator;
mod limits;
pub(crate) mod pod;
pub(crate) mod scopes;

use std::collections::BTreeMap;
use std::sync::Arc;

use informer_core::Gvr;
use serde_json::{Map, Value};

use crate::admission::Admission;
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::model::kinds::Kind;
use crate::model::metadata::told_name;
use crate::model::quantity::Amount;
use crate::model::rules::as_value;
use crate::model::write_options::WriteMode;
use crate::registry::select::Filter;
use crate::registry::storage::Stored;

type Object = Map<String, Value>;
/// Quantities by resource name.
pub(crate) type ResourceList = BTreeMap<String, Amount>;

/// Parses a resource list. Invalid quantities are left out.
pub(crate) fn resource_list(list: &Value) -> ResourceList {
    let read = |(name, amount): (&String, &Value)| {
        let amount = match amount {
            Value::String(text) => Amount::read(text),
            Value::Number(number) => Amount::read(&number.to_string()),
            _ => None,
        };
        Some((name.clone(), amount?))
    };
    list.as_object().into_iter().flatten().filter_map(read).collect()
}

/// A write that may consume quota.
#[derive(Clone, Copy)]
pub(crate) struct QuotaWrite<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) namespace: &'a str,
    pub(crate) mode: WriteMode,
    /// The stored object.
    pub(crate) old: Option<&'a Value>,
    pub(crate) dry_run: bool,
}

impl Admission {
    /// Applies the defaults of the LimitRanges to the containers of a new pod.
    pub(crate) fn apply_limit_defaults(&self, namespace: Option<&str>, pod: &mut Value) {
        for range in self.in_namespace("limitranges", namespace.unwrap_or_default()) {
            limits::fill(&range, pod);
        }
    }

    /// Validates a new pod or a PVC against the LimitRanges.
    pub(crate) fn check_limits(
        &self,
        quota_write: Option<QuotaWrite<'_>>,
        object: &mut Object,
    ) -> Result<(), ApiError> {
        let Some(QuotaWrite { kind, namespace, mode, old, .. }) = quota_write else { return Ok(()) };
        let validate = match kind.kind.as_str() {
            "Pod" if old.is_none() => limits::pod_problems,
            "PersistentVolumeClaim" if mode != WriteMode::Status => limits::claim_problems,
            _ => return Ok(()),
        };
        // An object that is being deleted is not checked.
        if !kind.gvr.group.is_empty()
            || old.is_some_and(|old| old["metadata"]["deletionTimestamp"].is_string())
        {
            return Ok(());
        }
        for range in self.in_namespace("limitranges", namespace) {
            let problems = as_value(object, |object| validate(&range, object));
            if !problems.is_empty() {
                return Err(ApiError::forbidden(kind, told_name(object), &limits::join_errors(&problems)));
            }
        }
        Ok(())
    }

    /// Returns the LimitRanges or ResourceQuotas of a namespace, ordered by name.
    pub(crate) fn in_namespace(&self, resource: &str, namespace: &str) -> Vec<Value> {
        self.stored_in_namespace(resource, namespace).iter().map(|stored| parse(stored.as_slice())).collect()
    }

    pub(crate) fn has_quotas(&self, namespace: &str) -> bool {
        !self.stored_in_namespace("resourcequotas", namespace).is_empty()
    }

    pub(crate) fn stored_in_namespace(&self, resource: &str, namespace: &str) -> Vec<Arc<Stored>> {
        let Ok(resource) = self.resource(&Gvr::new("", "v1", resource)) else { return Vec::new() };
        let prefix = Filter::namespace(Some(namespace)).prefix();
        let storage = self.storage.read();
        let found = storage.starting_at(resource.table, &prefix);
        found.take_while(|stored| stored.key.as_str().starts_with(&prefix)).cloned().collect()
    }
}
