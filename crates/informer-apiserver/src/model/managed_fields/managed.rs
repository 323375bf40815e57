//! The field managers of an object and their fields, as stored in `metadata.managedFields`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::element::Element;
use super::set::Set;
use super::wire::push_quoted;

/// Maximum number of managers with operation `Update`. As in kube-apiserver, the oldest ones beyond this
/// number are merged.
const MAX_UPDATERS: usize = 10;
/// The name of the manager into which the oldest managers are merged.
const ANCIENT_CHANGES: &str = "ancient-changes";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ManagedFieldsOperation {
    Apply,
    Update,
}

impl ManagedFieldsOperation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ManagerId {
    pub(crate) manager: String,
    pub(crate) operation: ManagedFieldsOperation,
    /// The API version of an update. It is empty for `Apply`, because an applier is the same manager in all
    /// versions.
    pub(crate) api_version: String,
    pub(crate) subresource: String,
}

impl ManagerId {
    /// Encodes `managedFields` with this manager as the only entry. `fields` is its encoded field set.
    pub(super) fn text(&self, api_version: &str, time: Option<&str>, fields: &str) -> String {
        const REST: usize = 256;
        let mut text = String::with_capacity(fields.len() + REST);
        text.push('[');
        self.write_text((api_version, time), |out| out.push_str(fields), &mut text);
        text.push(']');
        text
    }

