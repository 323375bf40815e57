//! Updates `managedFields` in a write. The rules are implemented in
//! [`managed_fields`](crate::model::managed_fields).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::admission::Scope;
use crate::model::json::Object;
use crate::model::json::parse;
use crate::model::kinds::{KindDefinition, Traits, convert_version};
use crate::model::managed_fields::{
    Convert, Failed, Managed, ManagedFieldsOperation, ManagerId, Set, Type, Updater, validate,
};
use crate::model::object_meta::{FIELDS, metadata_of, metadata_of_mut, set_fields, take_fields};
use crate::model::typed::{form, zero};
use crate::model::write_options::{FieldValidation, WriteMode};
use crate::pipeline::Pipeline;
use crate::registry::Resource;
use crate::registry::conversion::Conversions;
use crate::registry::storage::Stored;

const SERVER_MANAGER: &str = "kube-apiserver";
/// The field manager that gets the fields of an object without managed fields at its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The field manager of requests without a manager name.
const UNKNOWN_MANAGER: &str = "unknown";

#[derive(Debug, Clone, Copy)]
pub(crate) struct ManagedWrite<'a> {
    /// `None`: `managedFields` stays unchanged.
    pub(crate) manager: Option<&'a str>,
    pub(crate) mode: WriteMode,
    /// Results of a CRD's conversion webhook. If absent, objects are not converted between versions.
    pub(crate) conversion: Option<&'a Conversions>,
    /// The stored object already has the form that Go encodes.
    pub(crate) normalized: bool,
}

impl<'a> ManagedWrite<'a> {
    /// Returns the field manager of a write. Objects of this write were [normalized](Pipeline::read_back).
    pub(crate) fn of(scope: Scope<'a>, mode: WriteMode) -> Self {
        let normalized = scope.validation != FieldValidation::Unchecked;
        Self { manager: scope.manager, mode, conversion: None, normalized }
    }
}

pub(crate) struct FieldTracker<'a> {
    shared: &'a Pipeline,
    kind: &'a KindDefinition,
    mode: WriteMode,
    /// The other API versions of the kind that have field sets in `managedFields`.
    others: Vec<Arc<Resource>>,
    conversion: Option<&'a Conversions>,
    normalized: bool,
    ignored: Set,
    now: String,
}

impl<'a> FieldTracker<'a> {
    pub(crate) fn new(shared: &'a Pipeline, kind: &'a KindDefinition, write: ManagedWrite<'a>) -> Self {
        let ManagedWrite { mode, conversion, normalized, .. } = write;
        let ignored = Set::of_fields(reset_fields(kind, mode));
        Self { shared, kind, mode, others: Vec::new(), conversion, normalized, ignored, now: shared.now() }
    }

    /// Converts an object to another version of its kind. As in kube-apiserver, the object must conform to
    /// the schema of that version.
    pub(crate) fn convert(&self, version: &str, object: &Value) -> Result<Value, Failed> {
        let other = self.others.iter().find(|other| other.kind.api_version == version);
        let (Some(other), Value::Object(members)) = (other, object) else { return Ok(object.clone()) };
        if version == self.kind.api_version {
            return Ok(object.clone());
        }
        if !other.kind.is_custom() {
            let mut object = members.clone();
            convert_version(&other.kind, &mut object);
            return Ok(Value::Object(object));
        }
        let converted = match (&other.converter, self.conversion) {
            (Some(_), Some(conversions)) => conversions.get(other, members),
            _ => {
                let mut object = members.clone();
                object.insert("apiVersion".into(), version.into());
                Ok(object)
            }
        };
        let converted = Value::Object(converted.map_err(|error| Failed::Type(error.message().to_owned()))?);
        match validate(self.shared.field_type(&other.kind), &converted, false) {
            Some(why) => Err(Failed::Type(why)),
            None => Ok(converted),
        }
    }

