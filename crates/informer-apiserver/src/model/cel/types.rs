//! Infers the result type of CEL expressions, in the cases that do not need a compiler.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue};

use crate::model::cel::check::{Declared, is_dynamic};

/// Returns the result type of a CEL expression, or `None` if only a compiler could infer it.
pub(crate) fn type_of(expr: &IdedExpr, declared: &Declared) -> Option<String> {
    let known = |name: &str| Some(name.to_owned());
    match &expr.expr {
        Expr::Literal(literal) => known(literal_type(literal)),
        ident @ Expr::Ident(_) if is_dynamic(ident) => known("dyn"),
        Expr::Select(select) if select.test => known("bool"),
        Expr::Select(select) => match &select.operand.expr {
            Expr::Ident(of) if of == "variables" => declared.variable(&select.field)?.map(str::to_owned),
            Expr::Ident(of) if of == "request" => match select.field.as_str() {
                "name" | "namespace" | "operation" | "subResource" | "requestSubResource" => known("string"),
                "dryRun" => known("bool"),
                _ => None,
            },
            _ => type_of(&select.operand, declared).filter(|of| of == "dyn"),
        },
        Expr::List(list) => {
            let elements: Vec<_> = list.elements.iter().collect();
            Some(format!("list({})", common(&elements, declared)?))
        }
        Expr::Call(call) => call_type(call, declared),
        // The CEL macros `all` and `exists` accumulate a boolean, so their result type is `bool`.
        Expr::Comprehension(all) => match (&all.accu_init.expr, &all.result.expr) {
            (Expr::Literal(LiteralValue::Boolean(_)), _) => known("bool"),
            (_, Expr::Call(call)) => call_type(call, declared),
            _ => None,
        },
        Expr::Struct(made) => known(&made.type_name),
        Expr::Map(map) => {
            let (keys, values): (Vec<_>, Vec<_>) = map
                .entries
                .iter()
                .filter_map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => Some((&entry.key, &entry.value)),
                    EntryExpr::StructField(_) => None,
                })
                .unzip();
            Some(format!("map({}, {})", common(&keys, declared)?, common(&values, declared)?))
        }
        Expr::Ident(_) | Expr::Unspecified => None,
    }
}

/// Returns the common type of several CEL expressions; `dyn` if the list is empty.
fn common(all: &[&IdedExpr], declared: &Declared) -> Option<String> {
    let mut types = all.iter().map(|one| type_of(one, declared));
    let Some(first) = types.next() else { return Some("dyn".to_owned()) };
    let first = first?;
    types.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

fn literal_type(literal: &LiteralValue) -> &'static str {
    match literal {
        LiteralValue::Boolean(_) => "bool",
        LiteralValue::Bytes(_) => "bytes",
        LiteralValue::Double(_) => "double",
        LiteralValue::Int(_) => "int",
        LiteralValue::String(_) => "string",
        LiteralValue::UInt(_) => "uint",
        LiteralValue::Null => "null_type",
    }
}

fn call_type(call: &CallExpr, declared: &Declared) -> Option<String> {
    let known = |name: &str| Some(name.to_owned());
    let parts: Vec<&IdedExpr> = call.target.as_deref().into_iter().chain(&call.args).collect();
    match (call.func_name.as_str(), parts.as_slice()) {
        (
            "_&&_" | "_||_" | "!_" | "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" | "@in" | "contains"
            | "startsWith" | "endsWith" | "matches",
            _,
        ) => known("bool"),
        ("allowed" | "errored", [_]) => known("bool"),
        ("string", _) | ("reason" | "error", [_]) => known("string"),
        ("int" | "size", _) => known("int"),
        ("double", _) => known("double"),
        ("uint", _) => known("uint"),
        ("_[_]", [of, _]) => type_of(of, declared).filter(|of| of == "dyn"),
        // Both operands of an arithmetic CEL operator have the same type, so a known type of one operand is
        // enough.
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [one, other]) => {
            let (one, other) = (type_of(one, declared)?, type_of(other, declared)?);
            match (one.as_str(), other.as_str()) {
                (one, other) if one == other => known(one),
                ("dyn", other @ ("string" | "int" | "double" | "uint")) => known(other),
                (one @ ("string" | "int" | "double" | "uint"), "dyn") => known(one),
                _ => None,
            }
        }
        ("_?_:_", [_, one, other]) => {
            let one = type_of(one, declared)?;
            (type_of(other, declared)? == one).then_some(one)
        }
        _ => None,
    }
}
