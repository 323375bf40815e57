//! Changes of field ownership by updates and applies.

use std::collections::BTreeMap;

use serde_json::Value;

use super::compare::{Comparison, compare};
use super::created::{self, Output};
use super::element::{Path, same};
use super::managed::{Managed, ManagedFieldsOperation, ManagerId, Owned};
use super::merge::merge;
use super::remove::remove;
use super::set::Set;
use super::types::Type;
use super::walk::{TypeError, error_message, fields_of, reconcile, validate, with_named};

/// Fields that no manager owns, because the server sets them or because they identify the object.
pub(super) const UNOWNED: [&str; 12] = [
    "apiVersion",
    "kind",
    "metadata",
    "metadata.name",
    "metadata.namespace",
    "metadata.creationTimestamp",
    "metadata.selfLink",
    "metadata.uid",
    "metadata.clusterName",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
];

/// Initial capacity in bytes of the buffer for the encoded fields of a new object.
const CREATED_BYTES: usize = 2048;

pub(crate) type Convert<'a> = &'a dyn Fn(&str, &Value) -> Result<Value, Failed>;

/// Computes the managed fields after writes to objects of one kind in one API version.
pub(crate) struct Updater<'a> {
    pub(crate) version: &'a str,
    /// The object type in each served API version.
    pub(crate) types: BTreeMap<&'a str, Type<'a>>,
    /// `None` if objects are the same in all versions.
    pub(crate) convert: Option<Convert<'a>>,
    /// Fields that the server resets in this request, so that no manager owns them.
    pub(crate) ignored: &'a Set,
    pub(crate) now: &'a str,
}

