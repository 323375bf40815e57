//! Static checks of the rules of CRDs. They use the types that the schema declares.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue, SelectExpr};
use serde_json::Value;

use super::check::{Declared, place_of, pointed};
use crate::model::cel::ast::{names_of, parts};
use crate::model::cel::nesting;
use crate::model::cel::nesting::on_large_stack;

/// The operators that need operands of the same type, with their symbols in expressions.
const OPERATORS: [(&str, &str); 11] = [
    ("_==_", "=="),
    ("_!=_", "!="),
    ("_<=_", "<="),
    ("_>=_", ">="),
    ("_<_", "<"),
    ("_>_", ">"),
    ("_+_", "+"),
    ("_-_", "-"),
    ("_*_", "*"),
    ("_/_", "/"),
    ("_%_", "%"),
];

/// Returns true if an expression reads a variable.
pub(crate) fn uses(text: &str, variable: &str) -> bool {
    on_large_stack(|| nesting::parse(text).is_ok_and(|expression| names_of(&expression).contains(&variable)))
}

/// The part of a schema to which a rule belongs.
pub(crate) struct RuleScope<'a> {
    pub(crate) schema: &'a Value,
    pub(crate) is_root: bool,
}

/// The static type of an expression, as far as the schema tells it.
#[derive(Clone)]
enum ExpressionType<'a> {
    /// A part of the object, with its schema. The flag is set for a resource, which also has a type and
    /// metadata.
    Part(&'a Value, bool),
    Known(&'static str),
    Unknown,
}

impl RuleScope<'_> {
    /// Returns kube-apiserver's error for a rule that is invalid or whose result is not a boolean.
    pub(crate) fn rule_problem(&self, text: &str) -> Option<String> {
        self.problem(text, "bool", "cel expression must evaluate to a bool")
    }

    /// Returns kube-apiserver's error for an invalid `messageExpression`.
    pub(crate) fn message_problem(&self, text: &str) -> Option<String> {
        let problem = self.problem(text, "string", "must evaluate to a string");
        problem.map(|why| format!("messageExpression {why}"))
    }

    fn problem(&self, text: &str, wanted: &str, mistyped: &str) -> Option<String> {
        on_large_stack(|| {
            let expression = match Declared::of_rule().compile(text) {
                Ok(expression) => expression,
                Err(why) => return Some(why),
            };
            let mut problems = Vec::new();
            let found = self.type_of(&expression, text, &mut problems);
            if !problems.is_empty() {
                problems.sort();
                problems.dedup();
                let lines: Vec<String> = problems.iter().map(|(at, why)| pointed(text, *at, why)).collect();
                return Some(format!("compilation failed: {}", lines.join("\n")));
            }
            (found.name().is_some_and(|found| found != wanted)).then(|| mistyped.to_owned())
        })
    }

    fn type_of(
        &self,
        expr: &IdedExpr,
        text: &str,
        problems: &mut Vec<(usize, String)>,
    ) -> ExpressionType<'_> {
        let parts: Vec<ExpressionType<'_>> =
            parts(expr).into_iter().map(|part| self.type_of(part, text, problems)).collect();
        match &expr.expr {
            Expr::Ident(name) if matches!(name.as_str(), "self" | "oldSelf") => {
                ExpressionType::Part(self.schema, self.is_root)
            }
            Expr::Literal(literal) => ExpressionType::Known(literal_type(literal)),
            Expr::Select(select) => field_of(select, &parts[0], text, problems),
            Expr::Call(call) => call_type(call, &parts, text, problems),
            Expr::List(_) => ExpressionType::Known("list"),
            Expr::Map(_) => ExpressionType::Known("map"),
            Expr::Comprehension(all) => match &all.accu_init.expr {
                Expr::Literal(LiteralValue::Boolean(_)) => ExpressionType::Known("bool"),
                _ => ExpressionType::Unknown,
            },
            _ => ExpressionType::Unknown,
        }
    }
}

impl ExpressionType<'_> {
    /// Returns the name of the type, or `None` if it is unknown or dynamic.
    fn name(&self) -> Option<&'static str> {
        match self {
            Self::Known(name) => Some(name),
            Self::Unknown => None,
            Self::Part(schema, _) if schema["x-kubernetes-int-or-string"] == true => None,
            Self::Part(schema, _) if schema["nullable"] == true => None,
            Self::Part(schema, _) => match (schema["type"].as_str()?, schema["format"].as_str()) {
                ("string", Some("byte")) => Some("bytes"),
                ("string", Some("date" | "date-time")) => Some("timestamp"),
                ("string", Some("duration")) => Some("duration"),
                ("string", _) => Some("string"),
                ("integer", _) => Some("int"),
                ("number", _) => Some("double"),
                ("boolean", _) => Some("bool"),
                ("array", _) => Some("list"),
                ("object", _) => Some("object"),
                _ => None,
            },
        }
    }
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

