//! What rules in CEL may cost: an upper bound, reckoned over the object before they run, since the interpreter counts nothing.
//!
//! Units are those of upstream's interpreter: one for a name, a field, a call; a tenth for each letter that a call goes through. Every step
//! of a loop counts, also those that upstream would not come to.

use std::rc::Rc;

use kube_cel::CompiledSchema;
use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue};
use serde_json::Value;

use super::validate::type_of;
use crate::error::Cause;

/// What one rule may cost, twice upstream's limit: that is for what is really done, and loops often stop half way.
const RULE_COST_MAX: u64 = 2_000_000;
/// What all rules may cost for one object, likewise.
const OBJECT_COST_MAX: u64 = 20_000_000;
/// Values that are looked at to reckon this; what takes more is too expensive in any case.
const LOOKS_MAX: u64 = 20_000_000;
/// A list, or an object, that a rule makes.
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
/// Letters that a call goes through for one unit.
const LETTERS: u64 = 10;

/// The rule that would cost too much for this object, as the error that upstream answers.
pub(super) fn excess(compiled: &CompiledSchema, object: &Value, old: Option<&Value>) -> Option<Cause> {
    Bill { spent: 0, looks: 0 }.node(compiled, (object, old), "")
}

/// Whether a rule has a part that the interpreter cannot evaluate: a message by its type.
pub(super) fn makes_messages(expr: &IdedExpr) -> bool {
    matches!(expr.expr, Expr::Struct(_) | Expr::Unspecified) || parts(expr).into_iter().any(makes_messages)
}

fn parts(expr: &IdedExpr) -> Vec<&IdedExpr> {
    match &expr.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(all) => {
            vec![&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => Vec::new(),
    }
}

fn entry_parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        EntryExpr::StructField(field) => vec![&field.value],
    }
}

struct Bill {
    spent: u64,
    looks: u64,
}

impl Bill {
    /// The rules of a schema and below it, over a value.
    fn node(
        &mut self,
        compiled: &CompiledSchema,
        (value, old): (&Value, Option<&Value>),
        path: &str,
    ) -> Option<Cause> {
        for rule in compiled.validations.iter().flatten() {
            if rule.is_transition_rule && old.is_none() {
                continue;
            }
            let mut reckoning = Reckoning { looks: self.looks, names: Vec::new(), whole: size(value) };
            reckoning.names.push(("self", Shape::of(value)));
            reckoning.names.push(("oldSelf", Shape::of(old.unwrap_or(&Value::Null))));
            let message = rule.message_program.as_ref();
            let cost = [Some(&rule.program), message]
                .into_iter()
                .flatten()
                .fold(0_u64, |cost, program| cost.max(reckoning.cost(program.expression()).0));
            self.looks = reckoning.looks.saturating_add(reckoning.whole);
            self.spent = self.spent.saturating_add(cost);
            let named = rule.rule.message.as_deref().filter(|message| !message.is_empty());
            let named = named.unwrap_or(&rule.rule.rule).trim();
            let why = if cost > RULE_COST_MAX {
                format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call \
                     cost exceeds limit for rule: {named}"
                )
            } else if self.spent > OBJECT_COST_MAX || self.looks > LOOKS_MAX {
                "validation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned()
            } else {
                continue;
            };
            let message = format!("Invalid value: \"{}\": {why}", type_of(value));
            return Some(Cause { reason: "FieldValueInvalid", message, field: path.to_owned() });
        }
        self.below(compiled, (value, old), path)
    }

    fn below(
        &mut self,
        compiled: &CompiledSchema,
        (value, old): (&Value, Option<&Value>),
        path: &str,
    ) -> Option<Cause> {
        for part in compiled.all_of.iter().chain(&compiled.any_of).chain(&compiled.one_of) {
            if let Some(cause) = self.node(part, (value, old), path) {
                return Some(cause);
            }
        }
        match value {
            Value::Object(members) => members.iter().find_map(|(name, member)| {
                let additional = || compiled.additional_properties.as_deref();
                let schema = compiled.properties.get(name).or_else(additional)?;
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                self.node(schema, (member, old.and_then(|old| old.get(name))), &path)
            }),
            Value::Array(items) => {
                let schema = compiled.items.as_deref()?;
                items.iter().enumerate().find_map(|(index, item)| {
                    let old = old.and_then(|old| old.get(index));
                    self.node(schema, (item, old), &format!("{path}[{index}]"))
                })
            }
            _ => None,
        }
    }
}

