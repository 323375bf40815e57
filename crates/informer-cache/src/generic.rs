//! Informers and listers without the type of their objects, for code that handles arbitrary kinds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use informer_core::{LabelSelector, Object, ObjectKey};
use informer_store::{AddIndexersError, IndexError, IndexFn, IndexFnError, Indexers};
use tokio::sync::watch;

use crate::any_object::AnyObject;
use crate::handler::on_event;
use crate::sync::{CacheSynced, Unsynced};
use crate::{
    AddHandlerError, Event, HandlerOptions, HandlerRegistration, HandlerState, InformerRun, InformerState,
    SharedInformer, SyncError,
};

/// An event for an object of unknown type.
#[derive(Clone)]
#[non_exhaustive]
pub enum GenericEvent {
    /// An object was added to the cache, as in [`Event::Added`].
    Added {
        /// The state of the object with which it was added to the cache.
        object: AnyObject,
        /// True if the object is in the first list, or is replayed to a handler that was added later.
        initial: bool,
    },
    /// A cached object changed or is replayed, as in [`Event::Updated`].
    Updated {
        /// The state of the object in the cache before this update. It is the newest state of the previous
        /// event of the object.
        old: AnyObject,
        /// The state of the object in the cache after this update. In a resync it is the same as `old`.
        new: AnyObject,
        /// True if the event is a resync: the object did not change, but the handler's resync period has
        /// elapsed.
        resync: bool,
    },
    /// An object was removed from the cache, as in [`Event::Deleted`].
    Deleted {
        /// The last known state of the deleted object.
        last: AnyObject,
        /// True if the watch missed the deletion, so that `last` may be older than the final state of the
        /// object.
        stale: bool,
    },
}

impl GenericEvent {
    /// Returns the newest state of the object in the event.
    pub fn object(&self) -> &AnyObject {
        match self {
            Self::Added { object, .. } => object,
            Self::Updated { new, .. } => new,
            Self::Deleted { last, .. } => last,
        }
    }

    /// Returns the key of the object.
    pub fn key(&self) -> &ObjectKey {
        self.object().key()
    }
}

impl<O: Object> From<Event<O>> for GenericEvent {
    fn from(event: Event<O>) -> Self {
        match event {
            Event::Added { object, initial } => Self::Added { object, initial },
            Event::Updated { old, new, resync } => Self::Updated { old, new, resync },
            Event::Deleted { last, stale } => Self::Deleted { last, stale },
        }
    }
}

impl fmt::Debug for GenericEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Added { .. } => "Added",
            Self::Updated { .. } => "Updated",
            Self::Deleted { .. } => "Deleted",
        };
        write!(f, "{word}({} @{})", self.key(), self.object().resource_version())
    }
}

/// A [`SharedInformer`] without the type of its objects. Upstream:
/// [`GenericInformer`](https://pkg.go.dev/k8s.io/client-go/informers#GenericInformer).
#[derive(Clone)]
pub struct GenericInformer(Arc<dyn ObjectInformer>);

impl GenericInformer {
    pub(crate) fn new(informer: Arc<dyn ObjectInformer>) -> Self {
        Self(informer)
    }

    /// Adds a handler that must not block. It stays registered until [`GenericRegistration::remove`];
    /// dropping the registration does not remove it.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// use std::time::Duration;
    /// use informer_cache::testing::{StaticSource, object};
    /// use informer_cache::{GenericInformer, HandlerOptions, SharedInformer};
    ///
    /// let informer = SharedInformer::new(StaticSource::new([object("default/web", "1")], "1"));
    /// let informer = GenericInformer::from(informer);
    /// let handler = informer.add_handler(HandlerOptions::new(), |event| println!("{event:?}"))?;
    /// let run = informer.start();
    /// handler.wait_for_sync(Duration::from_secs(5)).await?;
    /// assert_eq!(handler.state().calls, 1);
    /// handler.remove();
    /// assert!(informer.state().handlers.is_empty());
    /// run.stop().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The same errors as [`SharedInformer::add_handler`].
    pub fn add_handler(
        &self,
        options: HandlerOptions,
        handler: impl FnMut(GenericEvent) + Send + 'static,
    ) -> Result<GenericRegistration, AddHandlerError> {
        self.0.add_handler(options, Box::new(handler)).map(GenericRegistration)
    }