    /// Writes an entry of `managedFields`, with its members in the order of their names.
    fn write_text(
        &self,
        (api_version, time): (&str, Option<&str>),
        fields: impl FnOnce(&mut String),
        out: &mut String,
    ) {
        out.push_str(r#"{"apiVersion":"#);
        push_quoted("", api_version, out);
        out.push_str(r#","fieldsType":"FieldsV1","fieldsV1":"#);
        fields(out);
        out.push_str(r#","manager":"#);
        push_quoted("", &self.manager, out);
        out.extend([r#","operation":""#, self.operation.name(), "\""]);
        for (name, text) in [("subresource", self.subresource.as_str()), ("time", time.unwrap_or_default())] {
            if !text.is_empty() {
                out.extend([",\"", name, "\":"]);
                push_quoted("", text, out);
            }
        }
        out.push('}');
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) set: Set,
    /// The API version to which the paths of the field set belong.
    pub(crate) api_version: String,
    pub(crate) time: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Managed(pub(crate) BTreeMap<ManagerId, Owned>);

impl Managed {
    /// Decodes `managedFields`. Returns `None` if they are malformed.
    pub(crate) fn read(fields: Option<&Value>) -> Option<Self> {
        let mut managed = Self::default();
        let entries = match fields {
            None | Some(Value::Null) => return Some(managed),
            Some(fields) => fields.as_array()?,
        };
        for entry in entries {
            let text = |name: &str| match &entry[name] {
                Value::Null => Some(String::new()),
                value => value.as_str().map(str::to_owned),
            };
            let operation = match text("operation")?.as_str() {
                "Apply" => ManagedFieldsOperation::Apply,
                "Update" => ManagedFieldsOperation::Update,
                _ => return None,
            };
            let api_version = text("apiVersion").filter(|version| !version.is_empty())?;
            if entry["fieldsType"] != "FieldsV1" {
                return None;
            }
            let set = match &entry["fieldsV1"] {
                Value::Null => Set::default(),
                fields => Set::from_json(fields).ok()?,
            };
            let id = ManagerId {
                manager: text("manager")?,
                operation,
                api_version: if operation == ManagedFieldsOperation::Apply {
                    String::new()
                } else {
                    api_version.clone()
                },
                subresource: text("subresource")?,
            };
            let time = text("time")?;
            managed.0.insert(id, Owned { set, api_version, time: Some(time).filter(|t| !t.is_empty()) });
        }
        Some(managed)
    }

    /// Encodes `managedFields`: first the managers with operation `Apply`, then the others by time. Returns
    /// `None` if there are no managers.
    pub(crate) fn write(&self) -> Option<Value> {
        let entries: Vec<Value> = self.entries().into_iter().map(|(id, owned)| owned.write(id)).collect();
        (!entries.is_empty()).then_some(Value::Array(entries))
    }

    /// Returns the JSON of [`write`](Self::write).
    pub(crate) fn text(&self) -> Option<String> {
        let mut text = String::from("[");
        for (id, owned) in self.entries() {
            if text.len() > 1 {
                text.push(',');
            }
            owned.write_text(id, &mut text);
        }
        text.push(']');
        (!self.0.is_empty()).then_some(text)
    }

    fn entries(&self) -> Vec<(&ManagerId, &Owned)> {
        let mut entries: Vec<_> = self.0.iter().collect();
        if entries.len() > 1 {
            entries.sort_by_cached_key(|(id, owned)| {
                (id.operation, owned.seconds(), id.manager.clone(), owned.api_version.clone())
            });
        }
        entries
    }

    /// Returns true if the client resets the managed fields, by sending an empty list or one empty entry.
    pub(crate) fn is_reset(fields: Option<&Value>) -> bool {
        let empty = |value: &Value| match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        match fields {
            Some(Value::Array(entries)) => match &entries[..] {
                [] => true,
                [Value::Object(entry)] => entry.values().all(empty),
                _ => false,
            },
            _ => false,
        }
    }

    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<(i64, ManagerId)> = self
            .0
            .iter()
            .filter(|(id, _)| id.operation == ManagedFieldsOperation::Update)
            .map(|(id, owned)| (owned.seconds(), id.clone()))
            .collect();
        let mut count = updaters.len();
        updaters.sort();
        let mut first: BTreeMap<String, ManagerId> = BTreeMap::new();
        for (_, id) in updaters {
            if count <= MAX_UPDATERS {
                return;
            }
            let Some(version) = self.0.get(&id).map(|owned| owned.api_version.clone()) else { continue };
            let Some(oldest) = first.get(&version) else {
                first.insert(version, id);
                continue;
            };
            let bucket = ManagerId {
                manager: ANCIENT_CHANGES.to_owned(),
                operation: ManagedFieldsOperation::Update,
                api_version: version,
                subresource: String::new(),
            };
            if !self.0.contains_key(&bucket)
                && let Some(owned) = self.0.remove(oldest)
            {
                self.0.insert(bucket.clone(), owned);
            }
            if let (Some(newer), Some(held)) = (self.0.remove(&id), self.0.get_mut(&bucket)) {
                held.set = std::mem::take(&mut held.set).union(&newer.set);
                // Entries are merged in the order of their times, so `newer` has the later time.
                held.time = newer.time;
                count -= 1;
            }
        }
    }

    /// Returns the managers of an object's Scale: all managers of the replicas field, as managers of
    /// `spec.replicas`.
    pub(crate) fn to_scale(&self, path_in: impl Fn(&str) -> Option<Vec<Element>>, scale: &str) -> Self {
        let mut managed = Self::default();
        for (id, owned) in &self.0 {
            if !path_in(&owned.api_version).is_some_and(|path| owned.set.has(&path)) {
                continue;
            }
            let mut id = id.clone();
            if id.operation == ManagedFieldsOperation::Update {
                scale.clone_into(&mut id.api_version);
            }
            let set = Set::of_fields(&[SCALE_REPLICAS]);
            managed.0.insert(id, Owned { set, api_version: scale.to_owned(), time: owned.time.clone() });
        }
        managed
    }

    /// Returns the managers of an object after its Scale was written: the managers of `spec.replicas` get the
    /// replicas field.
    pub(crate) fn with_scale(
        &self,
        mut scale: Self,
        path_in: impl Fn(&str) -> Option<Vec<Element>>,
        version: &str,
    ) -> Self {
        let mut managed = Self::default();
        for (id, owned) in &self.0 {
            let Some(path) = path_in(&owned.api_version) else { continue };
            let mut owned = owned.clone();
            if owned.set.has(&path) && scale.0.remove(id).is_none() {
                let mut taken = Set::default();
                taken.insert(&path);
                owned.set = owned.set.difference(&taken);
            }
            if !owned.set.is_empty() {
                managed.0.insert(id.clone(), owned);
            }
        }
        let replicas = Set::of_fields(&[SCALE_REPLICAS]);
        for (id, owned) in scale.0 {
            let Some(path) = path_in(version).filter(|_| !owned.set.intersection(&replicas).is_empty())
            else {
                continue;
            };
            let mut set = Set::default();
            set.insert(&path);
            // As in kube-apiserver, a new manager has no time, because its time is looked up with a key that
            // contains the Scale's version.
            let time = self.0.get(&id).and_then(|before| before.time.clone());
            managed.0.insert(id, Owned { set, api_version: version.to_owned(), time });
        }
        managed
    }

    pub(crate) fn versions(&self) -> BTreeSet<&str> {
        self.0.values().map(|owned| owned.api_version.as_str()).collect()
    }
}

const SCALE_REPLICAS: &str = "spec.replicas";

impl Owned {
    fn seconds(&self) -> i64 {
        let time = self.time.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
        time.map_or(0, Timestamp::as_second)
    }

    fn write_text(&self, id: &ManagerId, out: &mut String) {
        let time = self.time.as_deref();
        id.write_text((&self.api_version, time), |out| self.set.write_text(out), out);
    }

    fn write(&self, id: &ManagerId) -> Value {
        let mut entry = Map::new();
        entry.insert("manager".into(), id.manager.clone().into());
        entry.insert("operation".into(), id.operation.name().into());
        entry.insert("apiVersion".into(), self.api_version.clone().into());
        if let Some(time) = &self.time {
            entry.insert("time".into(), time.clone().into());
        }
        entry.insert("fieldsType".into(), json!("FieldsV1"));
        entry.insert("fieldsV1".into(), self.set.to_json());
        if !id.subresource.is_empty() {
            entry.insert("subresource".into(), id.subresource.clone().into());
        }
        Value::Object(entry)
    }
}
