//! The names of definitions: within a group each is held by one of them. Who comes later is not served until it is free.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

type Names = Map<String, Value>;

/// The names that the definitions of a group hold.
#[derive(Debug, Default)]
pub(crate) struct Used {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Used {
    /// Adds the names that a definition was given.
    pub(crate) fn add(&mut self, accepted: &Value) {
        let text = |name: &str| accepted[name].as_str().map(str::to_owned);
        self.resources.extend(["plural", "singular"].into_iter().filter_map(text));
        self.resources.extend(short_names(accepted).into_iter().map(str::to_owned));
        self.kinds.extend(["kind", "listKind"].into_iter().filter_map(text));
    }
}

/// Which names a definition gets.
#[derive(Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) accepted: Value,
    /// Reason and message, where it does not get all of them.
    pub(crate) conflict: Option<(&'static str, String)>,
}

/// Decides which of the names that a definition wants it gets, besides those that it has. Of several conflicts the last is told.
pub(crate) fn decide(wanted: &Value, accepted: &Value, used: &Used) -> Decision {
    let mut given = accepted.as_object().cloned().unwrap_or_default();
    let one = |given: &mut Names, name: &str, reason, used: &BTreeSet<String>| {
        let text = |names: &Value| names[name].as_str().unwrap_or_default().to_owned();
        let new = text(wanted);
        if new != text(accepted) && used.contains(&new) {
            return Some((reason, taken(&new)));
        }
        take(given, name, new.into());
        None
    };
    let plural = one(&mut given, "plural", "PluralConflict", &used.resources);
    let singular = one(&mut given, "singular", "SingularConflict", &used.resources);
    let kind = one(&mut given, "kind", "KindConflict", &used.kinds);
    let list = one(&mut given, "listKind", "ListKindConflict", &used.kinds);
    let short = short_conflict(wanted, accepted, used);
    if short.is_none() {
        take(&mut given, "shortNames", wanted["shortNames"].clone());
    }
    take(&mut given, "categories", wanted["categories"].clone());
    let conflict = [plural, singular, short, kind, list].into_iter().flatten().next_back();
    Decision { accepted: Value::Object(given), conflict }
}

/// Short names are given together, or none of them.
fn short_conflict(wanted: &Value, accepted: &Value, used: &Used) -> Option<(&'static str, String)> {
    let (wanted, own) = (short_names(wanted), short_names(accepted));
    if wanted == own {
        return None;
    }
    let mut told: Vec<String> = Vec::new();
    for name in wanted.into_iter().filter(|name| !own.contains(name) && used.resources.contains(*name)) {
        let taken = taken(name);
        if !told.contains(&taken) {
            told.push(taken);
        }
    }
    match told.len() {
        0 => None,
        1 => told.pop().map(|told| ("ShortNamesConflict", told)),
        _ => Some(("ShortNamesConflict", format!("[{}]", told.join(", ")))),
    }
}

fn taken(name: &str) -> String {
    format!("{name:?} is already in use")
}

fn short_names(names: &Value) -> Vec<&str> {
    names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether a definition has the names that it wants.
pub(crate) fn has_all(wanted: &Value, accepted: &Value) -> bool {
    decide(wanted, accepted, &Used::default()).accepted == *accepted
}

/// Plural and kind are always written; what else is empty is not there.
fn take(names: &mut Names, name: &str, value: Value) {
    let empty = match &value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(texts) => texts.is_empty(),
        _ => false,
    };
    match empty && !matches!(name, "plural" | "kind") {
        true => drop(names.remove(name)),
        false => drop(names.insert(name.to_owned(), value)),
    }
}

/// A condition of a definition.
pub(crate) fn condition<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = definition["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|condition| condition["type"] == kind)
}

pub(crate) fn is_true(definition: &Value, kind: &str) -> bool {
    condition(definition, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Sets a condition; its time is that of the last change of its status.
pub(crate) fn set_condition(
    definition: &mut Value,
    kind: &str,
    (status, reason, message): (&str, &str, &str),
    now: &str,
) {
    let before = condition(definition, kind).filter(|before| before["status"] == status);
    let since = before.map_or_else(|| now.into(), |before| before["lastTransitionTime"].clone());
    let new = json!({
        "type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    let conditions = &mut definition["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|condition| condition["type"] == kind) {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

/// What a definition serves: its specification with the names that it was given. `None` while it waits for its first ones.
pub(crate) fn served_spec(definition: &Value) -> Option<Value> {
    let waits = condition(definition, "NamesAccepted").is_some_and(|accepted| accepted["status"] != "True");
    if waits && !is_true(definition, "Established") {
        return None;
    }
    let mut spec = definition.get("spec")?.clone();
    let accepted = &definition["status"]["acceptedNames"];
    // What was written by hand may have none.
    if accepted["plural"].as_str().is_some_and(|plural| !plural.is_empty()) {
        spec["names"] = accepted.clone();
    }
    Some(spec)
}

#[cfg(test)]
mod tests;
