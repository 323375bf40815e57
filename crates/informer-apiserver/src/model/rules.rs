//! Defaulting and validation of the built-in kinds.
//!
//! Each kind has a list of [`Default`]s and a list of [`Check`]s, in the order in which kube-apiserver
//! applies them. The order matters: it is the order of the causes in a 422 response. Rules that do not fit
//! into these lists are small functions next to them. Kinds without a list are neither defaulted nor
//! validated.

mod addresses;
mod admission;
mod admission_checks;
mod checks;
mod config_checks;
mod defaults;
mod hook_checks;
mod mutation_checks;
mod network;
mod network_checks;
mod node_checks;
mod path;
mod pod_checks;
mod pods;
mod policy;
mod policy_checks;
mod prepare;
mod ranges;
mod service_checks;
mod small;
mod small_checks;
mod storage;
mod warnings;
mod webhooks;
mod workloads;

use informer_schema::{Message, Shape};
use serde_json::{Map, Value};

use crate::model::metadata::Object;

pub(crate) use addresses::{UsedAddresses, allocate_service, preserve_allocations};
pub(crate) use path::{get, set};
pub(crate) use prepare::{
    add_default_tolerations, add_finalizer, add_tolerations, apply_update_plugins, prepare_for_create,
    prepare_for_update, qos, taint_new_node, with_value,
};
pub(crate) use warnings::object_warnings;

pub(crate) use checks::{SUBDOMAIN_RULE, label_problems, qualified_problems};
pub(crate) use hook_checks::check_conversion;

use crate::model::error::Cause;
use crate::model::kinds::Kind;
use checks::{Check, FieldView};
use defaults::Default;

/// The defaults and the validation of one kind.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    defaults: &'static [Default],
    checks: &'static [Check],
    /// Validation of an update against the old object. Runs after `checks`.
    changes: &'static [Check],
    /// Validation of a status update.
    status: &'static [Check],
}

impl Rules {
    const fn new(defaults: &'static [Default], checks: &'static [Check]) -> Self {
        Self { defaults, checks, changes: &[], status: &[] }
    }

    const fn changes(mut self, changes: &'static [Check]) -> Self {
        self.changes = changes;
        self
    }

    const fn status(mut self, status: &'static [Check]) -> Self {
        self.status = status;
        self
    }

    /// Returns the rules of a built-in kind, or `None` if it has none.
    pub(crate) fn of(kind: &Kind) -> Option<Self> {
        if kind.is_custom() {
            return None;
        }
        let name = (kind.gvr.group.as_str(), kind.kind.as_str());
        if kind.is("autoscaling", "HorizontalPodAutoscaler") && kind.gvr.version == "v1" {
            return Some(policy::AUTOSCALER_V1);
        }
        pods::rules(name)
            .or_else(|| workloads::rules(name))
            .or_else(|| network::rules(name))
            .or_else(|| policy::rules(name))
            .or_else(|| storage::rules(name))
            .or_else(|| small::rules(name))
            .or_else(|| webhooks::rules(name))
            .or_else(|| admission::rules(name))
    }

    /// Applies the defaults.
    pub(crate) fn fill(&self, object: &mut Map<String, Value>) {
        let mut whole = Value::Object(std::mem::take(object));
        defaults::fill(&mut whole, self.defaults);
        if let Value::Object(filled) = whole {
            *object = filled;
        }
    }

    /// Validates an update of the status.
    pub(crate) fn check_status(&self, object: &mut Map<String, Value>) -> Vec<Cause> {
        as_value(object, |object| {
            let mut causes = Vec::new();
            checks::run(&FieldView::root(object, None), self.status, &mut causes);
            causes
        })
    }

    /// Validates an object, and an update if there is an old object. The causes are in the order of
    /// kube-apiserver.
    pub(crate) fn check(&self, object: &mut Map<String, Value>, old: Option<&Value>) -> Vec<Cause> {
        as_value(object, |object| {
            let mut causes = Vec::new();
            let at = FieldView::root(object, old);
            checks::run(&at, self.checks, &mut causes);
            if old.is_some() {
                checks::run(&at, self.changes, &mut causes);
            }
            causes
        })
    }
}

/// Applies the defaults of a built-in kind.
pub(crate) fn fill_defaults(kind: &Kind, message: Message<'_>, object: &mut Object) {
    if let Some(rules) = Rules::of(kind) {
        // In Go these structs are values: they exist even if the client omits them.
        for name in ["spec", "roleRef"] {
            let member = message.field(name).is_some_and(|field| field.shape() == Shape::Value);
            if member && object.get(name).is_none_or(Value::is_null) {
                object.insert(name.to_owned(), Value::Object(Map::new()));
            }
        }
        rules.fill(object);
    }
}

/// Passes an object to a function that takes a [`Value`], without copying it.
pub(crate) fn as_value<T>(object: &mut Map<String, Value>, look: impl FnOnce(&Value) -> T) -> T {
    let whole = Value::Object(std::mem::take(object));
    let seen = look(&whole);
    if let Value::Object(same) = whole {
        *object = same;
    }
    seen
}
