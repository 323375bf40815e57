//! What rules in CEL may cost: an upper bound, reckoned over the object before they run, since the interpreter counts nothing.
//!
//! Units are those of upstream's interpreter: one for a name, a field, a call; a tenth for each letter that a call goes through. Every step
//! of a loop counts, also those that upstream would not come to.

mod estimate;
mod functions;
mod shape;

use kube_cel::cel::IdedExpr;
use kube_cel::{CompilationResult, CompiledSchema};
use serde_json::Value;

use self::estimate::Reckoning;
use super::validate::type_of;
use crate::model::error::Cause;

/// What one rule may cost, twice upstream's limit: that is for what is really done, and loops often stop half way.
const RULE_COST_MAX: u64 = 2_000_000;
/// What all rules may cost for one object, likewise.
const OBJECT_COST_MAX: u64 = 20_000_000;
/// Values that are looked at to reckon this; what takes more is too expensive in any case.
const LOOKS_MAX: u64 = 20_000_000;

/// The rule that would cost too much for this object, as the error that upstream answers.
pub(super) fn excess(compiled: &CompiledSchema, object: &Value, old: Option<&Value>) -> Option<Cause> {
    Bill { spent: 0, looks: 0 }.node(compiled, Place { value: object, old, path: "" })
}

/// What an expression may cost that sees these values under these names.
pub(crate) fn cost_of_expression(expression: &IdedExpr, about: &[(&str, &Value)]) -> u64 {
    Reckoning::about(about, 0).cost(expression).0
}

/// What is spent so far, for one object.
struct Bill {
    spent: u64,
    looks: u64,
}

/// A value within the object, and what stood there before.
#[derive(Clone, Copy)]
struct Place<'a> {
    value: &'a Value,
    old: Option<&'a Value>,
    path: &'a str,
}

impl Bill {
    /// The rules of a schema about a value, and those below.
    fn node(&mut self, schema: &CompiledSchema, place: Place<'_>) -> Option<Cause> {
        let mut combined = schema.all_of.iter().chain(&schema.any_of).chain(&schema.one_of);
        let own = schema.validations.iter().flatten().find_map(|rule| self.rule(rule, place));
        own.or_else(|| combined.find_map(|part| self.node(part, place))).or_else(|| self.below(schema, place))
    }

    fn below(&mut self, schema: &CompiledSchema, Place { value, old, path }: Place<'_>) -> Option<Cause> {
        match value {
            Value::Object(members) => members.iter().find_map(|(name, value)| {
                let additional = || schema.additional_properties.as_deref();
                let schema = schema.properties.get(name).or_else(additional)?;
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let old = old.and_then(|old| old.get(name));
                self.node(schema, Place { value, old, path: &path })
            }),
            Value::Array(items) => {
                let schema = schema.items.as_deref()?;
                items.iter().enumerate().find_map(|(index, value)| {
                    let path = format!("{path}[{index}]");
                    let old = old.and_then(|old| old.get(index));
                    self.node(schema, Place { value, old, path: &path })
                })
            }
            _ => None,
        }
    }

    /// One rule: why it is too much, if it is.
    fn rule(&mut self, rule: &CompilationResult, place: Place<'_>) -> Option<Cause> {
        if rule.is_transition_rule && place.old.is_none() {
            return None;
        }
        let cost = self.reckon(rule, place);
        self.spent = self.spent.saturating_add(cost);
        let why = if cost > RULE_COST_MAX {
            let named = rule.rule.message.as_deref().filter(|message| !message.is_empty());
            let named = named.unwrap_or(&rule.rule.rule).trim();
            format!(
                "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call \
                 cost exceeds limit for rule: {named}"
            )
        } else if self.spent > OBJECT_COST_MAX || self.looks > LOOKS_MAX {
            "validation failed due to running out of cost budget, no further validation rules will be run"
                .to_owned()
        } else {
            return None;
        };
        let message = format!("Invalid value: \"{}\": {why}", type_of(place.value));
        Some(Cause { reason: "FieldValueInvalid", message, field: place.path.to_owned() })
    }

    /// What a rule may cost, or its message if that is more.
    fn reckon(&mut self, rule: &CompilationResult, place: Place<'_>) -> u64 {
        let old = place.old.unwrap_or(&Value::Null);
        let mut reckoning = Reckoning::about(&[("self", place.value), ("oldSelf", old)], self.looks);
        let programs = [Some(&rule.program), rule.message_program.as_ref()];
        let costs = programs.into_iter().flatten().map(|program| reckoning.cost(program.expression()).0);
        let most = costs.max().unwrap_or_default();
        self.looks = reckoning.looks();
        most
    }
}

#[cfg(test)]
mod tests;
