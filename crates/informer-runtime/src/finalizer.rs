//! Finalizers, which keep an object from being deleted until the program has cleaned up.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use futures_util::future::BoxFuture;
use kube_core::Resource;
use serde::Serialize;

use crate::BoxError;

/// Adds a finalizer to the metadata of an object. Returns false if the object already has it.
pub fn add_finalizer<K: Resource>(object: &mut K, name: &str) -> bool {
    let finalizers = object.meta_mut().finalizers.get_or_insert_default();
    let is_new = !finalizers.iter().any(|held| held == name);
    if is_new {
        finalizers.push(name.to_owned());
    }
    is_new
}

/// Removes all occurrences of a finalizer from the metadata of an object. Returns false if the object does
/// not have it.
pub fn remove_finalizer<K: Resource>(object: &mut K, name: &str) -> bool {
    let Some(finalizers) = &mut object.meta_mut().finalizers else { return false };
    let before = finalizers.len();
    finalizers.retain(|held| held != name);
    finalizers.len() < before
}

/// Returns true if the metadata of the object contains the finalizer.
pub fn contains_finalizer<K: Resource>(object: &K, name: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|held| held == name)
}

type Finalizer<K> = Box<dyn Fn(K) -> BoxFuture<'static, Result<K, BoxError>> + Send + Sync>;

/// The finalizers of one controller, each with a function that cleans up. [`finalize`](Self::finalize) adds
/// them to an object that is not being deleted. Once the object is being deleted, it calls the functions of
/// the finalizers on the object and removes those that succeed.
///
/// For a single finalizer, [`Context::finalize`](crate::Context::finalize) is shorter, and writes the object.
///
/// ```
/// use informer_runtime::{BoxError, Finalizers};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # async fn example(client: informer_runtime::CachedClient) -> Result<(), Box<dyn std::error::Error>> {
/// let finalizers = Finalizers::new().register("example.com/bucket", |map: ConfigMap| async move {
///     // delete_bucket(&map).await?;
///     Ok::<_, BoxError>(map)
/// });
/// if let Some(map) = client.get::<ConfigMap>("default/settings").await? {
///     let mut edited = map.edit();
///     finalizers.finalize(&mut edited).await?;
///     client.update(&edited).await?;
/// }
/// # Ok(()) }
/// ```
pub struct Finalizers<K> {
    named: BTreeMap<String, Finalizer<K>>,
}

/// Reports which parts of an object [`Finalizers::finalize`] has changed, so that the caller writes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Finalized {
    /// True if the object changed outside of its status and must be written.
    pub updated: bool,
    /// True if the status of the object changed and must be written.
    pub status_updated: bool,
}

/// The error if some finalizers of an object failed. The other finalizers were run, and their changes must be
/// written.
#[derive(Debug)]
pub struct FinalizeError {
    /// The changes that the successful finalizers made to the object.
    pub finalized: Finalized,
    /// The names of the failed finalizers, each with its error.
    pub failed: Vec<(String, BoxError)>,
}

impl<K: Resource + Clone + Serialize> Finalizers<K> {
    /// Creates an empty set of finalizers.
    pub fn new() -> Self {
        Self { named: BTreeMap::new() }
    }

    /// Registers a finalizer. It receives the object and returns it, changed or not. A failed finalizer is
    /// retried with the next call of [`finalize`](Self::finalize), so it must be idempotent. Registering a
    /// name again replaces the earlier finalizer.
    pub fn register<F, R>(mut self, name: impl Into<String>, finalizer: F) -> Self
    where
        F: Fn(K) -> R + Send + Sync + 'static,
        R: Future<Output = Result<K, BoxError>> + Send + 'static,
    {
        self.named.insert(name.into(), Box::new(move |object| Box::pin(finalizer(object))));
        self
    }

    /// Adds or runs finalizers, in the order of their names. The caller must write the object afterwards.
    ///
    /// # Errors
    ///
    /// Returns an error if finalizers fail. Failed finalizers stay on the object; the others are run
    /// nevertheless.
    pub async fn finalize(&self, object: &mut K) -> Result<Finalized, FinalizeError> {
        let (mut finalized, mut failed) = (Finalized::default(), Vec::new());
        if object.meta().deletion_timestamp.is_none() {
            for name in self.named.keys() {
                finalized.updated |= add_finalizer(object, name);
            }
            return Ok(finalized);
        }
        for (name, finalizer) in &self.named {
            if !contains_finalizer(object, name) {
                continue;
            }
            match finalizer(object.clone()).await {
                Ok(changed) => {
                    finalized.status_updated |= status(&changed) != status(object);
                    *object = changed;
                    remove_finalizer(object, name);
                    finalized.updated = true;
                }
                Err(cause) => failed.push((name.clone(), cause)),
            }
        }
        if failed.is_empty() { Ok(finalized) } else { Err(FinalizeError { finalized, failed }) }
    }
}

fn status<K: Serialize>(object: &K) -> Option<serde_json::Value> {
    Some(serde_json::to_value(object).ok()?.get_mut("status")?.take())
}

impl<K: Resource + Clone + Serialize> Default for Finalizers<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for Finalizers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.named.keys()).finish()
    }
}

impl fmt::Display for FinalizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.failed.iter().map(|(name, _)| name.as_str()).collect();
        write!(f, "finalizers failed: {}", names.join(", "))
    }
}

impl std::error::Error for FinalizeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failed.first().map(|(_, cause)| &**cause as _)
    }
}