fn field_of<'a>(
    select: &SelectExpr,
    operand: &ExpressionType<'a>,
    text: &str,
    problems: &mut Vec<(usize, String)>,
) -> ExpressionType<'a> {
    let ExpressionType::Part(schema, is_resource) = operand else {
        return if select.test { ExpressionType::Known("bool") } else { ExpressionType::Unknown };
    };
    let name = select.field.as_str();
    let found = schema["properties"].get(name);
    let is_resource = *is_resource || schema["x-kubernetes-embedded-resource"] == true;
    let is_typed = schema["properties"].as_object().is_some_and(|properties| !properties.is_empty())
        && !schema["additionalProperties"].is_object();
    // Names that are not CEL identifiers are escaped with underscores.
    let is_known = found.is_some()
        || name.contains("__")
        || is_resource && matches!(name, "apiVersion" | "kind" | "metadata");
    if is_typed && !is_known {
        let at = place_of(text, None, name).max(text.find(&format!(".{name}")).unwrap_or_default());
        problems.push((at, format!("undefined field '{name}'")));
    }
    match found {
        _ if select.test => ExpressionType::Known("bool"),
        Some(field) if !schema["additionalProperties"].is_object() => ExpressionType::Part(field, false),
        _ => ExpressionType::Unknown,
    }
}

fn call_type<'a>(
    call: &CallExpr,
    parts: &[ExpressionType<'a>],
    text: &str,
    problems: &mut Vec<(usize, String)>,
) -> ExpressionType<'a> {
    let name = call.func_name.as_str();
    if let (Some((_, sign)), [one, other]) = (OPERATORS.iter().find(|(operator, _)| *operator == name), parts)
        && let (Some(one), Some(other)) = (one.name(), other.name())
        && one != other
        && !is_allowed_mix(name, one, other)
    {
        let at = text.find(sign).unwrap_or_default();
        problems.push((at, format!("found no matching overload for '{name}' applied to '({one}, {other})'")));
    }
    match (name, parts) {
        ("_&&_" | "_||_" | "!_" | "@in" | "_in_", _) => ExpressionType::Known("bool"),
        ("_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_", _) => ExpressionType::Known("bool"),
        ("startsWith" | "endsWith" | "contains" | "matches" | "exists" | "all", _) => {
            ExpressionType::Known("bool")
        }
        ("size", _) => ExpressionType::Known("int"),
        ("string", [_]) => ExpressionType::Known("string"),
        ("int", [_]) => ExpressionType::Known("int"),
        ("double", [_]) => ExpressionType::Known("double"),
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [one, other]) => match (one.name(), other.name()) {
            (Some(one @ ("int" | "double" | "string" | "uint")), Some(other)) if one == other => {
                ExpressionType::Known(one)
            }
            _ => ExpressionType::Unknown,
        },
        ("_[_]", [ExpressionType::Part(schema, _), _]) => match &schema["items"] {
            items @ Value::Object(_) => ExpressionType::Part(items, false),
            _ if schema["additionalProperties"].is_object() => {
                ExpressionType::Part(&schema["additionalProperties"], false)
            }
            _ => ExpressionType::Unknown,
        },
        ("_?_:_", [_, one, other]) => match (one.name(), other.name()) {
            (Some(name), Some(other)) if name == other => one.clone(),
            _ => ExpressionType::Unknown,
        },
        _ => ExpressionType::Unknown,
    }
}

/// Returns true if an operator has an overload for operands of different types.
fn is_allowed_mix(operator: &str, one: &str, other: &str) -> bool {
    let is_number = |name: &str| matches!(name, "int" | "uint" | "double");
    let is_time = |name: &str| matches!(name, "timestamp" | "duration");
    match operator {
        "_<_" | "_<=_" | "_>_" | "_>=_" => is_number(one) && is_number(other),
        "_+_" | "_-_" => is_time(one) && is_time(other),
        // Accepts `==` and `!=` if either operand is a list, map, object or null. A value can have several
        // type names here: a map literal is a `map`, and a field of the schema is an `object`.
        "_==_" | "_!=_" => {
            ["list", "map", "object", "null_type"].iter().any(|name| [one, other].contains(name))
        }
        _ => false,
    }
}
