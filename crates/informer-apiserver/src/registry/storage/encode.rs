//! Encodes a JSON object to the bytes that the storage contains.

use std::borrow::Cow;
use std::io::Write;
use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use informer_core::{Labels, ObjectKey};
use serde_json::{Map, Value};

use super::event::LINE_TAIL;
use super::{EventType, Stored};
use crate::model::kinds::KindDefinition;

/// An encoded object with a gap for the resourceVersion, which the commit fills in.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) key: ObjectKey,
    uid: Box<str>,
    terminating: bool,
    labels: Labels,
    owners: Box<[Box<str>]>,
    fields: Box<[Box<str>]>,
    body: Vec<u8>,
    version_at: usize,
    metadata: Range<usize>,
    bare_at: usize,
    /// The object as it was written, if reads return it with other fields.
    written: Option<Box<[u8]>>,
}

/// Initial capacity of the buffer, which is enough for most objects.
const USUAL_BYTES: usize = 4 << 10;

/// The members of `metadata` in the field order of the Go struct. Objects of built-in kinds are encoded in
/// this order.
const METADATA_ORDER: [&str; 14] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Encodes an object of a kind. Its resourceVersion, if it has one, is dropped.
pub(crate) fn draft(kind: &KindDefinition, key: ObjectKey, object: &Map<String, Value>) -> Draft {
    encoded(kind, key, object, None)
}

/// Encodes an object that is stored. Reads of a custom resource drop the fields that its schema does not
/// contain, and apply the defaults. The object is also kept as it was written, because a later schema may
/// contain the fields or have other defaults.
pub(crate) fn draft_stored(kind: &KindDefinition, key: ObjectKey, object: &Map<String, Value>) -> Draft {
    let Some(schema) = &kind.schema else { return draft(kind, key, object) };
    let mut read = object.clone();
    schema.read(&mut read);
    let mut draft = draft(kind, key, &read);
    if read != *object {
        let written = serde_json::to_vec(object).expect("writing JSON to memory does not fail");
        draft.written = Some(written.into());
    }
    draft
}

/// Encodes an object of a built-in kind, with `managers` as the JSON text of its managed fields.
pub(crate) fn draft_managed(
    kind: &KindDefinition,
    key: ObjectKey,
    object: &Map<String, Value>,
    managers: &str,
) -> Draft {
    encoded(kind, key, object, Some(managers))
}

fn encoded(
    kind: &KindDefinition,
    key: ObjectKey,
    object: &Map<String, Value>,
    managers: Option<&str>,
) -> Draft {
    let empty = Map::new();
    let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let capacity = USUAL_BYTES + managers.map_or(0, str::len);
    let mut encoder = Encoder { out: Vec::with_capacity(capacity), version_at: 0, metadata: 0..0 };
    let bare_at = if kind.is_custom() {
        encoder.custom(kind, object, metadata);
        0
    } else {
        encoder.built_in(kind, object, (metadata, managers))
    };
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
    let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
    let owners = metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten();
    Draft {
        key,
        owners: owners.filter_map(|owner| Some(owner["uid"].as_str()?.into())).collect(),
        uid: text("uid").into(),
        terminating: metadata.get("deletionTimestamp").is_some_and(Value::is_string),
        labels: labels.filter_map(|(key, value)| Some((key, value.as_str()?))).collect(),
        fields: kind.selectable.iter().map(|path| selectable(object, path).into()).collect(),
        body: encoder.out,
        version_at: encoder.version_at,
        metadata: encoder.metadata,
        bare_at,
        written: None,
    }
}

/// Returns the value of a field that field selectors support, or an empty string if it is missing.
fn selectable<'a>(object: &'a Map<String, Value>, path: &str) -> Cow<'a, str> {
    let mut segments = path.split('.');
    let first = segments.next().and_then(|segment| object.get(segment));
    let found = segments.try_fold(first, |value, segment| Some(value?.get(segment)));
    match found.flatten() {
        Some(Value::String(text)) => text.as_str().into(),
        // For events, the field `source` in a field selector means `source.component`, as in kube-apiserver.
        Some(Value::Object(source)) if path == "source" => {
            source.get("component").and_then(Value::as_str).unwrap_or_default().into()
        }
        Some(Value::Bool(flag)) => (if *flag { "true" } else { "false" }).into(),
        Some(Value::Number(number)) => number.to_string().into(),
        None if matches!(path, "spec.unschedulable" | "spec.hostNetwork") => "false".into(),
        None if matches!(path, "status.replicas" | "status.successful") => "0".into(),
        _ => "".into(),
    }
}