    /// Looks up the API versions of the kind that have field sets in `managedFields`.
    pub(crate) fn with_versions_of(mut self, managed: &Managed) -> Self {
        let registry = self.shared.registry.read();
        let others = managed.versions().into_iter().filter(|version| *version != self.kind.api_version);
        let known = |version: &str| registry.defined(&self.kind.gvr, version, &self.kind.kind);
        self.others = others.filter_map(known).collect();
        drop(registry);
        self
    }

    pub(crate) fn updater<'s>(&'s self, convert: Convert<'s>) -> Updater<'s> {
        let others = self.others.iter().map(|resource| &resource.kind);
        let types: BTreeMap<&str, Type<'_>> = others
            .chain([self.kind])
            .map(|kind| (kind.api_version.as_str(), self.shared.field_type(kind)))
            .collect();
        let convert = Some(convert);
        Updater { version: &self.kind.api_version, types, convert, ignored: &self.ignored, now: &self.now }
    }

    pub(crate) fn id(&self, manager: &str, operation: ManagedFieldsOperation) -> ManagerId {
        let api_version = match operation {
            ManagedFieldsOperation::Update => self.kind.api_version.clone(),
            ManagedFieldsOperation::Apply => String::new(),
        };
        let manager = if manager.is_empty() { UNKNOWN_MANAGER } else { manager };
        ManagerId {
            manager: manager.to_owned(),
            operation,
            api_version,
            subresource: subresource(self.mode).to_owned(),
        }
    }

    /// Returns the empty object with which a new object is compared.
    pub(crate) fn empty(&self) -> Object {
        let mut object = match self.shared.message(self.kind) {
            Some(message) => zero(message),
            None => Map::new(),
        };
        object.insert("apiVersion".into(), self.kind.api_version.clone().into());
        object.insert("kind".into(), self.kind.kind.clone().into());
        object
    }

    /// Returns the stored object for the comparison with a new one: normalized, and without managed fields.
    pub(crate) fn live(&self, object: &Object) -> Value {
        let mut object = without_fields(object);
        if let Some(message) = self.shared.message(self.kind).filter(|_| !self.normalized) {
            form(message, &mut object);
        }
        Value::Object(object)
    }

    pub(crate) fn before_first_apply(&self, live: &Value, managed: Managed) -> Managed {
        if !managed.0.is_empty() {
            return managed;
        }
        let id = self.id(BEFORE_FIRST_APPLY, ManagedFieldsOperation::Update);
        let empty = Value::Object(self.empty());
        let convert = |version: &str, object: &Value| self.convert(version, object);
        self.updater(&convert).update(&empty, live, Managed::default(), &id).unwrap_or_default()
    }

    /// Returns the managed fields of a new object as JSON text, or `None` if the caller must use
    /// [`update`](Self::update).
    fn created_text(&self, empty: &Value, new: &mut Object, manager: &str) -> Option<String> {
        let id = self.id(manager, ManagedFieldsOperation::Update);
        let value = Value::Object(std::mem::take(new));
        let convert = |version: &str, object: &Value| self.convert(version, object);
        let text = self.updater(&convert).created_text(empty, &value, &id);
        if let Value::Object(object) = value {
            *new = object;
        }
        text
    }

    fn update(self, live: &Value, new: &mut Object, managed: Managed, manager: &str) -> Managed {
        let tracker = self.with_versions_of(&managed);
        let id = tracker.id(manager, ManagedFieldsOperation::Update);
        let value = Value::Object(std::mem::take(new));
        // If the objects cannot be compared, the managed fields are dropped.
        let convert = |version: &str, object: &Value| tracker.convert(version, object);
        let managed = tracker.updater(&convert).update(live, &value, managed, &id).unwrap_or_default();
        if let Value::Object(object) = value {
            *new = object;
        }
        managed
    }
}

