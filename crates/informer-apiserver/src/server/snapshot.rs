//! The whole state, kept and brought back: for servers that are started again.

mod file;

pub use file::SnapshotError;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use informer_core::{Gvr, ObjectKey};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::json::parse;
use crate::model::kinds::Kind;
use crate::registry::Resource;
use crate::registry::storage::{Draft, draft};
use crate::server::ApiServer;

/// All objects of a server with their versions, Secrets among them; made by [`ApiServer::snapshot`].
#[derive(Clone, Serialize, Deserialize)]
pub struct Snapshot {
    version: u64,
    kinds: Vec<Saved>,
}

/// The objects of one kind, in the version in which they are stored.
#[derive(Clone, Serialize, Deserialize)]
struct Saved {
    group: String,
    version: String,
    resource: String,
    objects: Vec<Map<String, Value>>,
}

impl Saved {
    fn gvr(&self) -> Gvr {
        Gvr::new(self.group.clone(), self.version.clone(), self.resource.clone())
    }
}

impl Snapshot {
    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.kinds.iter().map(|kind| kind.objects.len()).sum()
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({} objects at version {})", self.len(), self.version)
    }
}

/// A snapshot that cannot be brought back; nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// It holds objects of a kind that is not served.
    #[error("cannot restore objects of {gvr}, which is not served; register the kind first")]
    UnknownKind {
        /// The kind.
        gvr: Gvr,
    },
    /// It holds an object without a name or a version.
    #[error("cannot restore an object of {gvr} without a name or a version")]
    Nameless {
        /// The kind.
        gvr: Gvr,
    },
}

impl ApiServer {
    /// The whole state as it is now.
    ///
    /// ```
    /// # use informer_apiserver::ApiServer;
    /// # use informer_core::Gvr;
    /// # use serde_json::json;
    /// let maps = Gvr::new("", "v1", "configmaps");
    /// let server = ApiServer::builder().build();
    /// let made = server.create(&maps, "default", json!({"metadata": {"name": "settings"}}))?;
    /// let kept = serde_json::to_string(&server.snapshot()).unwrap();
    ///
    /// let next = ApiServer::builder().build();
    /// next.restore(serde_json::from_str(&kept).unwrap())?;
    /// assert_eq!(next.get(&maps, "default", "settings")?, made);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let registry = self.shared.registry.read();
        let storage = self.shared.storage.read();
        let mut seen = HashSet::new();
        let kinds = registry.iter().filter(|resource| seen.insert(resource.table)).map(|resource| {
            let Gvr { group, version, resource: plural } = resource.storage_kind().gvr.clone();
            let live = storage.live(resource.table);
            let objects = live.iter().filter_map(|stored| match parse(stored.as_slice()) {
                Value::Object(object) => Some(object),
                _ => None,
            });
            Saved { group, version, resource: plural, objects: objects.collect() }
        });
        let kinds = kinds.filter(|kind| !kind.objects.is_empty()).collect();
        Snapshot { version: storage.version(), kinds }
    }

    /// Goes over to another state: objects with their uids and versions, and the kinds that its definitions define. There
    /// is no history before it, so that watches and lists from earlier versions get 410, as after a restart of a real
    /// server; open watches end.
    ///
    /// # Errors
    ///
    /// When an object's kind is neither served nor defined.
    pub fn restore(&self, snapshot: Snapshot) -> Result<(), RestoreError> {
        let definitions = snapshot.kinds.iter().filter(|kind| kind.resource == "customresourcedefinitions");
        let specs = definitions.flat_map(|kind| &kind.objects);
        let specs: Vec<Value> =
            specs.filter_map(|one| crate::model::crd::served_spec(&one.clone().into())).collect();
        // Looked through before anything is served, so that what cannot be brought back changes nothing.
        let defined: HashSet<Gvr> = specs.iter().flat_map(crate::model::crd::resources).collect();
        for saved in &snapshot.kinds {
            let gvr = saved.gvr();
            if !defined.contains(&gvr) && self.stored_as(&gvr).is_none() {
                return Err(RestoreError::UnknownKind { gvr });
            }
            if !saved.objects.iter().all(|object| identity(object).is_some()) {
                return Err(RestoreError::Nameless { gvr });
            }
        }
        specs.iter().for_each(|spec| self.shared.serve(spec));
        let mut tables = HashMap::new();
        for saved in snapshot.kinds {
            let gvr = saved.gvr();
            let Some(resource) = self.stored_as(&gvr) else { return Err(RestoreError::UnknownKind { gvr }) };
            let kind = resource.storage_kind();
            let drafts = saved.objects.iter().map(|object| drafted(kind, object));
            let drafts: Option<Vec<_>> = drafts.collect();
            tables.insert(resource.table, drafts.ok_or(RestoreError::Nameless { gvr })?);
        }
        self.shared.storage.write().restore(snapshot.version, tables);
        self.shared.clear_version_caches();
        for resource in self.shared.registry.read().iter().filter(|resource| resource.kind.is("", "Event")) {
            let live = self.shared.storage.read().live(resource.table);
            live.iter().for_each(|stored| self.shared.note_written(resource, stored));
        }
        self.shared.announce_everything();
        Ok(())
    }

    /// The resource whose objects are stored as this one.
    fn stored_as(&self, gvr: &Gvr) -> Option<Arc<Resource>> {
        let registry = self.shared.registry.read();
        registry.iter().find(|resource| resource.storage_kind().gvr == *gvr).cloned()
    }
}

/// An object as it is stored, with its version.
fn drafted(kind: &Kind, object: &Map<String, Value>) -> Option<(Draft, u64)> {
    let (key, version) = identity(object)?;
    Some((draft(kind, key, object), version))
}

/// The key and the version of an object.
fn identity(object: &Map<String, Value>) -> Option<(ObjectKey, u64)> {
    let metadata = object.get("metadata")?;
    let version = metadata["resourceVersion"].as_str()?.parse().ok()?;
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    Some((ObjectKey::new(namespace, metadata["name"].as_str()?).ok()?, version))
}
