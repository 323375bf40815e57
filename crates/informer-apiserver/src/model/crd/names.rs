//! Acceptance of CRD names. Within an API group each name belongs to one CRD. A CRD whose names are in use by
//! another is not served until they are free.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

type Names = Map<String, Value>;

/// The names that were accepted for the other CRDs of an API group.
#[derive(Debug, Default)]
pub(crate) struct UsedNames {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl UsedNames {
    pub(crate) fn add(&mut self, accepted: &Value) {
        let text = |name: &str| accepted[name].as_str().map(str::to_owned);
        self.resources.extend(["plural", "singular"].into_iter().filter_map(text));
        self.resources.extend(short_names(accepted).into_iter().map(str::to_owned));
        self.kinds.extend(["kind", "listKind"].into_iter().filter_map(text));
    }
}

#[derive(Debug, PartialEq)]
pub(crate) struct NamesDecision {
    pub(crate) accepted: Value,
    /// The reason and message of the condition `NamesAccepted` if a requested name is not accepted.
    pub(crate) conflict: Option<(&'static str, String)>,
}

/// Decides which requested names of a CRD are accepted, in addition to those that were accepted before. If
/// there are several conflicts, the last one is reported.
pub(crate) fn decide(wanted: &Value, accepted: &Value, used: &UsedNames) -> NamesDecision {
    let mut given = accepted.as_object().cloned().unwrap_or_default();
    let one = |given: &mut Names, name: &str, reason, used: &BTreeSet<String>| {
        let text = |names: &Value| names[name].as_str().unwrap_or_default().to_owned();
        let new = text(wanted);
        if new != text(accepted) && used.contains(&new) {
            return Some((reason, conflict_message(&new)));
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
    NamesDecision { accepted: Value::Object(given), conflict }
}

/// The short names are accepted all together or not at all.
fn short_conflict(wanted: &Value, accepted: &Value, used: &UsedNames) -> Option<(&'static str, String)> {
    let (wanted, own) = (short_names(wanted), short_names(accepted));
    if wanted == own {
        return None;
    }
    let mut conflicts: Vec<String> = Vec::new();
    for name in wanted.into_iter().filter(|name| !own.contains(name) && used.resources.contains(*name)) {
        let message = conflict_message(name);
        if !conflicts.contains(&message) {
            conflicts.push(message);
        }
    }
    match conflicts.len() {
        0 => None,
        1 => conflicts.pop().map(|conflict| ("ShortNamesConflict", conflict)),
        _ => Some(("ShortNamesConflict", format!("[{}]", conflicts.join(", ")))),
    }
}

fn conflict_message(name: &str) -> String {
    format!("{name:?} is already in use")
}

fn short_names(names: &Value) -> Vec<&str> {
    names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

pub(crate) fn has_all(wanted: &Value, accepted: &Value) -> bool {
    decide(wanted, accepted, &UsedNames::default()).accepted == *accepted
}

/// Sets a name in the accepted names of a CRD. `plural` and `kind` are always written; other names are
/// removed if they are empty.
fn take(names: &mut Names, name: &str, value: Value) {
    let empty = match &value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(texts) => texts.is_empty(),
        _ => false,
    };
    if empty && !matches!(name, "plural" | "kind") {
        drop(names.remove(name))
    } else {
        drop(names.insert(name.to_owned(), value))
    }
}

pub(crate) fn condition<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = definition["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|condition| condition["type"] == kind)
}

pub(crate) fn is_true(definition: &Value, kind: &str) -> bool {
    condition(definition, kind).is_some_and(|condition| condition["status"] == "True")
}

/// The state of a condition of a CRD, without its type and time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConditionState<'a> {
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// Returns true if a CRD has a condition in this state.
pub(crate) fn has_condition(definition: &Value, kind: &str, state: ConditionState<'_>) -> bool {
    condition(definition, kind).is_some_and(|condition| {
        let fields = [("status", state.status), ("reason", state.reason), ("message", state.message)];
        fields.iter().all(|(name, value)| condition[name] == *value)
    })
}

/// Sets a condition in the status of a CRD. Its `lastTransitionTime` changes only if its status changes.
pub(crate) fn set_condition(definition: &mut Value, kind: &str, state: ConditionState<'_>, now: &str) {
    let ConditionState { status, reason, message } = state;
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

/// Returns the spec of a CRD with the accepted names instead of the requested ones, or `None` if no names are
/// accepted yet.
pub(crate) fn served_spec(definition: &Value) -> Option<Value> {
    let waits = condition(definition, "NamesAccepted").is_some_and(|accepted| accepted["status"] != "True");
    if waits && !is_true(definition, "Established") {
        return None;
    }
    let mut spec = definition.get("spec")?.clone();
    let accepted = &definition["status"]["acceptedNames"];
    // A client may have written a CRD status without accepted names.
    if accepted["plural"].as_str().is_some_and(|plural| !plural.is_empty()) {
        spec["names"] = accepted.clone();
    }
    Some(spec)
}

#[cfg(test)]
mod tests;
