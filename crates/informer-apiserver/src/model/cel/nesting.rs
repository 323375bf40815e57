//! The nesting limit of CEL expressions. It is necessary because the parser, the interpreter and the checks
//! of this crate walk expressions recursively.

use std::borrow::Cow;
use std::panic::catch_unwind;

use kube_cel::cel::parser::Parser;
use kube_cel::cel::{IdedExpr, ParseError, ParseErrors};
use serde_json::Value;

use super::ast::parts;

/// Maximum nesting depth of a CEL expression, as in kube-apiserver. In unoptimized builds, the interpreter
/// uses tens of kilobytes of stack per level.
const MAX_LEVELS: usize = 250;
/// Maximum number of operators and brackets in a CEL expression. The parser recurses for each operator of a
/// chain such as `1 + 1 + 1`, and does not limit this recursion itself.
const MAX_OPERATORS: usize = 20_000;
/// Stack size in bytes for the CEL parser and interpreter. The operating system allocates only the part that
/// is used.
const STACK_BYTES: usize = 256 << 20;

/// The error for a CEL expression that is nested too deeply; the same as in kube-apiserver.
const TOO_DEEP: &str = "expression recursion limit exceeded: 250";

pub(crate) fn on_large_stack<T>(run: impl FnOnce() -> T) -> T {
    stacker::grow(STACK_BYTES, run)
}

/// Parses a CEL expression, including the syntax for optional values. Must be called [on a large
/// stack](on_large_stack).
pub(crate) fn parse(text: &str) -> Result<IdedExpr, ParseErrors> {
    let signs = text.bytes().filter(|byte| b"+-*/%.<>=!&|?:([{".contains(byte)).count();
    if signs + text.matches(" in ").count() > MAX_OPERATORS {
        return Err(too_deep());
    }
    // In debug builds the parser panics for some expressions at its own nesting limit, because its level
    // counter underflows.
    let parsed = catch_unwind(|| Parser::new().enable_optional_syntax(true).parse(text));
    match parsed.unwrap_or_else(|_| Err(too_deep()))? {
        expression if is_deeper(&expression, MAX_LEVELS) => Err(too_deep()),
        expression => Ok(expression),
    }
}

fn too_deep() -> ParseErrors {
    let (source, pos, expr_id, source_info) = (None, (1, 0), 0, None);
    ParseErrors { errors: vec![ParseError { source, pos, msg: TOO_DEEP.to_owned(), expr_id, source_info }] }
}

pub(crate) fn is_deeper(expr: &IdedExpr, levels: usize) -> bool {
    let mut open = vec![(expr, 1)];
    while let Some((expr, level)) = open.pop() {
        if level > levels {
            return true;
        }
        open.extend(parts(expr).into_iter().map(|part| (part, level + 1)));
    }
    false
}

fn is_too_deep(text: &str) -> bool {
    parse(text).is_err_and(|errors| errors.errors.iter().any(|error| error.msg == TOO_DEEP))
}

/// Returns the schema after replacing each CEL rule that is nested too deeply by one that does not parse.
pub(crate) fn parsable(schema: &Value) -> Cow<'_, Value> {
    if has_unparsable(schema) {
        let mut schema = schema.clone();
        replace_unparsable(&mut schema);
        Cow::Owned(schema)
    } else {
        Cow::Borrowed(schema)
    }
}

fn has_unparsable(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(name, value)| match (name.as_str(), value) {
            ("rule" | "messageExpression", Value::String(text)) => is_too_deep(text),
            (_, value) => has_unparsable(value),
        }),
        Value::Array(items) => items.iter().any(has_unparsable),
        _ => false,
    }
}

fn replace_unparsable(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), &mut *value) {
                    ("rule" | "messageExpression", Value::String(text)) if is_too_deep(text) => {
                        TOO_DEEP.clone_into(text);
                    }
                    (_, value) => replace_unparsable(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(replace_unparsable),
        _ => {}
    }
}