    /// Adds an index, before or while the informer runs. The function calls its second argument with each
    /// value of an object.
    ///
    /// # Errors
    ///
    /// Returns an error if the informer has an index with this name.
    pub fn add_index(
        &self,
        name: impl Into<Arc<str>>,
        function: impl Fn(&dyn Object, &mut dyn FnMut(&str)) + Send + Sync + 'static,
    ) -> Result<(), AddIndexersError> {
        self.0.add_index(name.into(), Arc::new(function))
    }

    /// Returns the objects with `value` in the index `name`, in no particular order.
    ///
    /// # Errors
    ///
    /// Returns an error if the informer has no index with this name.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<AnyObject>, IndexError> {
        self.0.by_index(name, value)
    }

    /// Returns a read view of the cache, for lookups by namespace, name and label selector.
    pub fn lister(&self) -> GenericLister {
        GenericLister { informer: Arc::clone(&self.0), namespace: None }
    }

    /// Returns true if the cache contains the first list of the current run.
    pub fn has_synced(&self) -> bool {
        *self.0.as_cache().synced().borrow()
    }

    /// Waits until the informer has synced, like [`SharedInformer::wait_for_sync`].
    ///
    /// # Errors
    ///
    /// The same errors as [`SharedInformer::wait_for_sync`].
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        crate::sync::wait_for_cache_sync([self.0.as_cache()], timeout).await
    }

    /// Starts the informer, like [`SharedInformer::start`].
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime with time enabled.
    #[track_caller]
    pub fn start(&self) -> InformerRun {
        self.0.start()
    }

    /// Returns the state of the informer, like [`SharedInformer::state`].
    pub fn state(&self) -> InformerState {
        self.0.state()
    }
}

impl<O: Object> From<SharedInformer<O>> for GenericInformer {
    fn from(informer: SharedInformer<O>) -> Self {
        Self(Arc::new(informer))
    }
}

/// A [`HandlerRegistration`] without the type of the objects. Dropping it does not remove the handler;
/// [`remove`](Self::remove) does.
pub struct GenericRegistration(Box<dyn ObjectRegistration>);

impl GenericRegistration {
    /// Returns true once the handler has synced, like [`HandlerRegistration::has_synced`].
    pub fn has_synced(&self) -> bool {
        *self.0.synced().borrow()
    }

    /// Waits until the handler has synced, like [`HandlerRegistration::wait_for_sync`].
    ///
    /// # Errors
    ///
    /// The same errors as [`HandlerRegistration::wait_for_sync`].
    pub async fn wait_for_sync(&self, timeout: Duration) -> Result<(), SyncError> {
        crate::sync::wait_for_cache_sync([self as &dyn CacheSynced], timeout).await
    }

    /// Removes the handler, like [`HandlerRegistration::remove`].
    pub fn remove(&self) {
        self.0.remove();
    }

    /// Removes the handler and waits for its current call, like [`HandlerRegistration::remove_and_wait`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe like [`HandlerRegistration::remove_and_wait`].
    pub async fn remove_and_wait(&self) {
        self.0.remove_and_wait().await;
    }

    /// Returns the counters of the handler, like [`HandlerRegistration::state`].
    pub fn state(&self) -> HandlerState {
        self.0.state()
    }
}

impl CacheSynced for GenericRegistration {
    fn synced(&self) -> watch::Receiver<bool> {
        self.0.synced()
    }

    fn describe(&self) -> Unsynced {
        self.0.describe()
    }
}

impl fmt::Debug for GenericRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenericRegistration").field("state", &self.state()).finish_non_exhaustive()
    }
}

/// A lister without the type of its objects. Upstream:
/// [`GenericLister`](https://pkg.go.dev/k8s.io/client-go/tools/cache#GenericLister).
#[derive(Clone)]
pub struct GenericLister {
    informer: Arc<dyn ObjectInformer>,
    namespace: Option<Arc<str>>,
}

impl GenericLister {
    /// Returns a copy of the lister that is restricted to a namespace.
    pub fn namespace(&self, namespace: impl Into<Arc<str>>) -> Self {
        Self { informer: Arc::clone(&self.informer), namespace: Some(namespace.into()) }
    }

