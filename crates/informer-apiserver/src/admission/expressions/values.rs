//! Conversion of values between JSON and CEL, and of evaluation errors to the messages of cel-go.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue};
use kube_cel::cel::objects::Key;
use kube_cel::cel::{self, IdedExpr};
use serde_json::Value;

use crate::admission::expressions::BoundVariables;
use crate::admission::expressions::authorizer::{AUTHORIZER, REQUEST_RESOURCE};
use crate::model::cel::ast::{parts, parts_mut};

/// Converts a JSON value to CEL. Integers become signed, as in kube-apiserver.
pub(crate) fn to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => cel::Value::Int(integer),
            None => cel::Value::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => cel::Value::String(text.clone().into()),
        Value::Array(items) => cel::Value::List(items.iter().map(to_cel).collect::<Vec<_>>().into()),
        Value::Object(members) => {
            let members: HashMap<String, cel::Value> =
                members.iter().map(|(name, value)| (name.clone(), to_cel(value))).collect();
            cel::Value::Map(members.into())
        }
    }
}

pub(crate) fn to_json(value: &cel::Value) -> Result<Value, String> {
    Ok(match value {
        cel::Value::Null => Value::Null,
        cel::Value::Bool(value) => Value::Bool(*value),
        cel::Value::Int(number) => Value::from(*number),
        cel::Value::UInt(number) => Value::from(*number),
        // JSON text of a CEL double is formatted as in Go: an integral value has no fraction.
        cel::Value::Float(number) => {
            serde_json::from_str(&number.to_string()).map_err(|_| unsupported("number"))?
        }
        cel::Value::String(text) => Value::from(text.as_str()),
        cel::Value::Bytes(bytes) => Value::from(STANDARD.encode(bytes.as_slice())),
        cel::Value::List(items) => items.iter().map(to_json).collect::<Result<_, _>>()?,
        cel::Value::Map(members) => {
            let member = |(key, value): (&Key, &cel::Value)| match key {
                Key::String(name) => Ok((name.to_string(), to_json(value)?)),
                key => Err(format!("map key {key:?} is not a string")),
            };
            Value::Object(members.map.iter().map(member).collect::<Result<_, _>>()?)
        }
        _ => return Err(unsupported("type")),
    })
}

fn unsupported(what: &str) -> String {
    format!("the expression evaluated to a {what} that could not marshal to JSON")
}

/// Returns a JSON value of the same size as the CEL value. Cost estimates take their sizes from it.
pub(crate) fn size_equivalent(value: &cel::Value) -> Value {
    match value {
        cel::Value::String(text) => Value::from(text.as_str()),
        cel::Value::Bytes(bytes) => Value::from("-".repeat(bytes.len())),
        cel::Value::List(items) => items.iter().map(size_equivalent).collect(),
        cel::Value::Map(members) => {
            let name = |key: &Key| match key {
                Key::String(text) => text.to_string(),
                Key::Int(number) => number.to_string(),
                Key::Uint(number) => number.to_string(),
                Key::Bool(is) => is.to_string(),
            };
            members.map.iter().map(|(key, value)| (name(key), size_equivalent(value))).collect()
        }
        cel::Value::Int(number) => Value::from(*number),
        cel::Value::UInt(number) => Value::from(*number),
        _ => Value::Null,
    }
}

pub(crate) fn cel_go_message(error: &cel::ExecutionError) -> String {
    use cel::ExecutionError as Error;
    match error {
        Error::NoSuchOverload
        | Error::ValuesNotComparable(..)
        | Error::UnsupportedBinaryOperator(..)
        | Error::UnsupportedUnaryOperator(..)
        | Error::UnsupportedTargetType { .. } => "no such overload".to_owned(),
        Error::DivisionByZero(_) => "division by zero".to_owned(),
        Error::RemainderByZero(_) => "modulus by zero".to_owned(),
        Error::FunctionError { function, .. } if conversion_target(function).is_some() => {
            let to = conversion_target(function).unwrap_or_default();
            format!("type conversion error from 'string' to '{to}'")
        }
        Error::IndexOutOfBounds(cel::Value::Int(index)) => format!("index out of bounds: {index}"),
        other => other.to_string(),
    }
}

fn conversion_target(function: &str) -> Option<&'static str> {
    Some(match function {
        "int" => "int",
        "uint" => "uint",
        "double" => "double",
        "duration" => "google.protobuf.Duration",
        "timestamp" => "google.protobuf.Timestamp",
        _ => return None,
    })
}

/// Returns the first missing field that the expression passes to a function. The error message names it.
pub(crate) fn missing_argument<'e>(expr: &'e IdedExpr, subject: &BoundVariables<'_>) -> Option<&'e str> {
    let missing_field = |part: &&'e IdedExpr| match &part.expr {
        Expr::Select(select) if !select.test => {
            resolve(&select.operand, subject)?.get(&select.field).is_none().then_some(select.field.as_str())
        }
        _ => None,
    };
    let own = match &expr.expr {
        Expr::Call(call) if !call.func_name.contains('_') => parts(expr).iter().find_map(missing_field),
        _ => None,
    };
    own.or_else(|| parts(expr).into_iter().find_map(|part| missing_argument(part, subject)))
}

/// Returns the first field that the expression selects from a scalar. The error message names it.
pub(crate) fn field_of_scalar<'e>(expr: &'e IdedExpr, subject: &BoundVariables<'_>) -> Option<&'e str> {
    let own = match &expr.expr {
        Expr::Select(select) if !select.test => resolve(&select.operand, subject)
            .filter(|operand| !operand.is_object())
            .map(|_| select.field.as_str()),
        _ => None,
    };
    own.or_else(|| parts(expr).into_iter().find_map(|part| field_of_scalar(part, subject)))
}

/// Rewrites field selections in a CEL expression to index operations, and `authorizer.requestResource` to its
/// own variable.
///
/// For a value without fields, the interpreter evaluates a field selection to `false`, but reports an error
/// for an index operation. The error is the behavior of cel-go.
pub(crate) fn index_fields(expr: &mut IdedExpr) {
    parts_mut(expr).into_iter().for_each(index_fields);
    // Optional field selections (`a.?b`) are rewritten, too: the interpreter fails if the field is missing.
    if let Expr::Call(call) = &mut expr.expr
        && call.func_name == "_?._"
    {
        "_[?_]".clone_into(&mut call.func_name);
    }
    if let Expr::Select(select) = &mut expr.expr
        && !select.test
    {
        if select.field == "requestResource"
            && matches!(&select.operand.expr, Expr::Ident(of) if of == AUTHORIZER)
        {
            expr.expr = Expr::Ident(REQUEST_RESOURCE.to_owned());
            return;
        }
        let field = LiteralValue::String(select.field.as_str().into());
        let field = IdedExpr { id: expr.id, expr: Expr::Literal(field) };
        let args = vec![std::mem::take(&mut *select.operand), field];
        expr.expr = Expr::Call(CallExpr { func_name: "_[_]".to_owned(), target: None, args });
    }
}

fn resolve<'a>(expr: &IdedExpr, subject: &BoundVariables<'a>) -> Option<&'a Value> {
    match &expr.expr {
        Expr::Ident(name) => subject.iter().find(|(known, _)| known == name).map(|(_, value)| *value),
        Expr::Select(select) => resolve(&select.operand, subject)?.get(&select.field),
        _ => None,
    }
}
