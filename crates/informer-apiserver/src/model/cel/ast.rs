//! Traversal of the subexpressions of CEL expressions.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{ComprehensionExpr, EntryExpr, Expr};

/// Returns true if a CEL rule constructs a message, which the interpreter cannot evaluate.
pub(crate) fn constructs_messages(expr: &IdedExpr) -> bool {
    matches!(expr.expr, Expr::Struct(_) | Expr::Unspecified)
        || parts(expr).into_iter().any(constructs_messages)
}

pub(crate) fn members_of<'e>(expr: &'e IdedExpr, name: &str) -> Vec<&'e str> {
    let own = match &expr.expr {
        Expr::Select(select) if matches!(&select.operand.expr, Expr::Ident(of) if of == name) => {
            Some(select.field.as_str())
        }
        _ => None,
    };
    let below = parts(expr).into_iter().flat_map(|part| members_of(part, name));
    own.into_iter().chain(below).collect()
}

pub(crate) fn calls_of(expr: &IdedExpr) -> Vec<&str> {
    let own = match &expr.expr {
        Expr::Call(call) => Some(call.func_name.as_str()),
        _ => None,
    };
    own.into_iter().chain(parts(expr).into_iter().flat_map(calls_of)).collect()
}

/// Returns the free variables of a CEL expression.
pub(crate) fn names_of(expr: &IdedExpr) -> Vec<&str> {
    match &expr.expr {
        Expr::Ident(name) => vec![name.as_str()],
        Expr::Comprehension(all) => {
            let own = [Some(&all.iter_var), all.iter_var2.as_ref(), Some(&all.accu_var)];
            let within = [&all.loop_cond, &all.loop_step, &all.result].into_iter().flat_map(names_of);
            let free = within.filter(|name| !own.into_iter().flatten().any(|known| known == name));
            let before = [&all.iter_range, &all.accu_init].into_iter().flat_map(names_of);
            before.chain(free).collect()
        }
        _ => parts(expr).into_iter().flat_map(names_of).collect(),
    }
}

/// Returns the direct subexpressions of a CEL expression, in source order.
pub(crate) fn parts(expr: &IdedExpr) -> Vec<&IdedExpr> {
    match &expr.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(all) => {
            vec![&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect(),
        Expr::Struct(made) => made.entries.iter().flat_map(|entry| entry_parts(&entry.expr)).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

pub(crate) fn parts_mut(expr: &mut IdedExpr) -> Vec<&mut IdedExpr> {
    match &mut expr.expr {
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        Expr::Comprehension(all) => {
            let ComprehensionExpr { iter_range, accu_init, loop_cond, loop_step, result, .. } = &mut **all;
            vec![iter_range, accu_init, loop_cond, loop_step, result]
        }
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => map.entries.iter_mut().flat_map(|entry| entry_parts_mut(&mut entry.expr)).collect(),
        Expr::Struct(made) => {
            made.entries.iter_mut().flat_map(|entry| entry_parts_mut(&mut entry.expr)).collect()
        }
        Expr::Select(select) => vec![&mut *select.operand],
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

fn entry_parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        EntryExpr::StructField(field) => vec![&field.value],
    }
}

fn entry_parts_mut(entry: &mut EntryExpr) -> Vec<&mut IdedExpr> {
    match entry {
        EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
        EntryExpr::StructField(field) => vec![&mut field.value],
    }
}

#[cfg(test)]
mod tests;
