//! Objects and patch operations that CEL expressions construct. The CEL interpreter does not know their
//! types, so these constructors are rewritten to maps.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{
    EntryExpr, Expr, IdedEntryExpr, LiteralValue, MapEntryExpr, MapExpr, StructExpr,
};

use crate::model::cel::TYPE_NAME;
use crate::model::cel::ast::{parts, parts_mut};
use crate::model::cel::check::{Declared, is_outside_of_quotes};
use crate::model::cel::types::type_of;

/// The root type that a CEL expression may construct. `Object` is the whole object; the types of its fields
/// are named after the field path.
pub(crate) const OBJECT: &str = "Object";
pub(crate) const PATCH: &str = "JSONPatch";

/// Returns the errors in the objects that a CEL expression constructs, each with its offset in the text.
pub(crate) fn problems(text: &str, expr: &IdedExpr, declared: &Declared) -> Vec<(usize, String)> {
    let (mut found, mut from) = (Vec::new(), 0);
    for made in all(expr) {
        let brace = place_of(text, from, &made.type_name, '{');
        from = brace;
        if !declared.makes(&made.type_name) {
            found.push((brace, format!("undeclared reference to '{}' (in container '')", made.type_name)));
        } else if made.type_name == PATCH {
            found.extend(mistyped(text, brace, made, declared));
        }
    }
    found
}

fn mistyped(text: &str, from: usize, made: &StructExpr, declared: &Declared) -> Vec<(usize, String)> {
    let fields = made.entries.iter().filter_map(|entry| match &entry.expr {
        EntryExpr::StructField(field) => Some(field),
        EntryExpr::MapEntry(_) => None,
    });
    let wrong = fields.filter_map(|field| {
        let name = field.field.as_str();
        let wanted = match name {
            "op" | "path" | "from" => "string",
            "value" => return None,
            _ => "",
        };
        let given = type_of(&field.value, declared).filter(|given| given != wanted && given != "dyn")?;
        let why = format!("expected type of field '{name}' is '{wanted}' but provided type is '{given}'");
        Some((place_of(text, from, name, ':'), why))
    });
    wrong.collect()
}

/// Returns all objects that a CEL expression constructs, in source order.
fn all(expr: &IdedExpr) -> Vec<&StructExpr> {
    let own = match &expr.expr {
        Expr::Struct(made) => Some(made),
        _ => None,
    };
    own.into_iter().chain(parts(expr).into_iter().flat_map(all)).collect()
}

/// Returns the offset of `sign` after a name in a CEL expression. The offset is searched in the text, because
/// the parser reports no positions.
fn place_of(text: &str, from: usize, name: &str, sign: char) -> usize {
    let after = |(at, _): (usize, &str)| {
        let rest = &text[at + name.len()..];
        let sign_at = rest.len() - rest.trim_start().len();
        rest[sign_at..].starts_with(sign).then_some(at + name.len() + sign_at)
    };
    let ends = text.match_indices(name).filter(|(at, _)| is_outside_of_quotes(text, *at)).filter_map(after);
    ends.into_iter().find(|at| *at > from || from == 0).unwrap_or_default()
}

pub(crate) fn is_type(name: &str) -> bool {
    matches!(name, OBJECT | PATCH) || name.starts_with("Object.")
}

/// Replaces each object that a CEL expression constructs by a map, which contains the name of the object's
/// type. The error names the first unknown type.
pub(crate) fn as_maps(expr: &mut IdedExpr) -> Result<(), String> {
    parts_mut(expr).into_iter().try_for_each(as_maps)?;
    if let Expr::Struct(made) = &mut expr.expr {
        let StructExpr { type_name, entries } = std::mem::take(made);
        if !is_type(&type_name) {
            return Err(format!("undeclared reference to '{type_name}' (in container '')"));
        }
        let text =
            |text: &str| IdedExpr { id: expr.id, expr: Expr::Literal(LiteralValue::String(text.into())) };
        let entry = |key: IdedExpr, value: IdedExpr, optional: bool| IdedEntryExpr {
            id: expr.id,
            expr: EntryExpr::MapEntry(MapEntryExpr { key, value, optional }),
        };
        let name = entry(text(TYPE_NAME), text(&type_name), false);
        let fields = entries.into_iter().filter_map(|field| match field.expr {
            EntryExpr::StructField(field) => Some(entry(text(&field.field), field.value, field.optional)),
            EntryExpr::MapEntry(_) => None,
        });
        expr.expr = Expr::Map(MapExpr { entries: std::iter::once(name).chain(fields).collect() });
    }
    Ok(())
}
