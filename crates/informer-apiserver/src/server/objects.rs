//! How programs read and write objects, without requests.

use informer_core::{Gvr, ObjectKey};
use serde_json::Value;

use super::{ApiServer, parse};
use crate::error::ApiError;
use crate::select::Filter;
use crate::storage::EventType;
use crate::write::{DeleteOptions, Scope, WriteMode};

/// Objects written under one lock by a bulk load: readers wait for at most one batch.
const LOAD_BATCH: usize = 512;

impl ApiServer {
    /// Creates an object; an empty namespace is for cluster-scoped kinds. Answers it as stored.
    ///
    /// # Errors
    ///
    /// What a client would get: the kind is not served, the object exists or is invalid.
    pub fn create(&self, gvr: &Gvr, namespace: &str, object: Value) -> Result<Value, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let scope = Scope::new(&resource, some(namespace));
        let written = self.shared.create(scope, object, WriteMode::Whole)?;
        Ok(written.value())
    }

    /// Replaces an object, status and all. With a `resourceVersion` in its metadata only that one.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create); also when it does not exist or was changed.
    pub fn update(&self, gvr: &Gvr, namespace: &str, object: Value) -> Result<Value, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let scope = Scope::new(&resource, some(namespace));
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let written = self.shared.update(scope, &name, object, WriteMode::Whole)?;
        Ok(written.value())
    }

    /// Deletes an object at once, without grace. One with finalizers stays until they are gone, as for any client.
    ///
    /// # Errors
    ///
    /// When the kind is not served or the object does not exist.
    pub fn delete(&self, gvr: &Gvr, namespace: &str, name: &str) -> Result<(), ApiError> {
        let resource = self.shared.resource(gvr)?;
        let scope = Scope::new(&resource, some(namespace));
        self.shared.delete(scope, name, &DeleteOptions::now()).map(drop)
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

    /// Creates many objects of a kind, each in the namespace of its metadata; objects that exist are replaced.
    /// Answers how many. Watchers see every one of them.
    ///
    /// # Errors
    ///
    /// The first object that is invalid; those before it are written.
    pub fn load(&self, gvr: &Gvr, objects: impl IntoIterator<Item = Value>) -> Result<usize, ApiError> {
        let resource = self.shared.resource(gvr)?;
        let (mut count, mut objects) = (0, objects.into_iter().peekable());
        while objects.peek().is_some() {
            let batch: Vec<Value> = objects.by_ref().take(LOAD_BATCH).collect();
            count += self.shared.load(&resource, batch)?;
        }
        Ok(count)
    }
}

fn some(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
