use std::rc::Rc;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, LiteralValue};
use serde_json::Value;

use super::MAX_VISITS;
use super::functions;
use super::shape::{Shape, size};
use crate::model::cel::ast::parts;

/// The CEL cost of constructing a list or a map.
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const CHECK_COST: u64 = 350_000;

pub(super) struct Estimate<'a, 'r> {
    visited: u64,
    /// The CEL variables in scope. If a name occurs several times, the last one applies.
    names: Vec<(&'r str, Shape<'a>)>,
    /// The size of the largest variable, which bounds the size of any part of the object.
    whole: u64,
}

impl<'a, 'r> Estimate<'a, 'r> {
    /// Creates an estimate for expressions with these variables. `visited` is the number of values that
    /// earlier estimates for the same object have visited.
    pub(super) fn about(values: &[(&'r str, &'a Value)], visited: u64) -> Self {
        let names = values.iter().map(|(name, value)| (*name, Shape::of(value))).collect();
        let whole = values.iter().map(|(_, value)| size(value)).max().unwrap_or_default();
        Self { visited, names, whole }
    }

    /// Returns the number of values that this estimate and the earlier ones of the object have visited. It
    /// includes the size of the largest variable, because measuring that size also visits each value in it.
    pub(super) fn visited(&self) -> u64 {
        self.visited.saturating_add(self.whole)
    }

    pub(super) fn cost(&mut self, expr: &'r IdedExpr) -> (u64, Shape<'a>) {
        if self.visited > MAX_VISITS {
            return (u64::MAX, Shape::Length(0));
        }
        let (cost, shape) = match &expr.expr {
            Expr::Literal(LiteralValue::String(text)) => (0, Shape::Text(text.inner().into())),
            Expr::Literal(LiteralValue::Int(number)) => (0, Shape::Number(number.inner().unsigned_abs())),
            Expr::Literal(LiteralValue::UInt(number)) => (0, Shape::Number(*number.inner())),
            Expr::Literal(_) => (0, Shape::Length(0)),
            Expr::Ident(name) => (1, self.named(name)),
            Expr::Select(select) => {
                let (cost, operand) = self.cost(&select.operand);
                let shape = if select.test { Shape::Length(0) } else { self.field(&operand, &select.field) };
                (cost.saturating_add(1), shape)
            }
            Expr::List(_) => self.literal(LIST_COST, parts(expr)),
            Expr::Map(_) => self.literal(MAP_COST, parts(expr)),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(all) => self.comprehension(all),
            // CEL rules with message literals were already rejected.
            Expr::Struct(_) | Expr::Unspecified => (u64::MAX, Shape::Length(0)),
        };
        if let Shape::Values(values) = &shape {
            self.visited = self.visited.saturating_add(values.len() as u64);
        }
        self.visited = self.visited.saturating_add(1);
        (cost, shape)
    }

    fn named(&self, name: &str) -> Shape<'a> {
        let found = self.names.iter().rev().find(|(known, _)| *known == name);
        found.map_or(Shape::Length(self.whole), |(_, shape)| shape.clone())
    }

    fn field(&self, operand: &Shape<'a>, name: &str) -> Shape<'a> {
        match operand {
            // The name of a field that is not a CEL identifier is escaped with `__`, and is not resolved
            // here.
            Shape::Values(values) if !name.contains("__") => {
                Shape::gather(values, |value| value.get(name).into_iter())
            }
            _ => Shape::Length(self.whole),
        }
    }

    fn literal(&mut self, cost: u64, parts: Vec<&'r IdedExpr>) -> (u64, Shape<'a>) {
        let count = parts.len() as u64;
        let (mut cost, mut item) = (cost, None);
        for part in parts {
            let (more, shape) = self.cost(part);
            cost = cost.saturating_add(more);
            item = Some(match item {
                Some(item) => self.either(item, shape),
                None => shape,
            });
        }
        (cost, Shape::Items(count, Rc::new(item.unwrap_or(Shape::Nothing))))
    }

    fn either(&self, one: Shape<'a>, other: Shape<'a>) -> Shape<'a> {
        match (one, other) {
            (Shape::Nothing, shape) | (shape, Shape::Nothing) => shape,
            (Shape::Number(one), Shape::Number(other)) => Shape::Number(one.max(other)),
            (Shape::Quantity(one), Shape::Quantity(other)) => Shape::Quantity(one.max(other)),
            // `Length(0)` also represents a number whose value is unknown. A known number must not replace
            // it, since the unknown one may be larger.
            (Shape::Length(0), shape) | (shape, Shape::Length(0)) if shape.number().is_none() => shape,
            (Shape::Values(one), Shape::Values(other)) => {
                Shape::Values(Rc::new(one.iter().chain(other.iter()).copied().collect()))
            }
            (Shape::Items(one, of), Shape::Items(other, others)) => {
                let item = self.either(Shape::clone(&of), Shape::clone(&others));
                Shape::Items(one.max(other), Rc::new(item))
            }
            (one, other) => Shape::Length(one.total().max(other.total()).max(self.whole)),
        }
    }

    fn call(&mut self, call: &'r CallExpr) -> (u64, Shape<'a>) {
        let all: Vec<(u64, Shape<'a>)> =
            call.target.as_deref().into_iter().chain(&call.args).map(|part| self.cost(part)).collect();
        let sum = |of: &dyn Fn(&Shape<'a>) -> u64| {
            all.iter().map(|(_, shape)| of(shape)).fold(0, u64::saturating_add)
        };
        let plain = all.iter().fold(1, |cost: u64, (more, _)| cost.saturating_add(*more));
        if let Some((cost, shape)) = functions::cost(&call.func_name, &all) {
            return (plain.saturating_add(cost), shape);
        }
        match (call.func_name.as_str(), all.as_slice()) {
            ("_?_:_", [(asked, _), (one, first), (other, second)]) => {
                let cost = asked.saturating_add(*one.max(other)).saturating_add(1);
                (cost, self.either(first.clone(), second.clone()))
            }
            ("_[_]" | "_[?_]", [(_, operand), _]) => (plain, operand.entries()),
            ("_+_", [(_, one), (_, other)]) if one.is_list() || other.is_list() => {
                let item = self.either(one.items(), other.items());
                let plain = plain.saturating_add(one.len()).saturating_add(other.len());
                (plain, Shape::Items(one.len().saturating_add(other.len()), Rc::new(item)))
            }
            ("check", [_, _]) => (plain.saturating_add(CHECK_COST), Shape::Length(0)),
            ("_&&_" | "_||_" | "!_" | "@not_strictly_false", _) => (plain, Shape::Length(0)),
            ("_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" | "@in", _) => {
                (plain.saturating_add(sum(&Shape::compared)), Shape::Length(0))
            }
            _ => (plain.saturating_add(sum(&Shape::weight)), Shape::Length(sum(&Shape::len))),
        }
    }

    fn comprehension(&mut self, all: &'r ComprehensionExpr) -> (u64, Shape<'a>) {
        let (range_cost, range) = self.cost(&all.iter_range);
        let (init_cost, init) = self.cost(&all.accu_init);
        let (steps, before) = (range.len(), self.names.len());
        self.names.push((&all.iter_var, range.items()));
        if let Some(second) = &all.iter_var2 {
            self.names.push((second, range.entries()));
        }
        let gathers = init.is_list();
        let gathered = if gathers { Shape::Items(steps, Rc::new(Shape::Nothing)) } else { init };
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