#[derive(Clone, Copy)]
enum MemberValue<'a> {
    Value(&'a Value),
    Text(&'a str),
}

struct Encoder {
    out: Vec<u8>,
    version_at: usize,
    metadata: Range<usize>,
}

impl Encoder {
    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn value(&mut self, value: &Value) {
        serde_json::to_writer(&mut self.out, value).expect("writing JSON to memory does not fail");
    }

    fn text(&mut self, text: &str) {
        serde_json::to_writer(&mut self.out, text).expect("writing a string to memory does not fail");
    }

    fn member(&mut self, name: &str, value: &Value) {
        self.text(name);
        self.raw(":");
        self.value(value);
    }

    /// Writes an object of a built-in kind: `kind` and `apiVersion`, then the metadata, then the other
    /// members in the given order. Returns the offset after `apiVersion`.
    fn built_in(
        &mut self,
        kind: &KindDefinition,
        object: &Map<String, Value>,
        (metadata, managers): (&Map<String, Value>, Option<&str>),
    ) -> usize {
        write!(self.out, r#"{{"kind":"{}","apiVersion":"{}","#, kind.kind, kind.api_version)
            .expect("writing to memory does not fail");
        let bare_at = self.out.len();
        self.raw(r#""metadata":"#);
        let known =
            METADATA_ORDER.iter().filter_map(|&name| Some((name, MemberValue::Value(metadata.get(name)?))));
        let managers = managers.map(|text| ("managedFields", MemberValue::Text(text)));
        let unknown = metadata.iter().filter(|(name, _)| !METADATA_ORDER.contains(&name.as_str()));
        let unknown = unknown.map(|(name, value)| (name.as_str(), MemberValue::Value(value)));
        self.metadata(known.chain(managers).chain(unknown), |name| METADATA_ORDER[..4].contains(&name));
        for (name, value) in object.iter().filter(|(name, _)| !is_type_or_metadata(name)) {
            self.raw(",");
            self.member(name, value);
        }
        self.raw("}");
        bare_at
    }

    /// Writes a custom resource with all members sorted by name, as Go encodes unstructured objects.
    fn custom(&mut self, kind: &KindDefinition, object: &Map<String, Value>, metadata: &Map<String, Value>) {
        let mut names: Vec<&str> =
            object.keys().map(String::as_str).filter(|name| !is_type_or_metadata(name)).collect();
        names.extend(["apiVersion", "kind", "metadata"]);
        names.sort_unstable();
        let mut sorted: Vec<(&str, MemberValue<'_>)> =
            metadata.iter().map(|(name, value)| (name.as_str(), MemberValue::Value(value))).collect();
        sorted.sort_unstable_by_key(|(name, _)| *name);
        for (index, name) in names.iter().enumerate() {
            self.raw(if index == 0 { "{" } else { "," });
            match *name {
                "apiVersion" => self.member(name, &Value::String(kind.api_version.clone())),
                "kind" => self.member(name, &Value::String(kind.kind.clone())),
                "metadata" => {
                    self.raw(r#""metadata":"#);
                    self.metadata(sorted.iter().copied(), |name| name < "resourceVersion");
                }
                name => self.member(name, &object[name]),
            }
        }
        self.raw("}");
    }

    /// Writes the metadata of an object. The gap for the resourceVersion follows the members for which
    /// `before` is true.
    fn metadata<'a>(
        &mut self,
        members: impl Iterator<Item = (&'a str, MemberValue<'a>)>,
        before: impl Fn(&str) -> bool,
    ) {
        let start = self.out.len();
        self.raw("{");
        let mut placed = false;
        for (name, value) in members.filter(|(name, _)| *name != "resourceVersion") {
            if !placed && !before(name) {
                self.version_gap();
                placed = true;
            }
            if self.out.len() > start + 1 {
                self.raw(",");
            }
            match value {
                MemberValue::Value(value) => self.member(name, value),
                MemberValue::Text(text) => {
                    self.text(name);
                    self.raw(":");
                    self.raw(text);
                }
            }
        }
        if !placed {
            self.version_gap();
        }
        self.raw("}");
        self.metadata = start..self.out.len();
    }

    fn version_gap(&mut self) {
        if self.out.last() != Some(&b'{') {
            self.raw(",");
        }
        self.raw(r#""resourceVersion":""#);
        self.version_at = self.out.len();
        self.raw("\"");
    }
}

fn is_type_or_metadata(name: &str) -> bool {
    matches!(name, "kind" | "apiVersion" | "metadata")
}

impl Draft {
    /// Returns the JSON of the object with a resourceVersion, for the response to a write that stores no
    /// object.
    pub(crate) fn preview(&self, version: u64) -> Bytes {
        let (head, tail) = self.body.split_at(self.version_at);
        [head, version.to_string().as_bytes(), tail].concat().into()
    }

    pub(crate) fn key(&self) -> &str {
        self.key.as_str()
    }

    /// Returns the JSON of the object without a resourceVersion, for the response to a dry run.
    pub(crate) fn unversioned(&self) -> Bytes {
        const NAME: &str = r#""resourceVersion":""#;
        let (mut from, mut to) = (self.version_at - NAME.len(), self.version_at + 1);
        // The resourceVersion is removed together with one of the commas next to it.
        if from > 0 && self.body[from - 1] == b',' {
            from -= 1;
        } else if self.body.get(to) == Some(&b',') {
            to += 1;
        }
        [&self.body[..from], &self.body[to..]].concat().into()
    }

    /// Completes an object that is not committed: the object of a dry run, or one that was converted to
    /// another version.
    pub(crate) fn seal_unstored(self, version: u64, event: EventType) -> Stored {
        self.seal(version, event)
    }

    /// Completes the encoding of a committed object with its resourceVersion and the line of its watch event.
    pub(super) fn seal(self, version: u64, kind: EventType) -> Stored {
        let digits = version.to_string();
        let (head, gap) = (kind.head(), self.version_at);
        let mut line = Vec::with_capacity(head.len() + self.body.len() + digits.len() + LINE_TAIL.len());
        for part in [head, &self.body[..gap], digits.as_bytes(), &self.body[gap..], LINE_TAIL] {
            line.extend_from_slice(part);
        }
        Stored {
            object: head.len()..line.len() - LINE_TAIL.len(),
            line: Bytes::from(line),
            key: self.key,
            version,
            uid: self.uid,
            terminating: self.terminating,
            labels: self.labels,
            owners: self.owners,
            fields: self.fields,
            version_at: gap..gap + digits.len(),
            metadata: self.metadata.start..self.metadata.end + digits.len(),
            bare_at: self.bare_at,
            written: self.written,
            wire: OnceLock::new(),
        }
    }
}
