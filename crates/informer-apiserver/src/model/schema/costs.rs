//! An upper bound for the CEL cost of the validation rules of a schema. The interpreter does not count the
//! cost at run time, so the bound is computed for the concrete object before the rules run.
//!
//! The units are those of cel-go: one for an identifier, a field access or a call, and a tenth for each
//! character that a call traverses. Every iteration of a loop counts, even if cel-go would end the loop
//! earlier.

mod estimate;
mod functions;
mod shape;

use kube_cel::cel::IdedExpr;
use kube_cel::{CompilationResult, CompiledSchema};
use serde_json::Value;

use self::estimate::Estimate;
use super::validate::type_of;
use crate::model::cause::Cause;

/// CEL cost limit of one rule. It is twice that of kube-apiserver, which counts the actual cost, where loops
/// often end early.
const MAX_RULE_COST: u64 = 2_000_000;
/// CEL cost limit of all rules for one object. It is twice that of kube-apiserver, like `MAX_RULE_COST`.
const MAX_OBJECT_COST: u64 = 20_000_000;
/// Maximum number of values that are visited to estimate the cost of an object's rules. A rule that needs
/// more exceeds the cost limit in any case.
const MAX_VISITS: u64 = 20_000_000;

/// Returns kube-apiserver's error for the first CEL rule that is too expensive for this object.
pub(super) fn find_excess(compiled: &CompiledSchema, object: &Value, old: Option<&Value>) -> Option<Cause> {
    CostBudget { spent: 0, visited: 0 }.node(compiled, CostNode { value: object, old, path: "" })
}

/// Returns an upper bound for the cost of a CEL expression with these variables.
pub(crate) fn cost_of_expression(expression: &IdedExpr, about: &[(&str, &Value)]) -> u64 {
    Estimate::about(about, 0).cost(expression).0
}

/// The estimated cost of the CEL rules of one object so far, and the number of values visited to estimate it.
struct CostBudget {
    spent: u64,
    visited: u64,
}

#[derive(Clone, Copy)]
struct CostNode<'a> {
    value: &'a Value,
    old: Option<&'a Value>,
    path: &'a str,
}

impl CostBudget {
    fn node(&mut self, schema: &CompiledSchema, place: CostNode<'_>) -> Option<Cause> {
        let mut combined = schema.all_of.iter().chain(&schema.any_of).chain(&schema.one_of);
        let own = schema.validations.iter().flatten().find_map(|rule| self.rule(rule, place));
        own.or_else(|| combined.find_map(|part| self.node(part, place))).or_else(|| self.below(schema, place))
    }

    fn below(
        &mut self,
        schema: &CompiledSchema,
        CostNode { value, old, path }: CostNode<'_>,
    ) -> Option<Cause> {
        match value {
            Value::Object(members) => members.iter().find_map(|(name, value)| {
                let additional = || schema.additional_properties.as_deref();
                let schema = schema.properties.get(name).or_else(additional)?;
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let old = old.and_then(|old| old.get(name));
                self.node(schema, CostNode { value, old, path: &path })
            }),
            Value::Array(items) => {
                let schema = schema.items.as_deref()?;
                items.iter().enumerate().find_map(|(index, value)| {
                    let path = format!("{path}[{index}]");
                    let old = old.and_then(|old| old.get(index));
                    self.node(schema, CostNode { value, old, path: &path })
                })
            }
            _ => None,
        }
    }

    /// Adds the cost of one CEL rule. Returns an error if the rule or the whole object exceeds its limit.
    fn rule(&mut self, rule: &CompilationResult, place: CostNode<'_>) -> Option<Cause> {
        if rule.is_transition_rule && place.old.is_none() {
            return None;
        }
        let cost = self.estimate_cost(rule, place);
        self.spent = self.spent.saturating_add(cost);
        let why = if cost > MAX_RULE_COST {
            let named = rule.rule.message.as_deref().filter(|message| !message.is_empty());
            let named = named.unwrap_or(&rule.rule.rule).trim();
            format!(
                "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call \
                 cost exceeds limit for rule: {named}"
            )
        } else if self.spent > MAX_OBJECT_COST || self.visited > MAX_VISITS {
            "validation failed due to running out of cost budget, no further validation rules will be run"
                .to_owned()
        } else {
            return None;
        };
        let message = format!("Invalid value: \"{}\": {why}", type_of(place.value));
        Some(Cause { reason: "FieldValueInvalid", message, field: place.path.to_owned() })
    }

    /// Returns the cost of a CEL rule or of its message expression, whichever is larger.
    fn estimate_cost(&mut self, rule: &CompilationResult, place: CostNode<'_>) -> u64 {
        let old = place.old.unwrap_or(&Value::Null);
        let mut estimate = Estimate::about(&[("self", place.value), ("oldSelf", old)], self.visited);
        let programs = [Some(&rule.program), rule.message_program.as_ref()];
        let costs = programs.into_iter().flatten().map(|program| estimate.cost(program.expression()).0);
        let most = costs.max().unwrap_or_default();
        self.visited = estimate.visited();
        most
    }
}

#[cfg(test)]
mod tests;
