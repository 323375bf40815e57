//! Snapshots of all objects of a server, which can be restored in another server.

mod file;

pub use file::SnapshotError;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use informer_core::{Gvr, ObjectKey};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::json::parse;
use crate::model::kinds::KindDefinition;
use crate::registry::Resource;
use crate::registry::storage::{Draft, draft};
use crate::server::ApiServer;

/// All objects of a server with their resourceVersions, including Secrets; returned by
/// [`ApiServer::snapshot`].
#[derive(Clone, Serialize, Deserialize)]
pub struct Snapshot {
    version: u64,
    kinds: Vec<SavedKind>,
}

/// The objects of one kind in a snapshot, in the storage version of the kind.
#[derive(Clone, Serialize, Deserialize)]
struct SavedKind {
    group: String,
    version: String,
    resource: String,
    objects: Vec<Map<String, Value>>,
}

impl SavedKind {
    fn gvr(&self) -> Gvr {
        Gvr::new(self.group.clone(), self.version.clone(), self.resource.clone())
    }
}

impl Snapshot {
    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.kinds.iter().map(|kind| kind.objects.len()).sum()
    }

    /// Returns true if the snapshot contains no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({} objects at version {})", self.len(), self.version)
    }
}

/// The error of [`ApiServer::restore`]. The server's state is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The snapshot contains objects of a kind that the server does not have.
    #[error("cannot restore objects of {gvr}, which is not served; register the kind first")]
    UnknownKind {
        /// The kind.
        gvr: Gvr,
    },
    /// The snapshot contains an object without a name or a resourceVersion.
    #[error("cannot restore an object of {gvr} without a name or a version")]
    Nameless {
        /// The kind.
        gvr: Gvr,
    },
}

impl ApiServer {
    /// Returns a snapshot of the current state.
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
            SavedKind { group, version, resource: plural, objects: objects.collect() }
        });
        let kinds = kinds.filter(|kind| !kind.objects.is_empty()).collect();
        Snapshot { version: storage.version(), kinds }
    }

    /// Replaces the state with a snapshot: its objects with their uids and resourceVersions, and the kinds of
    /// its CRDs.
    ///
    /// The event history is empty afterwards. Watches and exact lists from earlier versions get 410, and open
    /// watches end, as after a restart of kube-apiserver.
    ///
    /// # Errors
    ///
    /// Returns an error if the kind of an object is neither served nor defined by a CRD of the snapshot, or
    /// if an object has no name or resourceVersion.
    pub fn restore(&self, snapshot: Snapshot) -> Result<(), RestoreError> {
        let definitions = snapshot.kinds.iter().filter(|kind| kind.resource == "customresourcedefinitions");
        let specs = definitions.flat_map(|kind| &kind.objects);
        let specs: Vec<Value> =
            specs.filter_map(|one| crate::model::crd::served_spec(&one.clone().into())).collect();
        // The whole snapshot is validated first, so that an error leaves the server's state unchanged.
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
            let drafts = saved.objects.iter().map(|object| restored_draft(kind, object));
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

    fn stored_as(&self, gvr: &Gvr) -> Option<Arc<Resource>> {
        let registry = self.shared.registry.read();
        registry.iter().find(|resource| resource.storage_kind().gvr == *gvr).cloned()
    }
}

/// Encodes an object of a snapshot for the storage. Also returns its resourceVersion.
fn restored_draft(kind: &KindDefinition, object: &Map<String, Value>) -> Option<(Draft, u64)> {
    let (key, version) = identity(object)?;
    Some((draft(kind, key, object), version))
}

fn identity(object: &Map<String, Value>) -> Option<(ObjectKey, u64)> {
    let metadata = object.get("metadata")?;
    let version = metadata["resourceVersion"].as_str()?.parse().ok()?;
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    Some((ObjectKey::new(namespace, metadata["name"].as_str()?).ok()?, version))
}
