use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use informer_core::ObjectKey;
use parking_lot::Mutex;

use super::Bodies;
use crate::KubeObject;

/// The references of the objects of a controller to objects of another kind. The bodies of the referenced
/// objects are held and kept current. [`Referenced::references`](super::Referenced::references) returns it.
///
/// A reconciler states with [`set`](Self::set) to which objects the reconciled one refers, and removes its
/// references with [`remove`](Self::remove) when it was deleted. [`owners`](Self::owners) maps a changed
/// object to the requests that it affects. The owners are keys of one kind; use one set for each kind of
/// owners.
///
/// This type is a cheap handle; clones share the set. Dropping the last clone releases all references.
///
/// ```no_run
/// # async fn example(cache: informer_runtime::Cache) -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::Secret;
///
/// let secrets = cache.referenced::<Secret>()?;
/// let references = secrets.references();
/// let release = "web/release-1".parse()?;                          // the reconciled object
/// references.set(&release, ["web/values".parse()?, "web/tls".parse()?]);
/// let values = secrets.get("web/values").await?;
/// assert_eq!(references.owners("web/tls"), [release]);             // to reconcile after a change of web/tls
/// # Ok(()) }
/// ```
pub struct ReferenceSet<K: KubeObject> {
    shared: Arc<ReferenceSetState<K>>,
}

struct ReferenceSetState<K: KubeObject> {
    bodies: Arc<Bodies<K>>,
    table: Mutex<ReferenceTable>,
}

#[derive(Default)]
struct ReferenceTable {
    targets: HashMap<ObjectKey, BTreeSet<ObjectKey>>,
    owners: HashMap<ObjectKey, BTreeSet<ObjectKey>>,
}

impl<K: KubeObject> ReferenceSet<K> {
    pub(super) fn new(bodies: Arc<Bodies<K>>) -> Self {
        Self { shared: Arc::new(ReferenceSetState { bodies, table: Mutex::default() }) }
    }

    /// Sets the objects to which `owner` refers. They replace its previous ones.
    pub fn set(&self, owner: &ObjectKey, targets: impl IntoIterator<Item = ObjectKey>) {
        let ReferenceSetState { bodies, table } = &*self.shared;
        let targets: BTreeSet<ObjectKey> = targets.into_iter().map(|key| bodies.scoped(&key)).collect();
        let mut table = table.lock();
        let before = table.targets.remove(owner).unwrap_or_default();
        // New references are added before old ones are removed, so that a body is not dropped in between.
        targets.difference(&before).for_each(|key| {
            bodies.add_reference(key);
            table.owners.entry(key.clone()).or_default().insert(owner.clone());
        });
        for key in before.difference(&targets) {
            bodies.remove_reference(key);
            if let Some(owners) = table.owners.get_mut(key) {
                owners.remove(owner);
                if owners.is_empty() {
                    table.owners.remove(key);
                }
            }
        }
        if !targets.is_empty() {
            table.targets.insert(owner.clone(), targets);
        }
    }

    /// Removes all references of `owner`.
    pub fn remove(&self, owner: &ObjectKey) {
        self.set(owner, []);
    }

    /// Returns the keys of the objects that refer to the object with this key, in order.
    pub fn owners(&self, key: &(impl AsRef<str> + ?Sized)) -> Vec<ObjectKey> {
        let table = self.shared.table.lock();
        table.owners.get(key.as_ref()).map(|owners| owners.iter().cloned().collect()).unwrap_or_default()
    }

    /// Returns the keys of the objects to which `owner` refers, in order.
    pub fn targets(&self, owner: &ObjectKey) -> Vec<ObjectKey> {
        let table = self.shared.table.lock();
        table.targets.get(owner).map(|targets| targets.iter().cloned().collect()).unwrap_or_default()
    }
}

impl<K: KubeObject> Drop for ReferenceSetState<K> {
    fn drop(&mut self) {
        let table = self.table.get_mut();
        table.targets.values().flatten().for_each(|key| self.bodies.remove_reference(key));
    }
}

impl<K: KubeObject> Clone for ReferenceSet<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: KubeObject> fmt::Debug for ReferenceSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.shared.table.lock();
        f.debug_struct("ReferenceSet")
            .field("owners", &table.targets.len())
            .field("targets", &table.owners.len())
            .finish()
    }
}
