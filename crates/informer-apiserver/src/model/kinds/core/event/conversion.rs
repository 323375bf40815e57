//! Conversion of Events between the core group and `events.k8s.io`, which name their fields differently.
//! Stored Events have the field names of the core group.

use serde_json::{Map, Value};

/// Pairs of Event field names: the name in the core group, and the name in `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];
pub(crate) fn to_core(event: &mut Map<String, Value>) {
    rename(event, NAMES.map(|(core, new)| (new, core)));
    complete(event);
}

/// Adds the Event fields that the core group always writes.
pub(crate) fn complete(event: &mut Map<String, Value>) {
    for name in ["involvedObject", "source"] {
        event.entry(name).or_insert_with(|| Value::Object(Map::new()));
    }
    for name in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        event.entry(name).or_insert(Value::Null);
    }
    for name in ["reportingComponent", "reportingInstance"] {
        event.entry(name).or_insert_with(|| "".into());
    }
}

pub(crate) fn from_core(event: &mut Map<String, Value>) {
    rename(event, NAMES);
    for empty in ["reportingController", "reportingInstance"] {
        if event.get(empty).is_some_and(|value| value == "") {
            event.remove(empty);
        }
    }
}

fn rename(event: &mut Map<String, Value>, names: [(&str, &str); 7]) {
    for (from, to) in names {
        if let Some(value) = event.remove(from) {
            event.insert(to.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests;
