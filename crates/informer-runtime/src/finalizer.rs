//! What must be done before an object may go.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use futures_util::future::BoxFuture;

use crate::{BoxError, KubeKind, KubeObject};

/// Adds a finalizer; false where it was there.
pub fn add_finalizer<K: KubeKind>(object: &mut K, name: &str) -> bool {
    let finalizers = object.meta_mut().finalizers.get_or_insert_default();
    let is_new = !finalizers.iter().any(|held| held == name);
    if is_new {
        finalizers.push(name.to_owned());
    }
    is_new
}

/// Takes a finalizer away, however often it is there; false where it was not.
pub fn remove_finalizer<K: KubeKind>(object: &mut K, name: &str) -> bool {
    let Some(finalizers) = &mut object.meta_mut().finalizers else { return false };
    let before = finalizers.len();
    finalizers.retain(|held| held != name);
    finalizers.len() < before
}

/// True where the object has the finalizer.
pub fn contains_finalizer<K: KubeKind>(object: &K, name: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|held| held == name)
}

type Finalizer<K> = Box<dyn Fn(K) -> BoxFuture<'static, Result<K, BoxError>> + Send + Sync>;

/// The finalizers of one controller: adds those that are missing while an object lives, and runs and takes away those that are there
/// when it is deleted.
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

/// What became of an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Finalized {
    /// Something else than the status changed, and must be written.
    pub updated: bool,
    /// The status changed, and must be written.
    pub status_updated: bool,
}

/// Finalizers that failed. The others were run, and what they changed must be written.
#[derive(Debug)]
pub struct FinalizeError {
    /// What became of the object all the same.
    pub finalized: Finalized,
    /// The finalizers that failed, by name, and with what.
    pub failed: Vec<(String, BoxError)>,
}

impl<K: KubeObject> Finalizers<K> {
    /// None.
    pub fn new() -> Self {
        Self { named: BTreeMap::new() }
    }

    /// Adds a finalizer. It is given the object, and answers it, changed or not; when it fails it is tried again with the next
    /// call, so it must bear to be run twice. Registering a name again replaces the finalizer before it.
    pub fn register<F, R>(mut self, name: impl Into<String>, finalizer: F) -> Self
    where
        F: Fn(K) -> R + Send + Sync + 'static,
        R: Future<Output = Result<K, BoxError>> + Send + 'static,
    {
        self.named.insert(name.into(), Box::new(move |object| Box::pin(finalizer(object))));
        self
    }

    /// Does what is due, in the order of the names; write the object afterwards.
    ///
    /// # Errors
    ///
    /// When finalizers fail. They stay; the others are run all the same.
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
        match failed.is_empty() {
            true => Ok(finalized),
            false => Err(FinalizeError { finalized, failed }),
        }
    }
}

fn status<K: KubeObject>(object: &K) -> Option<serde_json::Value> {
    Some(serde_json::to_value(object).ok()?.get_mut("status")?.take())
}

impl<K: KubeObject> Default for Finalizers<K> {
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
