//! What objects take of their namespace: limit ranges say how much a container, a pod or a claim may ask for, quotas how
//! much all objects together may.
//!
//! What is decided is pure ([`limits`], [`quota`]); here it is found out by what, and the books of quotas are kept. Where the controller
//! of quotas runs ([`Controllers::quotas`](crate::Controllers)), the books follow each commit. Where it does not, they are
//! written when something is let in, as upstream's plugin does, and nobody takes anything out of them.
//!
//! Upstream specifies this as [limit ranges](https://kubernetes.io/docs/concepts/policy/limit-range/) and
//! [resource quotas](https://kubernetes.io/docs/concepts/policy/resource-quotas/).
//!
//! # Lock order
//!
//! [`Books`] are held from the question whether there is room until what it lets in is stored and written down, so that no two
//! take the same room; they come after `allocating`, before `registry` and `storage`. Whoever writes them within that opens them again.

mod books;
mod limits;
mod measure;
mod pod;
mod quota;
mod scopes;

use std::collections::BTreeMap;
use std::sync::Arc;

use informer_core::Gvr;
use serde_json::{Map, Value};

use crate::amounts::Amount;
use crate::error::ApiError;
use crate::kinds::Kind;
use crate::plugins::told_name;
use crate::rules::as_value;
use crate::select::Filter;
use crate::server::{Shared, parse};
use crate::storage::Stored;
use crate::write::WriteMode;
pub(crate) use books::{Books, Charging, Commit};
use measure::Measure;
use quota::Charge;

type Object = Map<String, Value>;
/// Amounts of resources by their names.
type Amounts = BTreeMap<String, Amount>;

/// A list of resources. What is no amount is left out.
fn amounts(list: &Value) -> Amounts {
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

/// A write that may take something of its namespace.
#[derive(Clone, Copy)]
pub(crate) struct Taking<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) namespace: &'a str,
    pub(crate) mode: WriteMode,
    /// What is there now.
    pub(crate) old: Option<&'a Value>,
    pub(crate) dry_run: bool,
}

impl Shared {
    /// Fills in what limit ranges have for the containers of a new pod.
    pub(crate) fn fill_limits(&self, namespace: Option<&str>, pod: &mut Value) {
        for range in self.bounds("limitranges", namespace.unwrap_or_default()) {
            limits::fill(&range, pod);
        }
    }

    /// Refuses what limit ranges forbid: new pods, and claims.
    pub(crate) fn check_limits(
        &self,
        taking: Option<Taking<'_>>,
        object: &mut Object,
    ) -> Result<(), ApiError> {
        let Some(Taking { kind, namespace, mode, old, .. }) = taking else { return Ok(()) };
        let problems_of = match kind.kind.as_str() {
            "Pod" if old.is_none() => limits::pod_problems,
            "PersistentVolumeClaim" if mode != WriteMode::Status => limits::claim_problems,
            _ => return Ok(()),
        };
        // What goes is let go.
        if !kind.gvr.group.is_empty()
            || old.is_some_and(|old| old["metadata"]["deletionTimestamp"].is_string())
        {
            return Ok(());
        }
        for range in self.bounds("limitranges", namespace) {
            let problems = as_value(object, |object| problems_of(&range, object));
            if !problems.is_empty() {
                return Err(ApiError::forbidden(kind, told_name(object), &limits::told(&problems)));
            }
        }
        Ok(())
    }

    /// Refuses what quotas have no room for. What it answers is held until the object is stored.
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
        for _ in 0..=books::RETRIES_MAX {
            let quotas = self.bounds("resourcequotas", namespace);
            let checked = as_value(object, |object| {
                let unbounded = taking.mode == WriteMode::Status;
                quota::check(&quotas, &Charge { measure: &measure, object, old, unbounded })
            });
            let used = checked.map_err(|why| ApiError::forbidden(kind, told_name(object), &why))?;
            // The controller's books follow what is stored.
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

    /// Limit ranges or quotas of a namespace, by their names.
    fn bounds(&self, resource: &str, namespace: &str) -> Vec<Value> {
        self.stored_bounds(resource, namespace).iter().map(|stored| parse(stored.as_slice())).collect()
    }

    fn has_quotas(&self, namespace: &str) -> bool {
        !self.stored_bounds("resourcequotas", namespace).is_empty()
    }

    fn stored_bounds(&self, resource: &str, namespace: &str) -> Vec<Arc<Stored>> {
        let Ok(resource) = self.resource(&Gvr::new("", "v1", resource)) else { return Vec::new() };
        let prefix = Filter::namespace(Some(namespace)).prefix();
        let storage = self.storage.read();
        let found = storage.starting_at(resource.table, &prefix);
        found.take_while(|stored| stored.key.as_str().starts_with(&prefix)).cloned().collect()
    }
}

/// Whether a write is one that quotas look at.
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
