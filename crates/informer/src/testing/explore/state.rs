//! The objects on the server after a run, in a form that can be compared between runs.

use std::collections::{BTreeMap, HashMap};

use informer_apiserver::is_volatile;
use serde_json::{Map, Value};

use crate::testing::fields::{differing_fields, is_time, path_segments, remove_path};

/// The maximum number of differences in the message of a failed check.
const MAX_DIFFERENCES: usize = 5;

/// The fields of `metadata` that differ between two runs with the same result, and are removed before the
/// comparison.
const METADATA: [&str; 5] = ["resourceVersion", "uid", "creationTimestamp", "managedFields", "generation"];

/// The fields whose values the server chooses, such as cluster IPs and node ports, or that contain a
/// generation. They are removed before the comparison of two runs.
const CHOSEN: [&str; 5] =
    ["clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort", "observedGeneration"];

/// The objects of a server, by resource, namespace and name. Values that differ between two runs with the
/// same result are removed or replaced: versions, uids, times and random names.
pub(super) type State = BTreeMap<String, Value>;

/// An object from a snapshot of the server, with its resource.
#[derive(Debug, Clone)]
pub(super) struct StoredObject {
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) object: Value,
}

/// A field that the comparison of two runs ignores: its path, and the resource. Without a resource, the field
/// of all resources is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IgnoredField {
    pub(super) resource: Option<String>,
    pub(super) path: Vec<String>,
}

impl IgnoredField {
    /// Parses an ignored field: `status.lastSync` for all resources, or `websites:status.lastSync` for one. A
    /// segment in brackets may contain dots: `metadata.annotations[example.com/checked]`.
    pub(super) fn parse(text: &str) -> Self {
        let (resource, path) = match text.split_once(':') {
            Some((resource, path)) if !resource.contains('[') => (Some(resource.to_owned()), path),
            _ => (None, text),
        };
        Self { resource, path: path_segments(path) }
    }

    fn remove(&self, resource: &str, object: &mut Value) {
        if self.resource.as_deref().is_some_and(|only| only != resource) {
            return;
        }
        remove_path(object, &self.path);
    }
}

/// Converts the objects of a server to a state that can be compared with that of another run. The fields in
/// `ignored` are left out.
pub(super) fn normalize(objects: Vec<StoredObject>, ignored: &[IgnoredField]) -> State {
    let objects: Vec<StoredObject> =
        objects.into_iter().filter(|stored| !is_volatile(&stored.group, &stored.resource)).collect();
    let aliases: HashMap<String, String> = objects.iter().flat_map(aliases).collect();
    let mut unordered: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for StoredObject { resource, mut object, .. } in objects {
        ignored.iter().for_each(|field| field.remove(&resource, &mut object));
        let key = key(&resource, &object);
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            METADATA.iter().for_each(|field| drop(metadata.remove(*field)));
            forget_missing_owners(metadata, &aliases);
        }
        replace(&mut object, &aliases);
        unordered.entry(key).or_default().push(object);
    }
    let mut state = State::new();
    for (key, mut objects) in unordered {
        // Objects with generated names get equal keys, because the random part of the name is removed. They
        // are sorted by their content, so that their order does not depend on the random names.
        objects.sort_by_cached_key(Value::to_string);
        for (index, object) in objects.into_iter().enumerate() {
            let key = if index == 0 { key.clone() } else { format!("{key} #{}", index + 1) };
            state.insert(key, object);
        }
    }
    state
}

/// Returns the keys of the objects that have a deletion timestamp but still exist. After the last fault there
/// must be none.
pub(super) fn terminating(state: &State) -> Vec<&str> {
    let deleted = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
    state.iter().filter(|(_, object)| deleted(object)).map(|(key, _)| key.as_str()).collect()
}

/// Lists the differences between the state of a run with faults and that of the run without faults.
pub(super) fn differences(reference: &State, state: &State) -> Vec<String> {
    let mut found = missing_or_changed(reference, state, "without faults");
    let unexpected = state.keys().filter(|key| !reference.contains_key(*key));
    found.extend(unexpected.map(|key| format!("{key} exists, without faults it does not")));
    shortened(found)
}

/// Lists the objects of a program that the state after its upgrade lacks, or has with another content.
pub(super) fn not_upgraded(next_alone: &State, state: &State) -> Vec<String> {
    shortened(missing_or_changed(next_alone, state, "with the new program alone"))
}

fn missing_or_changed(reference: &State, state: &State, run: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (key, expected) in reference {
        match state.get(key) {
            None => found.push(format!("{key} is missing")),
            Some(actual) => compare(key, (expected, actual), run, &mut found),
        }
    }
    found
}

fn shortened(mut found: Vec<String>) -> Vec<String> {
    let more = found.len().saturating_sub(MAX_DIFFERENCES);
    found.truncate(MAX_DIFFERENCES);
    if more > 0 {
        found.push(format!("{more} more differences"));
    }
    found
}

fn compare(key: &str, (expected, actual): (&Value, &Value), run: &str, found: &mut Vec<String>) {
    let show = |value: &Value| if value.is_null() { "not set".to_owned() } else { value.to_string() };
    differing_fields("", expected, actual, &mut |path, expected, actual| {
        found.push(format!("{key}: {path} is {}, {run} {}", show(actual), show(expected)));
    });
}

/// Returns the random strings of an object, its uid and a generated name, each with the string that replaces
/// it in the compared state. References to the object contain the same strings.
fn aliases(stored: &StoredObject) -> Vec<(String, String)> {
    let metadata = &stored.object["metadata"];
    let key = key(&stored.resource, &stored.object);
    let uid = metadata["uid"].as_str().map(|uid| (uid.to_owned(), format!("uid of {key}")));
    let name = metadata["name"].as_str().zip(generated_prefix(&stored.object));
    let name = name.map(|(name, prefix)| (name.to_owned(), format!("{prefix}*")));
    uid.into_iter().chain(name).collect()
}

fn generated_prefix(object: &Value) -> Option<&str> {
    let metadata = &object["metadata"];
    let prefix = metadata["generateName"].as_str().filter(|prefix| !prefix.is_empty())?;
    metadata["name"].as_str().filter(|name| name.starts_with(prefix)).map(|_| prefix)
}

fn key(resource: &str, object: &Value) -> String {
    let metadata = &object["metadata"];
    let name = match generated_prefix(object) {
        Some(prefix) => format!("{prefix}*"),
        None => metadata["name"].as_str().unwrap_or_default().to_owned(),
    };
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{resource} {namespace}/{name}"),
        None => format!("{resource} {name}"),
    }
}

fn forget_missing_owners(metadata: &mut Map<String, Value>, aliases: &HashMap<String, String>) {
    for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
        if owner["uid"].as_str().is_some_and(|uid| !aliases.contains_key(uid)) {
            owner["uid"] = "uid of a deleted object".into();
        }
    }
}

fn replace(value: &mut Value, aliases: &HashMap<String, String>) {
    match value {
        Value::String(text) if is_time(text) => "(time)".clone_into(text),
        Value::String(text) => {
            if let Some(alias) = aliases.get(text.as_str()) {
                text.clone_from(alias);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, aliases)),
        Value::Object(fields) => {
            CHOSEN.iter().for_each(|field| drop(fields.remove(*field)));
            fields.values_mut().for_each(|field| replace(field, aliases));
        }
        _ => {}
    }
}
