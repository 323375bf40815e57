//! How programs read and write objects, without requests.

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
use crate::registry::storage::EventType;

/// Objects written under one lock by a bulk load: readers wait for at most one batch.
const LOAD_BATCH: usize = 512;

impl ApiServer {
    /// Creates an object and returns it as stored: defaulted, with the status that was given. The namespace is empty for
    /// cluster-scoped kinds.
    ///
    /// # Errors
    ///
    /// As for a request: the kind is not served, the object exists or is invalid.
    pub fn create(&self, gvr: &Gvr, namespace: &str, object: Value) -> Result<Value, ApiError> {
        self.create_as(gvr, namespace, object, WriteMode::Whole)
    }

    /// Replaces an object, status and all. If its metadata has a `resourceVersion`, only that version is replaced.
    ///
    /// # Errors
    ///
    /// As for a request: the object does not exist, was changed, is invalid, or changes an immutable field.
    pub fn update(&self, gvr: &Gvr, namespace: &str, object: Value) -> Result<Value, ApiError> {
        self.update_as(gvr, namespace, object, WriteMode::Whole)
    }

    /// Returns a writer that neither defaults nor validates, for tests of clients with broken objects.
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

    /// Deletes an object at once, without grace. One with finalizers stays until they are gone, as for any client.
    ///
    /// # Errors
    ///
    /// When the kind is not served or the object does not exist.
    pub fn delete(&self, gvr: &Gvr, namespace: &str, name: &str) -> Result<(), ApiError> {
        let resource = self.shared.resource(gvr)?;
        let scope = Scope::new(&resource, some(namespace));
        let deleted = ready(self.shared.delete(scope, name, &DeleteOptions::now()));
        self.shared.finish_controllers();
        deleted.map(drop)
    }

    /// One object. One that a webhook would have to convert is answered in the version that it is stored in.
    ///
    /// # Errors
    ///
    /// When the kind is not served or the object does not exist.
    pub fn get(&self, gvr: &Gvr, namespace: &str, name: &str) -> Result<Value, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let stored = self.shared.find(&resource, some(namespace), name)?;
        Ok(parse(resource.present(&stored, EventType::Modified).unwrap_or(stored).as_slice()))
    }

    /// All objects of a kind in a namespace, or in all of them where it is empty, in the order of their keys.
    ///
    /// # Errors
    ///
    /// When the kind is not served.
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

    /// Keys and versions of all objects of a kind, in the order of their keys: what a cache is compared with.
    ///
    /// # Errors
    ///
    /// When the kind is not served.
    pub fn versions(&self, gvr: &Gvr) -> Result<Vec<(ObjectKey, u64)>, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let live = self.shared.storage.read().live(resource.table);
        Ok(live.iter().map(|stored| (stored.key.clone(), stored.version)).collect())
    }

    /// Creates many objects of a kind, each in the namespace of its metadata; objects that exist are replaced. Returns their number.
    /// Watchers see every one of them.
    ///
    /// # Errors
    ///
    /// The first object that is invalid; those before it are written.
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

/// Writes objects as they are, returned by [`ApiServer::raw`].
///
/// Built-in kinds are not decoded, and custom ones are not validated against their schema: an object with fields of the wrong type,
/// unknown fields or missing fields is stored. Nothing is defaulted, and immutable fields may change. Only the metadata must be valid: name, namespace,
/// labels, finalizers. The next request that changes such an object may be refused, as by a real server.
#[derive(Debug, Clone, Copy)]
pub struct RawWriter<'a> {
    server: &'a ApiServer,
}

impl RawWriter<'_> {
    /// As [`ApiServer::create`].
    ///
    /// # Errors
    ///
    /// The kind is not served, the object exists, or its metadata is invalid.
    pub fn create(&self, gvr: &Gvr, namespace: &str, object: Value) -> Result<Value, ApiError> {
        self.server.create_as(gvr, namespace, object, WriteMode::Raw)
    }

    /// As [`ApiServer::update`].
    ///
    /// # Errors
    ///
    /// The object does not exist, was changed, or its metadata is invalid.
    pub fn update(&self, gvr: &Gvr, namespace: &str, object: Value) -> Result<Value, ApiError> {
        self.server.update_as(gvr, namespace, object, WriteMode::Raw)
    }

    /// As [`ApiServer::load`].
    ///
    /// # Errors
    ///
    /// The first object whose metadata is invalid; those before it are written.
    pub fn load(&self, gvr: &Gvr, objects: impl IntoIterator<Item = Value>) -> Result<usize, ApiError> {
        self.server.load_as(gvr, objects, WriteMode::Raw)
    }
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