impl Pipeline {
    pub(crate) fn set_managers_of_new(
        &self,
        kind: &KindDefinition,
        object: &mut Object,
        write: ManagedWrite<'_>,
    ) {
        if let Some(managed) = self.managers_of_new(kind, object, write) {
            set_managed_fields(object, &managed);
        }
    }

    /// Returns the managed fields of a new object, and removes those that the client sent. Returns `None` if
    /// managed fields are not tracked for this write.
    pub(crate) fn managers_of_new(
        &self,
        kind: &KindDefinition,
        object: &mut Object,
        write: ManagedWrite<'_>,
    ) -> Option<Managed> {
        let manager = write.manager?;
        let given = take_given_managers(object);
        let tracker = FieldTracker::new(self, kind, write);
        let empty = Value::Object(tracker.empty());
        Some(tracker.update(&empty, object, given, manager))
    }

    /// Returns the managed fields like [`managers_of_new`](Self::managers_of_new), but as the text that
    /// [`Managed::text`] writes. Returns `None` also if there are no managed fields.
    pub(crate) fn managers_text_of_new(
        &self,
        kind: &KindDefinition,
        object: &mut Object,
        write: ManagedWrite<'_>,
    ) -> Option<String> {
        let manager = write.manager?;
        let given = take_given_managers(object);
        let tracker = FieldTracker::new(self, kind, write);
        let empty = Value::Object(tracker.empty());
        let text = given.0.is_empty().then(|| tracker.created_text(&empty, object, manager)).flatten();
        text.or_else(|| tracker.update(&empty, object, given, manager).text())
    }

    /// Sets the managed fields after the server itself has written a status.
    pub(crate) fn update_status_managers(
        &self,
        resource: &Arc<Resource>,
        current: &Arc<Stored>,
        object: &mut Object,
    ) {
        let scope = Scope { manager: Some(SERVER_MANAGER), ..Scope::new(resource, None) };
        let shown = scope.present_without_webhook(current);
        if let Value::Object(old) = parse(shown.as_slice()) {
            self.update_managers(scope.kind(), &old, object, ManagedWrite::of(scope, WriteMode::Status));
        }
    }

    /// Sets the managed fields of a review, which the server returns without storing it.
    pub(crate) fn set_review_managers(
        &self,
        kind: &KindDefinition,
        review: &mut Value,
        manager: Option<&str>,
    ) {
        if let Value::Object(object) = review
            && object.get("metadata").is_none_or(Value::is_object)
        {
            let write = ManagedWrite { manager, mode: WriteMode::Whole, conversion: None, normalized: false };
            self.set_managers_of_new(kind, object, write);
        }
    }

    /// Sets the managed fields of a new object. Returns their text if the object is stored without them, see
    /// [`Scope::stores_managers_as_text`].
    pub(crate) async fn manage_created(
        &self,
        scope: Scope<'_>,
        object: &mut Object,
        mode: WriteMode,
    ) -> Option<String> {
        let (kind, write) = (scope.kind(), ManagedWrite::of(scope, mode));
        if scope.stores_managers_as_text() {
            return self.managers_text_of_new(kind, object, write);
        }
        if !scope.converts() {
            self.set_managers_of_new(kind, object, write);
            return None;
        }
        let new = &*object;
        let managed = self.converting(|conversions| {
            let mut object = new.clone();
            let write = ManagedWrite { conversion: Some(conversions), ..ManagedWrite::of(scope, mode) };
            self.set_managers_of_new(kind, &mut object, write);
            object
        });
        *object = managed.await;
        None
    }

    pub(crate) async fn manage_updated(
        &self,
        scope: Scope<'_>,
        old: &Value,
        object: &mut Object,
        mode: WriteMode,
    ) {
        let Value::Object(old) = old else { return };
        let kind = scope.kind();
        if scope.manager.is_none() || !scope.converts() {
            return self.update_managers(kind, old, object, ManagedWrite::of(scope, mode));
        }
        let new = &*object;
        let managed = self.converting(|conversions| {
            let mut object = new.clone();
            let write = ManagedWrite { conversion: Some(conversions), ..ManagedWrite::of(scope, mode) };
            self.update_managers(kind, old, &mut object, write);
            object
        });
        *object = managed.await;
    }

