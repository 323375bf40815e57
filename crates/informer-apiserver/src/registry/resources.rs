//! The served kinds and where their objects are stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use informer_core::Gvr;
use serde_json::{Map, Value};

use super::conversion::Converter;
use super::storage::{EventType, Stored, draft};
use crate::model::json::parse;
use crate::model::kinds::{Kind, events, is_autoscaler, reform, version_priority};
use crate::model::rules::Rules;

/// A served kind and where its objects are.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) kind: Kind,
    /// Its table in the storage.
    pub(crate) table: usize,
    /// Told after each commit, so that watchers pull.
    pub(crate) changed: tokio::sync::watch::Sender<()>,
    /// The version that is stored, where this is another one of the same objects.
    pub(crate) stored_as: Option<Arc<Kind>>,
    /// Makes the objects of one version those of another; without it they differ in what their schemas say alone.
    pub(crate) converter: Option<Arc<Converter>>,
}

impl Resource {
    /// The kind that objects are stored as.
    pub(crate) fn storage_kind(&self) -> &Kind {
        self.stored_as.as_deref().unwrap_or(&self.kind)
    }

    /// An object of this version in the one that is stored; `None` where it is that one, or differs in nothing.
    pub(crate) fn to_stored(&self, object: &Map<String, Value>) -> Option<Map<String, Value>> {
        if self.kind.is("", "Event") {
            let mut object = object.clone();
            events::complete(&mut object);
            return Some(object);
        }
        let stored = self.stored_as.as_ref()?;
        let mut object = object.clone();
        reform(stored, &mut object);
        if let Some(rules) = Rules::of(stored).filter(|_| is_autoscaler(stored)) {
            rules.fill(&mut object);
        }
        if let Some(schema) = &stored.schema {
            schema.shape(&mut object);
        }
        Some(object)
    }

    /// Whether an object is stored in this version. Those of a definition may be in one that was stored earlier.
    pub(crate) fn is_shown(&self, stored: &Stored) -> bool {
        match self.kind.schema {
            Some(_) => stored.is_in(&self.kind.api_version),
            None => self.stored_as.is_none(),
        }
    }

    /// An object in this version: itself where it is stored so. `None` where a webhook has to be asked first.
    pub(crate) fn present(&self, stored: &Arc<Stored>, event: EventType) -> Option<Arc<Stored>> {
        if self.is_shown(stored) {
            return Some(Arc::clone(stored));
        }
        if let Some(converter) = &self.converter {
            return converter.known(&self.kind, stored, event);
        }
        let Value::Object(mut object) = parse(stored.as_slice()) else {
            return Some(Arc::clone(stored));
        };
        reform(&self.kind, &mut object);
        if let Some(schema) = &self.kind.schema {
            schema.prune(&mut object);
        }
        Some(Arc::new(draft(&self.kind, stored.key.clone(), &object).seal_unstored(stored.version, event)))
    }
}

/// The served kinds, by group and version in the order of registration.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    by_gvr: BTreeMap<Gvr, Arc<Resource>>,
    ordered: Vec<Arc<Resource>>,
    /// By group and plural: the definitions that are served.
    definitions: BTreeMap<(String, String), Arc<Defined>>,
}

/// A definition that is served, and where its objects are, also those of versions that are not served.
#[derive(Debug)]
pub(crate) struct Defined {
    pub(crate) spec: Value,
    pub(crate) table: usize,
    pub(crate) changed: tokio::sync::watch::Sender<()>,
    /// All versions, also those that are not served.
    pub(crate) versions: Vec<Arc<Resource>>,
}

/// Whether a group, and a version of it, are known.
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

    /// Whether this very resource is in use: it is another one after each change of a definition.
    pub(crate) fn serves(&self, resource: &Arc<Resource>) -> bool {
        let gvr = &resource.kind.gvr;
        let defined = self.definition(&gvr.group, &gvr.resource);
        let mut known =
            self.by_gvr.get(gvr).into_iter().chain(defined.iter().flat_map(|defined| &defined.versions));
        known.any(|known| Arc::ptr_eq(known, resource))
    }

    /// Adds a kind, or answers the one that is there under its name.
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

    /// Keeps the kinds of which this is true.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Kind) -> bool) {
        self.ordered.retain(|resource| keep(&resource.kind));
        self.by_gvr.retain(|_, resource| keep(&resource.kind));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> + Clone {
        self.ordered.iter()
    }

    /// The resource of objects of this kind.
    pub(crate) fn by_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let named = |r: &&Arc<Resource>| r.kind.kind == kind && r.kind.api_version == api_version;
        self.ordered.iter().find(named).cloned()
    }

    /// The same, also of a version that is defined and not served.
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

    /// Groups and their versions, in the order of discovery.
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
