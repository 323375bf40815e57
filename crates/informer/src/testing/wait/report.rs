//! Builds the message of a failed wait: the expected and the current state of the object, its last changes,
//! and the last events and requests.

use std::fmt::{self, Write as _};

use informer_apiserver::{ObjectChange, RequestRecord, Verb};
use informer_core::Gvr;
use serde_json::Value;

use super::Wait;
use crate::testing::fields::differing_fields;
use crate::testing::matcher::{shown_value, truncated};

/// The maximum number of lines of the object's YAML in the message of a failed wait.
const MAX_OBJECT_LINES: usize = 80;

/// The maximum number of changes of the object, and of changed fields in each change, in the message of a
/// failed wait.
const MAX_CHANGES: usize = 8;
const MAX_FIELDS: usize = 6;

/// The maximum number of Kubernetes events about the object in the message of a failed wait.
const MAX_EVENTS: usize = 8;

/// The maximum number of requests in the message of a failed wait.
const MAX_REQUESTS: usize = 20;

/// If the object is missing, the message of a failed wait has at most `MAX_SIMILAR` keys that are similar to
/// its key. At most `MAX_COMPARED` existing objects are compared with it.
const MAX_SIMILAR: usize = 5;
const MAX_COMPARED: usize = 1000;

impl Wait {
    /// Returns the message of a failed wait. `operation` is its first words, such as `wait for`; `headline`
    /// states how and when the wait failed, and `problem` is the difference from the expected state.
    pub(super) fn report(&self, operation: &str, headline: &str, problem: &str) -> String {
        let mut text = String::new();
        // The error is ignored, because writing to a `String` cannot fail.
        let _ = self.write(&mut text, operation, headline, problem);
        text
    }

    fn write(&self, out: &mut String, operation: &str, headline: &str, problem: &str) -> fmt::Result {
        writeln!(out, "{operation} {} {}: {headline}, at {}", self.kind, self.key, self.caller)?;
        writeln!(out, "  expected: {}", self.expected)?;
        writeln!(out, "  problem: {problem}")?;
        match self.current() {
            Ok(Some(object)) => write_object(out, object)?,
            Ok(None) => self.write_similar(out)?,
            Err(_) => return Ok(()),
        }
        let server = self.server.server();
        let changes = server.changes(&self.gvr, self.namespace(), self.key.name(), MAX_CHANGES);
        write_section(out, "last changes of the object", &changes.unwrap_or_default(), write_change)?;
        write_section(out, "last events about it", &self.events(), write_event)?;
        let requests = self.requests();
        write_section(out, "last requests, without Leases and Events", &requests, write_request)
    }

    fn write_similar(&self, out: &mut String) -> fmt::Result {
        let versions = self.server.server().versions(&self.gvr).unwrap_or_default();
        let wanted = self.key.as_str();
        let compared = versions.iter().take(MAX_COMPARED);
        let mut keys: Vec<&str> = compared.map(|(key, _)| key.as_str()).collect();
        keys.sort_by_cached_key(|key| edit_distance(wanted, key));
        if keys.is_empty() {
            return writeln!(out, "  objects: there is no {}", self.kind);
        }
        let similar = &keys[..keys.len().min(MAX_SIMILAR)];
        writeln!(out, "  objects: {} of {} {}", similar.join(", "), versions.len(), self.gvr.resource)
    }

