//! The served kinds and their tables in the storage.

use std::collections::BTreeMap;
use std::sync::Arc;

use informer_core::Gvr;
use serde_json::{Map, Value};

use super::conversion::Converter;
use super::storage::{EventType, Stored, draft};
use crate::model::json::parse;
use crate::model::kinds::{KindDefinition, convert_version, version_priority};

/// A served resource and the storage table of its objects.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) kind: KindDefinition,
    /// The index of the resource's table in the storage.
    pub(crate) table: usize,
    /// Notified after each commit, so that watchers read the new events.
    pub(crate) changed: tokio::sync::watch::Sender<()>,
    /// The storage version of the resource, if it differs from this API version.
    pub(crate) stored_as: Option<Arc<KindDefinition>>,
    /// Calls the conversion webhook of the CRD. If absent, a conversion only changes `apiVersion` and prunes
    /// fields.
    pub(crate) converter: Option<Arc<Converter>>,
}

impl Resource {
    pub(crate) fn storage_kind(&self) -> &KindDefinition {
        self.stored_as.as_deref().unwrap_or(&self.kind)
    }

    /// Converts an object to the storage version. Returns `None` if the object already has that version.
    pub(crate) fn to_stored(&self, object: &Map<String, Value>) -> Option<Map<String, Value>> {
        if let Some(complete) = self.kind.descriptor.hooks.before_store {
            let mut object = object.clone();
            complete(&mut object);
            return Some(object);
        }
        let stored = self.stored_as.as_ref()?;
        let mut object = object.clone();
        convert_version(stored, &mut object);
        if let Some(rules) = stored.rules() {
            rules.fill(&mut object);
        }
        if let Some(schema) = &stored.schema {
            schema.read(&mut object);
        }
        Some(object)
    }

    /// Returns true if a stored object has this API version. A custom resource may still have an earlier
    /// storage version.
    pub(crate) fn is_shown(&self, stored: &Stored) -> bool {
        match self.kind.schema {
            Some(_) => stored.is_in(&self.kind.api_version),
            None => self.stored_as.is_none(),
        }
    }

    /// Returns a stored object in this API version, or `None` if the caller must call the conversion webhook
    /// first.
    pub(crate) fn present(&self, stored: &Arc<Stored>, event: EventType) -> Option<Arc<Stored>> {
        if self.is_shown(stored) {
            return Some(Arc::clone(stored));
        }
        if let Some(converter) = &self.converter {
            return converter.cached(&self.kind, stored, event);
        }
        let Value::Object(mut object) = parse(stored.as_slice()) else {
            return Some(Arc::clone(stored));
        };
        convert_version(&self.kind, &mut object);
        if let Some(schema) = &self.kind.schema {
            schema.prune(&mut object);
        }
        Some(Arc::new(draft(&self.kind, stored.key.clone(), &object).seal_unstored(stored.version, event)))
    }
}

/// The served kinds in the order of registration.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    by_gvr: BTreeMap<Gvr, Arc<Resource>>,
    ordered: Vec<Arc<Resource>>,
    /// The CRDs whose resources are served, by API group and plural.
    definitions: BTreeMap<(String, String), Arc<Defined>>,
}

#[derive(Debug)]
pub(crate) struct Defined {
    pub(crate) spec: Value,
    pub(crate) table: usize,
    pub(crate) changed: tokio::sync::watch::Sender<()>,
    /// All API versions of the CRD, served or not.
    pub(crate) versions: Vec<Arc<Resource>>,
}

/// The result of looking up an API group: unknown, built-in or custom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupKnown {
    No,
    BuiltIn,
    Custom,
}

impl Registry {
    pub(crate) fn get(&self, gvr: &Gvr) -> Option<Arc<Resource>> {
        self.by_gvr.get(gvr).cloned()
    }

    /// Returns true if the registry still contains this resource. A change of a CRD replaces its resources.
    pub(crate) fn serves(&self, resource: &Arc<Resource>) -> bool {
        let gvr = &resource.kind.gvr;
        let defined = self.definition(&gvr.group, &gvr.resource);
        let mut known =
            self.by_gvr.get(gvr).into_iter().chain(defined.iter().flat_map(|defined| &defined.versions));
        known.any(|known| Arc::ptr_eq(known, resource))
    }

    /// Adds a resource, and replaces an existing one with the same GVR.
    pub(crate) fn add(&mut self, resource: Resource) -> Arc<Resource> {
        let resource = Arc::new(resource);
        let gvr = resource.kind.gvr.clone();
        if self.by_gvr.insert(gvr.clone(), Arc::clone(&resource)).is_some() {
            self.ordered.retain(|other| other.kind.gvr != gvr);
        }
        self.ordered.push(Arc::clone(&resource));
        resource
    }

    pub(crate) fn definition(&self, group: &str, plural: &str) -> Option<Arc<Defined>> {
        self.definitions.get(&(group.to_owned(), plural.to_owned())).cloned()
    }

    pub(crate) fn define(&mut self, group: &str, plural: &str, defined: Option<Defined>) {
        let name = (group.to_owned(), plural.to_owned());
        match defined {
            Some(defined) => self.definitions.insert(name, Arc::new(defined)),
            None => self.definitions.remove(&name),
        };
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&KindDefinition) -> bool) {
        self.ordered.retain(|resource| keep(&resource.kind));
        self.by_gvr.retain(|_, resource| keep(&resource.kind));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> + Clone {
        self.ordered.iter()
    }

    /// Returns the served resource of a kind.
    pub(crate) fn by_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let named = |r: &&Arc<Resource>| r.kind.kind == kind && r.kind.api_version == api_version;
        self.ordered.iter().find(named).cloned()
    }

    /// Returns the resource of a kind like [`by_kind`](Self::by_kind), but also if its version of the CRD is
    /// not served.
    pub(crate) fn defined(&self, like: &Gvr, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let named = |r: &&Arc<Resource>| r.kind.kind == kind && r.kind.api_version == api_version;
        match self.definition(&like.group, &like.resource) {
            Some(defined) => defined.versions.iter().find(named).cloned(),
            None => self.by_kind(api_version, kind),
        }
    }

    pub(crate) fn group(&self, group: &str) -> GroupKnown {
        match self.ordered.iter().find(|resource| resource.kind.gvr.group == group) {
            None => GroupKnown::No,
            Some(resource) if resource.kind.is_custom() => GroupKnown::Custom,
            Some(_) => GroupKnown::BuiltIn,
        }
    }

    /// Returns the API groups and their versions in the order of discovery.
    pub(crate) fn groups(&self) -> Vec<(String, Vec<String>)> {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for Gvr { group, version, .. } in self.ordered.iter().map(|resource| &resource.kind.gvr) {
            match groups.iter_mut().find(|(name, _)| name == group) {
                Some((_, versions)) if versions.contains(version) => {}
                Some((_, versions)) => versions.push(version.clone()),
                None => groups.push((group.clone(), vec![version.clone()])),
            }
        }
        for (_, versions) in &mut groups {
            versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version)));
        }
        groups
    }
}
