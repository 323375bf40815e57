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
#[cfg(feature = "client")]
pub use informer_client::SharedInformerFactory;
pub use informer_store::{
    Indexer, Indexers, Lister, NamespacedLister, Snapshot, field, label, namespace, owner_uid,
};

/// The low-level controller between a queue and a process function; see [`informer_cache::controller`].
pub mod controller {
    pub use informer_cache::controller::{
        ControllerConfig, ControllerCounts, InformerController, MAX_RETRY_DELAY, MIN_RETRY_DELAY, Process,
        ProcessError, ProcessItem, SimpleInformer, SimpleInformerOptions, new_indexer_informer, new_informer,
        new_informer_with,
    };
}

/// The trait of event handlers, and adapters for closures; see [`informer_cache::handler`].
pub mod handler {
    pub use informer_cache::handler::{
        Blocking, EventHandler, Filtered, HandlerFuncs, MAX_BLOCKING_TIME, OnEvent, OnEventAsync, blocking,
        filtered, handler_funcs, on_event, on_event_async,
    };
}

/// The interface through which informers report metrics; see [`informer_cache::metrics`].
pub mod metrics {
    pub use informer_cache::metrics::{InformerMetrics, InformerProbe};

    /// The metrics of informers with prometheus-client; see [`informer_cache::metrics::prometheus`].
    #[cfg(feature = "prometheus")]
    pub mod prometheus {
        pub use informer_cache::metrics::prometheus::PrometheusInformers;
    }
}

/// Queues between a reflector and a controller; see [`informer_cache::queue`].
pub mod queue {
    pub use informer_cache::queue::{
        Batch, BatchReceipt, Delta, DeltaFifo, DeltaFifoConfig, Deltas, EnqueueError, Fifo, Heap,
        InOrderQueue, KeyFunction, NotQueued, Popped, Processed, Queue, QueueClosed, Receipt, ReflectorStore,
        Taken, Transform, TransformError,
    };
}

/// The configuration and the status of lists and watches; see [`informer_cache::reflector`].
pub mod reflector {
    pub use informer_cache::reflector::{
        BackoffConfig, EventCounts, MAX_EMPTY_PAGES, MAX_INITIAL_EVENTS_TIME, MAX_PAGE_RETRIES,
        MAX_RETRY_AFTER, MAX_SHORT_WATCHES, MAX_STREAMING_RETRIES, MAX_WATCH_SILENCE, MIN_WATCH_TIMEOUT,
        Paging, ReflectedStore, Reflector, ReflectorConfig, ReflectorError, ReflectorHandle, ReflectorPhase,
        ReflectorStatus, RelistCounts, RelistReason, SHORT_WATCH, ShouldResync, StreamingList, VersionHook,
        WatchErrorHandler,
    };
}

/// Indexed stores without an informer; see [`informer_store`].
pub mod store {
    pub use informer_store::{
        AddIndexersError, Borrowed, ByField, ByLabel, ByNamespace, ByOwnerUid, ExpirationCache,
        ExpirationPolicy, Fallible, IndexError, IndexFailure, IndexFn, IndexFnError, IndexKind, Indexer,
        Indexers, IndexersClaim, Lister, MutationCache, NAMESPACE_INDEX, NamespacedLister, NotFound,
        Snapshot, Store, StoreBuilder, StoreChange, StoreWriter, ThreadSafeStore, TransactionError, Ttl,
        UndeltaStore, UnknownIndex, borrowed, fallible, field, key_by, label, namespace, owner_uid, store,
    };
}

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