    pub(crate) fn update_managers(
        &self,
        kind: &KindDefinition,
        old: &Object,
        object: &mut Object,
        write: ManagedWrite<'_>,
    ) {
        let ManagedWrite { manager: Some(manager), mode, .. } = write else { return };
        let tracker = FieldTracker::new(self, kind, write);
        let given = take_fields(object);
        let held = managed_fields_of(old);
        let whole = subresource(mode).is_empty();
        if held.is_none() && given.is_none() || whole && Managed::is_reset(given.as_ref()) {
            return;
        }
        // Managed fields that the client sends are used only in writes to the main resource.
        let given = given.filter(|_| whole).and_then(|given| Managed::read(Some(&given)));
        let managed = match given {
            Some(given) if !given.0.is_empty() => given,
            _ => Managed::read(held).unwrap_or_default(),
        };
        if !managed.0.is_empty() {
            let live = tracker.live(old);
            let managed = tracker.update(&live, object, managed, manager);
            set_managed_fields(object, &managed);
        }
    }
}

/// Removes the deletion metadata and the managed fields that a client sent from a new object. Returns these
/// managed fields.
fn take_given_managers(object: &mut Object) -> Managed {
    let given = take_fields(object);
    for wiped in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        metadata_of_mut(object).remove(wiped);
    }
    if Managed::is_reset(given.as_ref()) {
        Managed::default()
    } else {
        Managed::read(given.as_ref()).unwrap_or_default()
    }
}

pub(crate) fn managed_fields_of(object: &Object) -> Option<&Value> {
    metadata_of(object)?.get(FIELDS)
}

/// Copies an object without its managed fields, which often need as much memory as all other fields.
fn without_fields(object: &Object) -> Object {
    let member = |(name, value): (&String, &Value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let kept = metadata.iter().filter(|(name, _)| *name != FIELDS);
            (name.clone(), kept.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        value => (name.clone(), value.clone()),
    };
    object.iter().map(member).collect()
}

pub(crate) fn set_managed_fields(object: &mut Object, managed: &Managed) {
    set_fields(object, managed.write());
}

/// Returns true if two values of `managedFields` are equal except for their timestamps.
pub(crate) fn are_same(old: Option<&Value>, new: Option<&Value>) -> bool {
    let same = |left: &Value, right: &Value| match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let [left, right] = [left, right].map(|entry| entry.iter().filter(|(name, _)| *name != "time"));
            left.eq(right)
        }
        (left, right) => left == right,
    };
    match (old, new) {
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (old, new) => old == new,
    }
}

fn subresource(mode: WriteMode) -> &'static str {
    match mode {
        WriteMode::Main | WriteMode::Whole | WriteMode::Raw => "",
        WriteMode::Status => "status",
        WriteMode::Finalize => "finalize",
        WriteMode::Scale => "scale",
        WriteMode::EphemeralContainers => "ephemeralcontainers",
        WriteMode::Resize => "resize",
        WriteMode::Approval => "approval",
    }
}

/// Returns the fields that the server resets in a write of this kind, so that no manager owns them.
fn reset_fields(kind: &KindDefinition, mode: WriteMode) -> &'static [&'static str] {
    if let Some(strategy) = kind.subresource_strategy(mode) {
        return strategy.reset_fields;
    }
    match mode {
        WriteMode::Main if !kind.descriptor.reset_fields.is_empty() => kind.descriptor.reset_fields,
        WriteMode::Main if kind.traits.has(Traits::STATUS) => &["status"],
        WriteMode::Finalize => &["status"],
        WriteMode::Status => kind.descriptor.status_reset_fields,
        _ => &[],
    }
}
