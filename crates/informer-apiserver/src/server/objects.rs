//! Methods that read and write objects without HTTP requests.

use std::sync::Arc;

use informer_core::{Gvr, ObjectKey};
use serde_json::Value;

use super::ApiServer;
use crate::admission::Scope;
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::model::write_options::WriteMode;
use crate::pipeline::DeleteOptions;
use crate::pipeline::ready::ready;
use crate::registry::select::Filter;
use crate::registry::storage::{Event, EventType, Stored};

/// Number of objects that a bulk load writes before it releases the storage lock. Readers therefore wait for
/// at most one batch.
const LOAD_BATCH: usize = 512;

impl ApiServer {
    /// Creates an object and returns the stored object, with defaults and with the given `status`.
    ///
    /// `namespace` is empty for cluster-scoped kinds.
    ///
    /// # Errors
    ///
    /// Returns an error if the kind is not served, or if the object already exists or is invalid.
    pub fn create(&self, gvr: &Gvr, namespace: &str, object: Value) -> Result<Value, ApiError> {
        self.create_as(gvr, namespace, object, WriteMode::Whole)
    }

    /// Updates an object, including its `status`. A `resourceVersion` in its metadata must match the stored
    /// one.
    ///
    /// # Errors
    ///
    /// Returns an error if the object does not exist, its `resourceVersion` does not match, it is invalid, or
    /// it changes an immutable field.
    pub fn update(&self, gvr: &Gvr, namespace: &str, object: Value) -> Result<Value, ApiError> {
        self.update_as(gvr, namespace, object, WriteMode::Whole)
    }

    /// Returns a writer that neither defaults nor validates, to test clients with invalid objects.
    ///
    /// ```
    /// # use informer_apiserver::ApiServer;
    /// # use informer_core::Gvr;
    /// # use serde_json::json;
    /// let server = ApiServer::builder().build();
    /// let pods = Gvr::new("", "v1", "pods");
    /// let broken = json!({"metadata": {"name": "web-0"}, "spec": {"containers": "none"}});
    /// assert!(server.create(&pods, "default", broken.clone()).is_err());
    /// server.raw().create(&pods, "default", broken)?;
    /// # Ok::<(), informer_apiserver::ApiError>(())
    /// ```
    pub fn raw(&self) -> RawWriter<'_> {
        RawWriter { server: self }
    }

    pub(super) fn create_as(
        &self,
        gvr: &Gvr,
        namespace: &str,
        object: Value,
        mode: WriteMode,
    ) -> Result<Value, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let scope = Scope::of_program(&resource, some(namespace), mode);
        let written = ready(self.shared.create(scope, object, mode));
        self.shared.finish_controllers();
        Ok(written?.value())
    }

    pub(super) fn update_as(
        &self,
        gvr: &Gvr,
        namespace: &str,
        object: Value,
        mode: WriteMode,
    ) -> Result<Value, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let scope = Scope::of_program(&resource, some(namespace), mode);
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let written = ready(self.shared.update(scope, &name, object, mode));
        self.shared.finish_controllers();
        Ok(written?.value())
    }

    /// Deletes an object without a grace period. An object with finalizers is only marked as deleted, and
    /// remains until its finalizers are removed.
    ///
    /// # Errors
    ///
    /// Returns an error if the kind is not served or the object does not exist.
    pub fn delete(&self, gvr: &Gvr, namespace: &str, name: &str) -> Result<(), ApiError> {
        let resource = self.shared.resource(gvr)?;
        let scope = Scope::new(&resource, some(namespace));
        let deleted = ready(self.shared.delete(scope, name, &DeleteOptions::now()));
        self.shared.finish_controllers();
        deleted.map(drop)
    }

    /// Returns an object. No conversion webhook is called: an object that needs one is returned in its
    /// storage version, unless its conversion is cached.
    ///
    /// # Errors
    ///
    /// Returns an error if the kind is not served or the object does not exist.
    pub fn get(&self, gvr: &Gvr, namespace: &str, name: &str) -> Result<Value, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let stored = self.shared.find(&resource, some(namespace), name)?;
        Ok(parse(resource.present(&stored, EventType::Modified).unwrap_or(stored).as_slice()))
    }

    /// Returns all objects of a kind in a namespace, in key order. An empty `namespace` means all namespaces.
    ///
    /// # Errors
    ///
    /// Returns an error if the kind is not served.
    pub fn list(&self, gvr: &Gvr, namespace: &str) -> Result<Vec<Value>, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let live = self.shared.storage.read().live(resource.table);
        let filter = Filter::namespace(some(namespace));
        Ok(live
            .iter()
            .filter(|stored| filter.matches(stored))
            .map(|stored| match resource.present(stored, EventType::Modified) {
                Some(shown) => parse(shown.as_slice()),
                None => parse(stored.as_slice()),
            })
            .collect())
    }

    /// Returns the keys and resourceVersions of all objects of a kind, in key order. Tests can compare a
    /// cache with them.
    ///
    /// # Errors
    ///
    /// Returns an error if the kind is not served.
    pub fn versions(&self, gvr: &Gvr) -> Result<Vec<(ObjectKey, u64)>, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let live = self.shared.storage.read().live(resource.table);
        Ok(live.iter().map(|stored| (stored.key.clone(), stored.version)).collect())
    }

    /// Returns the last changes of an object that the [history](crate::ApiServerBuilder::history) contains,
    /// at most `max`, oldest first. The object may have been deleted. Like [`get`](Self::get), it calls no
    /// conversion webhook.
    ///
    /// ```
    /// use informer_apiserver::ApiServer;
    /// use informer_core::Gvr;
    /// use serde_json::json;
    ///
    /// let server = ApiServer::builder().build();
    /// let maps = Gvr::new("", "v1", "configmaps");
    /// server.create(&maps, "default", json!({"metadata": {"name": "settings"}}))?;
    /// server.delete(&maps, "default", "settings")?;
    /// let changes = server.changes(&maps, "default", "settings", 10)?;
    /// assert_eq!(changes.len(), 2);
    /// assert!(changes[0].before.is_none() && changes[1].after.is_none());
    /// # Ok::<(), informer_apiserver::ApiError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the kind is not served.
    pub fn changes(
        &self,
        gvr: &Gvr,
        namespace: &str,
        name: &str,
        max: usize,
    ) -> Result<Vec<ObjectChange>, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let key = some(namespace).map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
        let events = self.shared.storage.read().last_events(resource.table, &key, max);
        let value = |stored: &Option<Arc<Stored>>| {
            let stored = stored.as_ref()?;
            let shown = resource.present(stored, EventType::Modified);
            Some(parse(shown.as_ref().unwrap_or(stored).as_slice()))
        };
        let change = |event: &Arc<Event>| ObjectChange {
            version: event.version,
            before: value(&event.previous),
            after: value(&event.next),
        };
        Ok(events.iter().map(change).collect())
    }

    /// Creates or replaces many objects of a kind, each in the namespace of its metadata. Returns the number
    /// of objects.
    ///
    /// Watches get an event for each object.
    ///
    /// # Errors
    ///
    /// Returns the error of the first invalid object. Objects before the invalid one stay written.
    pub fn load(&self, gvr: &Gvr, objects: impl IntoIterator<Item = Value>) -> Result<usize, ApiError> {
        self.load_as(gvr, objects, WriteMode::Whole)
    }

    pub(super) fn load_as(
        &self,
        gvr: &Gvr,
        objects: impl IntoIterator<Item = Value>,
        mode: WriteMode,
    ) -> Result<usize, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let (mut count, mut objects) = (0, objects.into_iter().peekable());
        while objects.peek().is_some() {
            let batch: Vec<Value> = objects.by_ref().take(LOAD_BATCH).collect();
            let loaded = self.shared.load(&resource, batch, mode);
            self.shared.finish_controllers();
            count += loaded?;
        }
        Ok(count)
    }
}