/// The manager of an apply request, and whether it takes over fields of other managers (`force`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Applier<'a> {
    pub(crate) id: &'a ManagerId,
    pub(crate) force: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) manager: ManagerId,
    pub(crate) path: Path,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failed {
    Conflicts(Vec<Conflict>),
    /// A value has the wrong type; the message is that of kube-apiserver.
    Type(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Applied {
    /// The new object; `None` if the apply does not change it.
    pub(crate) object: Option<Value>,
    pub(crate) managed: Managed,
}

impl From<TypeError> for Failed {
    fn from(error: TypeError) -> Self {
        Self::Type(error_message(&[error]).unwrap_or_default())
    }
}

impl<'a> Updater<'a> {
    fn own_type(&self) -> Type<'a> {
        self.types.get(self.version).copied().unwrap_or(Type::Free)
    }

    pub(crate) fn update(
        &self,
        live: &Value,
        new: &Value,
        managed: Managed,
        id: &ManagerId,
    ) -> Result<Managed, Failed> {
        let managed = self.reconciled(managed);
        let (mut managed, changes) = self.reassigned(live, new, managed, None)?;
        let set = changes.added.joined(changes.modified).without_fields(&UNOWNED);
        if !set.is_empty() {
            let before = managed.0.remove(id).map(|owned| owned.set).unwrap_or_default();
            let (set, api_version) = (set.joined(before), self.version.to_owned());
            managed.0.insert(id.clone(), Owned { set, api_version, time: Some(self.now.to_owned()) });
        }
        managed.cap();
        Ok(managed)
    }

    /// Encodes the managers that [`update`](Self::update) would return for a new object, in the format of
    /// [`Managed::text`]. `empty` is an empty object of the same type. Returns `None` if the caller must use
    /// `update` instead.
    pub(crate) fn created_text(&self, empty: &Value, new: &Value, id: &ManagerId) -> Option<String> {
        let mut fields = String::with_capacity(CREATED_BYTES);
        match created::write(self.own_type(), (empty, new), self.ignored, &mut fields)? {
            Output::Nothing => None,
            Output::Fields => Some(id.text(self.version, Some(self.now), &fields)),
        }
    }

    pub(crate) fn apply(
        &self,
        live: &Value,
        config: &Value,
        managed: Managed,
        applier: Applier<'_>,
    ) -> Result<Applied, Failed> {
        let id = applier.id;
        let of = self.own_type();
        let mut managed = self.reconciled(managed);
        let merged = merge(of, live, config)?;
        let last = managed.0.remove(id);
        let time = last.as_ref().and_then(|last| last.time.clone());
        let set = fields_of(of, config).without(self.ignored);
        let api_version = self.version.to_owned();
        managed.0.insert(id.clone(), Owned { set, api_version, time });
        let new = match last {
            Some(last) => self.pruned(merged, &managed, &last),
            None => merged,
        };
        let (mut managed, _) = self.reassigned(live, &new, managed, Some(applier))?;
        if let Some(mut own) = managed.0.remove(id) {
            own.set = own.set.without_fields(&UNOWNED);
            if !own.set.is_empty() {
                managed.0.insert(id.clone(), own);
            }
        }
        let object = (!same(live, &new)).then_some(new);
        if object.is_some()
            && let Some(own) = managed.0.get_mut(id)
        {
            own.time = Some(self.now.to_owned());
        }
        Ok(Applied { object, managed })
    }

    /// Returns the fields of `last` whose values are the same in `live`; `None` if the two objects cannot be
    /// compared.
    pub(crate) fn unchanged_since(&self, last: &Value, live: &Value) -> Option<Set> {
        let of = self.own_type();
        if validate(of, last, false).is_some() {
            return None;
        }
        let changes = compare(of, last, live).ok()?;
        let set = fields_of(of, last).difference(&changes.modified).difference(&changes.added);
        Some(set.difference(&changes.removed))
    }

    /// Removes the fields that a write changes from all managers except the writer. For an apply without
    /// `force`, changing a field of another manager is a conflict.
    fn reassigned(
        &self,
        live: &Value,
        new: &Value,
        mut managed: Managed,
        writer: Option<Applier<'_>>,
    ) -> Result<(Managed, Comparison), Failed> {
        let mut changes: BTreeMap<&str, Comparison> = BTreeMap::new();
        let own = compare(self.own_type(), live, new)?.without(self.ignored);
        changes.insert(self.version, own);
        let mut conflicts = Vec::new();
        let mut kept = Managed::default();
        for (id, mut owned) in std::mem::take(&mut managed.0) {
            if writer.is_some_and(|writer| *writer.id == id) {
                kept.0.insert(id, owned);
                continue;
            }
            // Managers lose fields of an API version that is no longer served.
            let Some((&version, &of)) = self.types.get_key_value(owned.api_version.as_str()) else {
                continue;
            };
            if !changes.contains_key(version) {
                let compared = match self.convert {
                    Some(convert) => compare(of, &convert(version, live)?, &convert(version, new)?)?,
                    None => compare(of, live, new)?,
                };
                changes.insert(version, compared.without(self.ignored));
            }
            let changes = &changes[version];
            let modified = owned.set.intersection(&changes.modified);
            let conflict = modified.joined(owned.set.intersection(&changes.added));
            if !conflict.is_empty() && writer.is_some_and(|writer| !writer.force) {
                let named = |path| Conflict { manager: id.clone(), path };
                conflicts.extend(conflict.paths().into_iter().map(named));
            }
            owned.set = owned.set.difference(&conflict).difference(&changes.removed);
            if !owned.set.is_empty() {
                kept.0.insert(id, owned);
            }
        }
        if !conflicts.is_empty() {
            return Err(Failed::Conflicts(conflicts));
        }
        kept.0.retain(|_, owned| !owned.set.is_empty());
        Ok((kept, changes.remove(self.version).unwrap_or_default()))
    }

    /// Drops managers of API versions that are not served, and adapts the field sets to the current types.
    fn reconciled(&self, mut managed: Managed) -> Managed {
        managed.0.retain(|_, owned| match self.types.get(owned.api_version.as_str()) {
            Some(of) => {
                reconcile(*of, &mut owned.set);
                true
            }
            None => false,
        });
        managed
    }

    /// Returns the merged object without the fields that the applier has applied before but does not apply
    /// now, unless another manager owns them.
    fn pruned(&self, merged: Value, managed: &Managed, last: &Owned) -> Value {
        if last.set.is_empty() {
            return merged;
        }
        let Some(of) = self.types.get(last.api_version.as_str()).copied() else { return merged };
        let named_last = with_named(Some(of), &last.set);
        let mut pruned = remove(of, &merged, &named_last);
        let mut versions: Vec<&str> = managed.versions().into_iter().collect();
        versions.sort_by_key(|version| *version != last.api_version);
        for version in versions {
            let Some(of) = self.types.get(version).copied() else { continue };
            let sets =
                managed.0.values().filter(|owned| owned.api_version == version).map(|owned| &owned.set);
            let owned = sets.fold(Set::default(), Set::union);
            let stays = with_named(Some(of), &fields_of(of, &pruned)).union(&with_named(Some(of), &owned));
            let gone = with_named(Some(of), &fields_of(of, &merged)).difference(&stays);
            pruned = remove(of, &merged, &gone);
        }
        // Removing a parent can also remove fields that did not belong to the applier. Such fields are kept.
        let left = with_named(Some(of), &fields_of(of, &pruned));
        let gone = with_named(Some(of), &fields_of(of, &merged)).difference(&left);
        remove(of, &merged, &gone.intersection(&named_last))
    }
}

impl ManagerId {
    pub(crate) fn shown(&self) -> String {
        let mut shown = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            shown += &format!(" with subresource {:?}", self.subresource);
        }
        if self.operation == ManagedFieldsOperation::Update {
            shown += &format!(" using {}", self.api_version);
        }
        shown
    }
}
