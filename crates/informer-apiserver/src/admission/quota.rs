//! LimitRange and ResourceQuota.
//!
//! The checks are pure functions in [`limits`] and [`check`]. This module finds the LimitRanges and
//! ResourceQuotas of a namespace.
//!
//! If the quota controller runs ([`Controllers::quotas`](crate::Controllers)), `status.used` follows each
//! commit. Otherwise only admission updates `status.used`, as the plugin of kube-apiserver does, and
//! deletions do not decrease it.
//!
//! See [limit ranges](https://kubernetes.io/docs/concepts/policy/limit-range/) and [resource
//! quotas](https://kubernetes.io/docs/concepts/policy/resource-quotas/).
//!
//! # Lock order
//!
//! The lock of [`QuotaUsage`](crate::pipeline::QuotaUsage) is held from the quota check until the object is
//! stored and its usage recorded, so that two requests cannot use the same remaining quota. This lock is
//! taken after `allocations`, and before `registry` and `storage`. While it is held, the status of a quota is
//! written directly to the storage.

pub(crate) mod check;
pub(crate) mod evaluator;
pub(crate) mod limits;
pub(crate) mod scopes;

use std::sync::Arc;

use informer_core::Gvr;
use serde_json::Value;

use crate::admission::Admission;
use crate::model::json::parse;
use crate::model::kinds::KindDefinition;
pub(crate) use crate::model::kinds::core::pod::resources::{ResourceList, resource_list};
use crate::model::write_options::WriteMode;
use crate::registry::select::Filter;
use crate::registry::storage::Stored;

#[derive(Clone, Copy)]
pub(crate) struct QuotaWrite<'a> {
    pub(crate) kind: &'a KindDefinition,
    pub(crate) namespace: &'a str,
    pub(crate) mode: WriteMode,
    /// The stored object before the write; `None` for a create.
    pub(crate) old: Option<&'a Value>,
    pub(crate) dry_run: bool,
}

impl Admission {
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