/// What a part of a rule may come to, as far as costs go.
#[derive(Clone)]
enum Shape<'a> {
    /// One of these values of the object.
    Values(Rc<Vec<&'a Value>>),
    /// A list of so many at most, each of this shape.
    Items(u64, Rc<Self>),
    /// A text or anything else of this length at most.
    Length(u64),
}

impl<'a> Shape<'a> {
    fn of(value: &'a Value) -> Self {
        Self::Values(Rc::new(vec![value]))
    }

    fn len(&self) -> u64 {
        match self {
            Self::Values(values) => values.iter().map(|value| length(value)).max().unwrap_or_default(),
            Self::Items(length, _) | Self::Length(length) => *length,
        }
    }

    fn is_list(&self) -> bool {
        match self {
            Self::Values(values) => values.iter().any(|value| value.is_array()),
            Self::Items(..) => true,
            Self::Length(_) => false,
        }
    }

    /// What a call costs that goes through it.
    fn weight(&self) -> u64 {
        let weight = |value: &&Value| match value {
            Value::String(text) => text.len() as u64 / LETTERS,
            other => length(other),
        };
        match self {
            Self::Values(values) => values.iter().map(weight).max().unwrap_or_default(),
            Self::Items(length, _) => *length,
            Self::Length(length) => length / LETTERS,
        }
    }

    /// What a loop over it sees: the items of a list, the names of an object.
    fn items(&self) -> Self {
        match self {
            Self::Values(values) => match values.iter().any(|value| value.is_object()) {
                true => {
                    let names =
                        values.iter().filter_map(|value| value.as_object()).flat_map(|all| all.keys());
                    Self::Length(names.map(|name| name.len() as u64).max().unwrap_or_default())
                }
                false => Self::gather(values, |value| value.as_array().into_iter().flatten()),
            },
            Self::Items(_, item) => Self::clone(item),
            Self::Length(length) => Self::Length(*length),
        }
    }

    /// What an index finds in it.
    fn entries(&self) -> Self {
        match self {
            Self::Values(values) => Self::gather(values, |value| {
                let items = value.as_array().into_iter().flatten();
                items.chain(value.as_object().into_iter().flat_map(|members| members.values()))
            }),
            other => other.items(),
        }
    }

    fn gather<I: Iterator<Item = &'a Value>>(values: &[&'a Value], of: impl Fn(&'a Value) -> I) -> Self {
        Self::Values(Rc::new(values.iter().flat_map(|value| of(value)).collect()))
    }
}

/// The length of a value itself: letters, items, members.
fn length(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.len() as u64,
        Value::Object(members) => members.len() as u64,
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// The letters and values of all of it.
fn size(value: &Value) -> u64 {
    let below: u64 = match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() as u64 + size(value)).sum(),
        other => length(other),
    };
    1 + below
}

/// Reckons one rule.
struct Reckoning<'a, 'r> {
    looks: u64,
    /// What names stand for; the last one of a name counts.
    names: Vec<(&'r str, Shape<'a>)>,
    /// The size of the value that the rule is about.
    whole: u64,
}

impl<'a, 'r> Reckoning<'a, 'r> {
    fn cost(&mut self, expr: &'r IdedExpr) -> (u64, Shape<'a>) {
        if self.looks > LOOKS_MAX {
            return (u64::MAX, Shape::Length(0));
        }
        let (cost, shape) = match &expr.expr {
            Expr::Literal(LiteralValue::String(text)) => (0, Shape::Length(text.inner().len() as u64)),
            Expr::Literal(_) => (0, Shape::Length(0)),
            Expr::Ident(name) => (1, self.named(name)),
            Expr::Select(select) => {
                let (cost, operand) = self.cost(&select.operand);
                let shape = if select.test { Shape::Length(0) } else { self.field(&operand, &select.field) };
                (cost.saturating_add(1), shape)
            }
            Expr::List(list) => self.made(LIST_COST, list.elements.iter().collect()),
            Expr::Map(map) => {
                self.made(MAP_COST, map.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect())
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(all) => self.over(all),
            // Rules with these do not come here.
            Expr::Struct(_) | Expr::Unspecified => (u64::MAX, Shape::Length(0)),
        };
        if let Shape::Values(values) = &shape {
            self.looks = self.looks.saturating_add(values.len() as u64);
        }
        self.looks = self.looks.saturating_add(1);
        (cost, shape)
    }

    fn named(&self, name: &str) -> Shape<'a> {
        let found = self.names.iter().rev().find(|(known, _)| *known == name);
        found.map_or(Shape::Length(self.whole), |(_, shape)| shape.clone())
    }