    /// Returns the last Kubernetes events about the object, oldest first.
    fn events(&self) -> Vec<Value> {
        let namespace = self.key.namespace().unwrap_or("default");
        let events = self.server.server().list(&Gvr::new("", "v1", "events"), namespace);
        let is_about = |event: &Value| {
            let object = &event["involvedObject"];
            object["kind"] == *self.kind && object["name"] == *self.key.name()
        };
        let mut events: Vec<Value> = events.unwrap_or_default().into_iter().filter(is_about).collect();
        let version = |event: &Value| -> u64 {
            event["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
        };
        events.sort_by_key(version);
        events.split_off(events.len().saturating_sub(MAX_EVENTS))
    }

    /// Returns the last requests that the server received, oldest first, without those for Leases and Events
    /// unless the wait is for such an object. Leases are renewed so often that they would hide the other
    /// requests.
    fn requests(&self) -> Vec<RequestRecord> {
        let hidden = |request: &RequestRecord| {
            let resource = request.gvr.as_ref().map_or("", |gvr| &*gvr.resource);
            matches!(resource, "leases" | "events") && resource != self.gvr.resource
        };
        let all = self.server.server().requests();
        let mut shown: Vec<RequestRecord> = all.into_iter().filter(|request| !hidden(request)).collect();
        shown.split_off(shown.len().saturating_sub(MAX_REQUESTS))
    }
}

fn write_section<T>(
    out: &mut String,
    title: &str,
    items: &[T],
    write: fn(&mut String, &T) -> fmt::Result,
) -> fmt::Result {
    if items.is_empty() {
        return writeln!(out, "  {title}: none");
    }
    writeln!(out, "  {title}:")?;
    items.iter().try_for_each(|item| {
        out.push_str("    ");
        write(out, item)?;
        writeln!(out)
    })
}

fn write_object(out: &mut String, mut object: Value) -> fmt::Result {
    forget_managed_fields(&mut object);
    let yaml = serde_norway::to_string(&object).unwrap_or_else(|_| object.to_string());
    writeln!(out, "  object:")?;
    let lines = yaml.lines().count();
    yaml.lines().take(MAX_OBJECT_LINES).try_for_each(|line| writeln!(out, "    {line}"))?;
    match lines.checked_sub(MAX_OBJECT_LINES) {
        Some(more) if more > 0 => writeln!(out, "    ... {more} more lines"),
        _ => Ok(()),
    }
}

fn write_change(out: &mut String, change: &ObjectChange) -> fmt::Result {
    write!(out, "resourceVersion {}: ", change.version)?;
    let (Some(before), Some(after)) = (&change.before, &change.after) else {
        return write!(out, "{}", if change.after.is_some() { "created" } else { "deleted" });
    };
    let [mut before, mut after] = [before.clone(), after.clone()];
    for object in [&mut before, &mut after] {
        forget_managed_fields(object);
        object["metadata"]["resourceVersion"] = Value::Null;
    }
    let mut fields = Vec::new();
    differing_fields("", &before, &after, &mut |path, before, after| {
        fields.push(format!("{path} {} -> {}", shown_value(before), shown_value(after)));
    });
    let more = fields.len().saturating_sub(MAX_FIELDS);
    fields.truncate(MAX_FIELDS);
    if more > 0 {
        fields.push(format!("{more} more fields"));
    }
    if fields.is_empty() {
        fields.push("managed fields".to_owned());
    }
    write!(out, "updated {}", fields.join("; "))
}

fn forget_managed_fields(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
}

fn write_event(out: &mut String, event: &Value) -> fmt::Result {
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    let count = event["count"].as_u64().or_else(|| event["series"]["count"].as_u64()).unwrap_or(1);
    write!(out, "{} {}: {}", text("type"), text("reason"), truncated(text("message")))?;
    if count > 1 { write!(out, " ({count} times)") } else { Ok(()) }
}

fn write_request(out: &mut String, request: &RequestRecord) -> fmt::Result {
    let verb = match request.verb {
        Verb::Patch if request.is_apply => "apply",
        verb => verb.name(),
    };
    let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
    let target = truncated(&format!("{}{query}", request.path));
    write!(out, "{:>9.3} s  {verb} {target} -> ", request.at.as_secs_f64())?;
    match request.status() {
        Some(status) => write!(out, "{status}"),
        None => write!(out, "no response"),
    }
}

/// Returns the Levenshtein distance of two object keys: the number of inserted, removed and replaced
/// characters. The message of a failed wait suggests the keys with the smallest distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::edit_distance;

    #[test]
    fn distance_counts_inserted_removed_and_replaced_characters() {
        for (a, b, distance) in [("", "", 0), ("web", "web", 0), ("web", "", 3), ("", "web", 3)] {
            assert_eq!(edit_distance(a, b), distance, "{a:?} {b:?}");
        }
        assert_eq!(edit_distance("default/shop", "default/shops"), 1);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }
}
