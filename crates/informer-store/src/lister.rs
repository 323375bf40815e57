use std::fmt;
use std::sync::Arc;

use informer_core::{LabelSelector, Object};

use crate::Indexer;
use crate::error::NotFound;

/// A read view of a store that returns objects by namespace, name and labels.
///
/// A list scans the smallest set that the indexes allow: the objects of its namespace if the store has a
/// [`namespace`](crate::namespace) index, or the objects with one label value if the store has a
/// [`label`](crate::label) index for a requirement of the selector (`=` or `in`). Without such an index it
/// scans all objects. Lists are unordered.
///
/// ```
/// use informer_core::Header;
/// use informer_store::{StoreBuilder, StoreChange, label, namespace};
///
/// let mut pods = StoreBuilder::new()
///     .resource("pods").index("namespace", namespace()).index("app", label("app")).writer();
/// let web = Header::new("default/web-0".parse()?).with_labels([("app", "web")]);
/// pods.apply([StoreChange::upsert(web.into())])?;
///
/// let lister = pods.lister().namespace("default");
/// assert_eq!(lister.list(&"app in (web, api)".parse()?).len(), 1);
/// assert!(lister.get("web-0").is_ok());
/// assert_eq!(lister.get("web-9").unwrap_err().to_string(), "pods \"default/web-9\" not found in the cache");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Lister<O> {
    indexer: Indexer<O>,
}

impl<O: Object> Indexer<O> {
    /// Returns a [`Lister`] of this store, which reads objects by namespace, name and labels.
    pub fn lister(&self) -> Lister<O> {
        Lister { indexer: self.clone() }
    }
}

impl<O: Object> Lister<O> {
    /// Returns the objects of all namespaces whose labels match the selector.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<O>> {
        self.indexer.list_selected(None, selector)
    }

    /// Returns the object with this key: `namespace/name`, or the name of a cluster-scoped object.
    ///
    /// # Errors
    ///
    /// Returns an error if the cache does not contain the object.
    pub fn get(&self, key: &(impl AsRef<str> + ?Sized)) -> Result<Arc<O>, NotFound> {
        let not_found =
            || NotFound { resource: self.indexer.resource().into(), key: key.as_ref().to_owned() };
        self.indexer.get(key).ok_or_else(not_found)
    }

    /// Returns a lister of one namespace; an empty namespace means all namespaces.
    pub fn namespace(&self, namespace: impl Into<Arc<str>>) -> NamespacedLister<O> {
        NamespacedLister { lister: self.clone(), namespace: namespace.into() }
    }
}

/// A [`Lister`] that returns only the objects of one namespace, or those of all namespaces if the namespace
/// is empty.
pub struct NamespacedLister<O> {
    lister: Lister<O>,
    namespace: Arc<str>,
}

impl<O: Object> NamespacedLister<O> {
    /// Returns the objects of the namespace whose labels match the selector.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<O>> {
        let namespace = Some(&*self.namespace).filter(|namespace| !namespace.is_empty());
        self.lister.indexer.list_selected(namespace, selector)
    }

    /// Returns the object with this name in the namespace.
    ///
    /// # Errors
    ///
    /// Returns an error if the cache does not contain the object.
    pub fn get(&self, name: &str) -> Result<Arc<O>, NotFound> {
        match &*self.namespace {
            "" => self.lister.get(name),
            namespace => self.lister.get(&[namespace, "/", name].concat()),
        }
    }
}

impl<O> Clone for Lister<O> {
    fn clone(&self) -> Self {
        Self { indexer: self.indexer.clone() }
    }
}

impl<O> Clone for NamespacedLister<O> {
    fn clone(&self) -> Self {
        Self { lister: self.lister.clone(), namespace: self.namespace.clone() }
    }
}

impl<O: Object> fmt::Debug for Lister<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lister").field(&self.indexer).finish()
    }
}

impl<O: Object> fmt::Debug for NamespacedLister<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespacedLister")
            .field("indexer", &self.lister.indexer)
            .field("namespace", &self.namespace)
            .finish()
    }
}