/// A write of an object, as returned by [`ApiServer::changes`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ObjectChange {
    /// The resourceVersion of the write.
    pub version: u64,
    /// The object before the write; `None` if the write created it.
    pub before: Option<Value>,
    /// The object after the write; `None` if the write deleted it.
    pub after: Option<Value>,
}

/// Writes objects without defaulting and validation; returned by [`ApiServer::raw`].
///
/// The server stores objects even if they have fields of the wrong type, unknown fields or missing fields. It
/// does not decode objects of built-in kinds, and does not validate custom resources against their schema.
/// Immutable fields may change. Only the metadata must be valid: name, namespace, labels and finalizers. A
/// later request that changes such an object may be rejected.
#[derive(Debug, Clone, Copy)]
pub struct RawWriter<'a> {
    server: &'a ApiServer,
}

impl RawWriter<'_> {
    /// Creates an object like [`ApiServer::create`].
    ///
    /// # Errors
    ///
    /// Returns an error if the kind is not served, the object already exists, or its metadata is invalid.
    pub fn create(&self, gvr: &Gvr, namespace: &str, object: Value) -> Result<Value, ApiError> {
        self.server.create_as(gvr, namespace, object, WriteMode::Raw)
    }

    /// Updates an object like [`ApiServer::update`].
    ///
    /// # Errors
    ///
    /// Returns an error if the object does not exist, its `resourceVersion` does not match, or its metadata
    /// is invalid.
    pub fn update(&self, gvr: &Gvr, namespace: &str, object: Value) -> Result<Value, ApiError> {
        self.server.update_as(gvr, namespace, object, WriteMode::Raw)
    }

    /// Creates or replaces many objects like [`ApiServer::load`].
    ///
    /// # Errors
    ///
    /// Returns the error of the first object with invalid metadata. Objects before the invalid one stay
    /// written.
    pub fn load(&self, gvr: &Gvr, objects: impl IntoIterator<Item = Value>) -> Result<usize, ApiError> {
        self.server.load_as(gvr, objects, WriteMode::Raw)
    }
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
