//! Shared informers, indexed caches and work queues for Kubernetes controllers.
pub use informer_cache::handler::{
    EventHandler, blocking, filtered, handler_funcs, on_event, on_event_async,
};
pub use informer_cache::{
    AddHandlerError, AnyObject, BufferPolicy, CacheSynced, Event, EventStream, GenericEvent, GenericInformer,
    GenericLister, HandlerOptions, HandlerRegistration, HandlerState, InformerRun, InformerSet,
    InformerState, SharedIndexInformer, SharedInformer, SharedInformerBuilder, SyncError, Undecodable,
    Unsynced, wait_for_cache_sync,
};
pub use informer_cache::{listener, metrics, processor, pump, queue, reflector, source};
#[cfg(feature = "client")]
pub use informer_client::{
    Client, ClientError, ClientOptions, DecodeError, Dynamic, KubeListWatch, Lazy, Limits, Metadata, Pruning,
    ReadOptions, Representation, ResourceKind, SharedInformerFactory, StaticKind, StreamingLists, Typed,
};
pub use informer_core::*;
pub use informer_store as store;
pub use informer_store::{
    Indexer, Indexers, Lister, NamespacedLister, Snapshot, field, label, namespace, owner_uid,
};
pub use informer_workqueue as workqueue;
#[cfg(feature = "client")]
pub use {k8s_openapi, kube_client, kube_core};
#[cfg(feature = "testing")]
pub mod testing;