    /// Returns the objects that match the selector, in no particular order.
    pub fn list(&self, selector: &LabelSelector) -> Vec<AnyObject> {
        self.informer.list(self.namespace.as_deref(), selector)
    }

    /// Returns one object. `name` is the name of the object if the lister has a namespace, otherwise its key.
    pub fn get(&self, name: &str) -> Option<AnyObject> {
        match &self.namespace {
            Some(namespace) => self.informer.get(&format!("{namespace}/{name}")),
            None => self.informer.get(name),
        }
    }
}

impl fmt::Debug for GenericInformer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GenericInformer").field(&self.0.state().name).finish()
    }
}

impl fmt::Debug for GenericLister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenericLister").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

type GenericIndexFn = Arc<dyn Fn(&dyn Object, &mut dyn FnMut(&str)) + Send + Sync>;

/// An index function that does not know the type of its objects.
struct GenericIndex(GenericIndexFn);

impl<O: Object> IndexFn<O> for GenericIndex {
    fn index(&self, object: &O, emit: &mut dyn FnMut(&str)) -> Result<(), IndexFnError> {
        (self.0)(object, emit);
        Ok(())
    }
}

/// The methods of a [`SharedInformer`] without the type of its objects.
pub(crate) trait ObjectInformer: Send + Sync {
    fn start(&self) -> InformerRun;
    fn as_cache(&self) -> &dyn CacheSynced;
    fn state(&self) -> InformerState;
    fn add_handler(
        &self,
        options: HandlerOptions,
        handler: Box<dyn FnMut(GenericEvent) + Send>,
    ) -> Result<Box<dyn ObjectRegistration>, AddHandlerError>;
    fn add_index(&self, name: Arc<str>, function: GenericIndexFn) -> Result<(), AddIndexersError>;
    fn by_index(&self, name: &str, value: &str) -> Result<Vec<AnyObject>, IndexError>;
    fn get(&self, key: &str) -> Option<AnyObject>;
    fn list(&self, namespace: Option<&str>, selector: &LabelSelector) -> Vec<AnyObject>;
}

impl<O: Object> ObjectInformer for SharedInformer<O> {
    #[track_caller]
    fn start(&self) -> InformerRun {
        SharedInformer::start(self)
    }

    fn as_cache(&self) -> &dyn CacheSynced {
        self
    }

    fn state(&self) -> InformerState {
        SharedInformer::state(self)
    }

    fn add_handler(
        &self,
        options: HandlerOptions,
        mut handler: Box<dyn FnMut(GenericEvent) + Send>,
    ) -> Result<Box<dyn ObjectRegistration>, AddHandlerError> {
        let handler = on_event(move |event: Event<O>| handler(event.into()));
        Ok(Box::new(self.add_handler_with(options, handler)?))
    }

    fn add_index(&self, name: Arc<str>, function: GenericIndexFn) -> Result<(), AddIndexersError> {
        self.add_indexers(Indexers::new().index(name, GenericIndex(function)))
    }

    fn by_index(&self, name: &str, value: &str) -> Result<Vec<AnyObject>, IndexError> {
        let objects = Self::by_index(self, name, value)?;
        Ok(objects.into_iter().map(|object| object as AnyObject).collect())
    }

    fn get(&self, key: &str) -> Option<AnyObject> {
        self.indexer().get(key).map(|object| object as AnyObject)
    }

    fn list(&self, namespace: Option<&str>, selector: &LabelSelector) -> Vec<AnyObject> {
        let objects = match namespace {
            Some(namespace) => self.lister().namespace(namespace).list(selector),
            None => self.lister().list(selector),
        };
        objects.into_iter().map(|object| object as AnyObject).collect()
    }
}

/// The methods of a [`HandlerRegistration`] without the type of its objects.
pub(crate) trait ObjectRegistration: CacheSynced {
    fn remove(&self);
    fn remove_and_wait(&self) -> BoxFuture<'_, ()>;
    fn state(&self) -> HandlerState;
}

impl<O: Object> ObjectRegistration for HandlerRegistration<O> {
    fn remove(&self) {
        Self::remove(self);
    }

    fn remove_and_wait(&self) -> BoxFuture<'_, ()> {
        Box::pin(Self::remove_and_wait(self))
    }

    fn state(&self) -> HandlerState {
        Self::state(self)
    }
}
