//! Informers and their caches: shared informers, handlers, listers, indexes.
//!
//! | for | see |
//! |---|---|
//! | the informers of a program | [`SharedInformerFactory`] (feature `client`), [`InformerSet`], [`wait_for_cache_sync`] |
//! | one informer | [`SharedInformer`], [`SharedInformerBuilder`], [`InformerRun`], [`InformerState`] |
//! | handlers | [`on_event`], [`on_event_async`], [`blocking`], [`handler_funcs`], [`filtered`], [`HandlerOptions`] |
//! | events as a stream | [`SharedInformer::events`], [`EventStream`] |
//! | reading the cache | [`Lister`], [`NamespacedLister`], [`Indexer`], [`Snapshot`] |
//! | index functions | [`field`], [`label`], [`namespace`], [`owner_uid`] |
//! | the types of client-go's package `tools/cache` | [`client_go`] |
//!
//! The module [`reflector`] has the configuration and the status of lists and watches, [`metrics`] the
//! metrics of informers, [`handler`] the trait of handlers, [`store`] the indexed store without an informer.

pub use informer_cache::handler::{
    EventHandler, HandlerFuncs, blocking, filtered, handler_funcs, on_event, on_event_async,
};
pub use informer_cache::{
    AddHandlerError, AmbiguousInformer, AnyObject, BufferPolicy, CacheSynced, Change, Event, EventStream,
    GenericEvent, GenericInformer, GenericLister, GenericRegistration, HandlerLatency, HandlerOptions,
    HandlerRegistration, HandlerState, InformerCrash, InformerLease, InformerRun, InformerSet, InformerState,
    MAX_HANDLERS, MIN_RESYNC_PERIOD, PumpCounters, Replacement, SharedIndexInformer, SharedInformer,
    SharedInformerBuilder, SyncError, Undecodable, UndecodableLog, Unsynced, wait_for_cache_sync,
};
pub use informer_cache::{controller, handler, metrics, queue, reflector};
#[cfg(feature = "client")]
pub use informer_client::SharedInformerFactory;
pub use informer_store::{
    self as store, Indexer, Indexers, Lister, NamespacedLister, Snapshot, field, label, namespace, owner_uid,
};

/// The types of client-go's package [`tools/cache`](https://pkg.go.dev/k8s.io/client-go/tools/cache), under
/// their names there.
///
/// A [`SharedInformer`] contains all of these parts that a program usually needs. These types are for
/// programs that are ported from Go, and for those that assemble their own pipeline. In such a pipeline, a
/// [`Reflector`](client_go::Reflector) lists and watches a kind, and feeds a queue or a store.
///
/// | client-go | here | used in Go for | usually better |
/// |---|---|---|---|
/// | `Reflector` | [`Reflector`](client_go::Reflector) | filling a store without an informer | [`SharedInformer`] |
/// | `DeltaFIFO` | [`DeltaFifo`](client_go::DeltaFifo) | all changes of an object since it was last taken | [`SharedInformer`], which has an ordered queue of its own |
/// | `FIFO` | [`Fifo`](client_go::Fifo) | the newest state of each object, in order of arrival | a [work queue](crate::workqueue) of keys |
/// | `Heap` | [`Heap`](client_go::Heap) | the newest state of each object, in an order of the program | a work queue with priorities |
/// | `Controller`, `NewInformer` | [`InformerController`](client_go::InformerController), [`new_informer`](client_go::new_informer) | one handler, no sharing | [`SharedInformer`] |
/// | `ExpirationCache`, `TTLStore` | [`ExpirationCache`](client_go::ExpirationCache) | objects with a time to live | |
/// | `MutationCache` | [`MutationCache`](client_go::MutationCache) | reading own writes before the watch delivers them | the client of a manager, which does so itself |
/// | `UndeltaStore` | [`UndeltaStore`](client_go::UndeltaStore) | the whole state after each change | [`Snapshot`] |
/// | `ThreadSafeStore` | [`ThreadSafeStore`](client_go::ThreadSafeStore) | an indexed store under keys of the program | [`store::store`] |
pub mod client_go {
    pub use informer_cache::controller::{
        InformerController, SimpleInformerOptions, new_indexer_informer, new_informer, new_informer_with,
    };
    pub use informer_cache::queue::{DeltaFifo, Fifo, Heap, ReflectorStore};
    pub use informer_cache::reflector::Reflector;
    pub use informer_store::{ExpirationCache, MutationCache, Store, ThreadSafeStore, UndeltaStore};
}
