//! The rules of the built-in kinds: what a field is when nobody says, and what is refused.
//!
//! They are data: each kind has a list of [`Default`]s and a list of [`Check`]s, in the order in which upstream applies them,
//! since that is the order of the causes in a refusal. What cannot be said as data is a small function beside it. Kinds
//! that have no list are stored as they come.

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

pub(crate) use addresses::{Taken, allocate_from, keep_allocated};
pub(crate) use path::{get, set};
pub(crate) use prepare::{
    add_finalizer, add_toleration, plug_in_change, prepare_changed, prepare_new, qos, taint_new_node,
    tolerate_lost_nodes, with_value,
};
pub(crate) use warnings::advice;

pub(crate) use checks::{SUBDOMAIN_RULE, label_problems, qualified_problems};
pub(crate) use hook_checks::check_conversion;

use crate::model::error::Cause;
use crate::model::kinds::Kind;
use checks::{At, Check};
use defaults::Default;

/// What holds for one kind.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    defaults: &'static [Default],
    checks: &'static [Check],
    /// What holds between an object and the one before it; they come after the others.
    changes: &'static [Check],
    /// What a status must be.
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

    /// The rules of a kind, where it has any.
    pub(crate) fn of(kind: &Kind) -> Option<Self> {
        if kind.is_custom() {
            return None;
        }
        let name = (kind.gvr.group.as_str(), kind.kind.as_str());
        if kind.is("autoscaling", "HorizontalPodAutoscaler") && kind.gvr.version == "v1" {
            return Some(policy::FIRST_AUTOSCALER);
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

    /// Fills in what nobody has said.
    pub(crate) fn fill(&self, object: &mut Map<String, Value>) {
        let mut whole = Value::Object(std::mem::take(object));
        defaults::fill(&mut whole, self.defaults);
        if let Value::Object(filled) = whole {
            *object = filled;
        }
    }

    /// What is wrong with the status of an object.
    pub(crate) fn check_status(&self, object: &mut Map<String, Value>) -> Vec<Cause> {
        as_value(object, |object| {
            let mut causes = Vec::new();
            checks::run(&At::root(object, None), self.status, &mut causes);
            causes
        })
    }

    /// What is wrong with an object, in upstream's order.
    pub(crate) fn check(&self, object: &mut Map<String, Value>, old: Option<&Value>) -> Vec<Cause> {
        as_value(object, |object| {
            let mut causes = Vec::new();
            let at = At::root(object, old);
            checks::run(&at, self.checks, &mut causes);
            if old.is_some() {
                checks::run(&at, self.changes, &mut causes);
            }
            causes
        })
    }
}

/// Fills in the defaults of a built-in kind.
pub(crate) fn fill_defaults(kind: &Kind, message: Message<'_>, object: &mut Object) {
    if let Some(rules) = Rules::of(kind) {
        // A struct is there even where nobody has said anything of it.
        for name in ["spec", "roleRef"] {
            let member = message.field(name).is_some_and(|field| field.shape() == Shape::Value);
            if member && object.get(name).is_none_or(Value::is_null) {
                object.insert(name.to_owned(), Value::Object(Map::new()));
            }
        }
        rules.fill(object);
    }
}

/// Shows an object as a value, without a copy of it.
pub(crate) fn as_value<T>(object: &mut Map<String, Value>, look: impl FnOnce(&Value) -> T) -> T {
    let whole = Value::Object(std::mem::take(object));
    let seen = look(&whole);
    if let Value::Object(same) = whole {
        *object = same;
    }
    seen
}