    fn field(&self, operand: &Shape<'a>, name: &str) -> Shape<'a> {
        match operand {
            // Names that CEL cannot write have another form.
            Shape::Values(values) if !name.contains("__") => {
                Shape::gather(values, |value| value.get(name).into_iter())
            }
            _ => Shape::Length(self.whole),
        }
    }

    fn made(&mut self, cost: u64, parts: Vec<&'r IdedExpr>) -> (u64, Shape<'a>) {
        let count = parts.len() as u64;
        let (mut cost, mut item) = (cost, Shape::Length(0));
        for part in parts {
            let (more, shape) = self.cost(part);
            cost = cost.saturating_add(more);
            item = self.either(item, shape);
        }
        (cost, Shape::Items(count, Rc::new(item)))
    }

    fn either(&self, one: Shape<'a>, other: Shape<'a>) -> Shape<'a> {
        match (one, other) {
            (Shape::Length(0), shape) | (shape, Shape::Length(0)) => shape,
            (Shape::Values(one), Shape::Values(other)) => {
                Shape::Values(Rc::new(one.iter().chain(other.iter()).copied().collect()))
            }
            (Shape::Items(one, of), Shape::Items(other, others)) => {
                let item = self.either(Shape::clone(&of), Shape::clone(&others));
                Shape::Items(one.max(other), Rc::new(item))
            }
            (one, other) => Shape::Length(one.len().max(other.len()).max(self.whole)),
        }
    }

    fn call(&mut self, call: &'r CallExpr) -> (u64, Shape<'a>) {
        let all: Vec<(u64, Shape<'a>)> =
            call.target.as_deref().into_iter().chain(&call.args).map(|part| self.cost(part)).collect();
        let sum = |of: &dyn Fn(&Shape<'a>) -> u64| {
            all.iter().map(|(_, shape)| of(shape)).fold(0, u64::saturating_add)
        };
        let plain = all.iter().fold(1, |cost: u64, (more, _)| cost.saturating_add(*more));
        match (call.func_name.as_str(), all.as_slice()) {
            ("_?_:_", [(asked, _), (one, first), (other, second)]) => {
                let cost = asked.saturating_add(*one.max(other)).saturating_add(1);
                (cost, self.either(first.clone(), second.clone()))
            }
            ("_[_]" | "_[?_]", [(_, operand), _]) => (plain, operand.entries()),
            ("_+_", [(_, one), (_, other)]) if one.is_list() || other.is_list() => {
                let item = self.either(one.items(), other.items());
                (plain, Shape::Items(one.len().saturating_add(other.len()), Rc::new(item)))
            }
            ("_&&_" | "_||_" | "!_" | "@not_strictly_false" | "size", _) => (plain, Shape::Length(0)),
            ("_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" | "@in", _) => {
                (plain.saturating_add(sum(&Shape::weight)), Shape::Length(0))
            }
            _ => (plain.saturating_add(sum(&Shape::weight)), Shape::Length(sum(&Shape::len))),
        }
    }

    /// A loop.
    fn over(&mut self, all: &'r ComprehensionExpr) -> (u64, Shape<'a>) {
        let (range_cost, range) = self.cost(&all.iter_range);
        let (init_cost, init) = self.cost(&all.accu_init);
        let (steps, before) = (range.len(), self.names.len());
        self.names.push((&all.iter_var, range.items()));
        if let Some(second) = &all.iter_var2 {
            self.names.push((second, range.entries()));
        }
        let gathers = init.is_list();
        let gathered = if gathers { Shape::Items(steps, Rc::new(Shape::Length(0))) } else { init };
        self.names.push((&all.accu_var, gathered));
        let (asked, _) = self.cost(&all.loop_cond);
        let (step, shape) = self.cost(&all.loop_step);
        let gathered = match shape {
            Shape::Items(_, item) if gathers => Shape::Items(steps, item),
            shape => shape,
        };
        self.names.push((&all.accu_var, gathered));
        let (result, shape) = self.cost(&all.result);
        self.names.truncate(before);
        let loops = steps.saturating_mul(asked.saturating_add(step));
        let cost = [range_cost, init_cost, loops, asked, result].into_iter().fold(0, u64::saturating_add);
        (cost, shape)
    }
}

#[cfg(test)]
mod tests;
