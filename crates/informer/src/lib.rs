//! Shared informers, indexed caches and work queues for Kubernetes controllers.
//!
//! Controllers live on the *informer*: it lists and watches one kind of object, keeps an indexed local copy, and tells any
//! number of handlers what changed. In Go that is client-go; this is it for Rust, with a cache that takes a fraction of
//! the memory, and with an API server to embed in tests.
//!
//! # An informer with an index and a handler
//!
//! ```no_run
//! # use std::time::Duration;
//! # use informer::{Client, Object, SharedInformerFactory, field, on_event};
//! # use k8s_openapi::api::core::v1::Pod;
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let factory = SharedInformerFactory::new(Client::try_default().await?);
//! let pods = factory.informer::<Pod>().index("node", field("spec.nodeName"));
//! pods.add_handler(on_event(|event| println!("{event}")))?;
//! factory.start();
//! factory.wait_for_cache_sync(Duration::from_secs(30)).await?;      // the error names what is stuck, and why
//! for pod in pods.lister().namespace("default").list(&"app in (web, api)".parse()?) { println!("{}", pod.key()); }
//! for pod in pods.by_index("node", "worker-1")? { println!("{}", pod.get()?.spec.as_ref().map_or(0, |s| s.containers.len())); }
//! # Ok(()) }
//! ```
//!
//! # Events as a stream
//!
//! ```no_run
//! # use informer::{Event, Lazy, SharedInformer};
//! # use k8s_openapi::api::core::v1::Pod;
//! # async fn example(pods: SharedInformer<Lazy<Pod>>) {
//! let mut events = pods.events();
//! while let Some(event) = events.next().await {
//!     match event {
//!         Event::Added { object, initial } => println!("+ {} {initial}", object.key()),
//!         Event::Updated { old, new, .. } => println!("{} -> {}", old.resource_version(), new.resource_version()),
//!         Event::Deleted { last, .. } => println!("- {}", last.key()),
//!     }
//! }
//! # }
//! # use informer::Object;
//! ```
//!
//! # A controller
//!
//! With the feature `runtime`:
//!
//! ```no_run
//! # #[cfg(feature = "runtime")]
//! # mod example {
//! # use std::time::Duration;
//! # use informer::runtime::{Controller, Manager, ManagerError, Outcome, ctrl_c};
//! # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap as Website};
//! # fn deployment_for(_: &Website) -> Deployment { Deployment::default() }
//! # async fn example(client: informer::Client) -> Result<(), ManagerError> {
//! Manager::new(client)
//!     .controller(Controller::new::<Website>("website").owns::<Deployment>().reconcile(|request, ctx| async move {
//!         let Some(site) = ctx.get::<Website>(&request.key).await? else { return Ok(Outcome::Done) };
//!         ctx.client.apply(&deployment_for(&site)).await?;
//!         Ok(Outcome::requeue_after(Duration::from_secs(60)))
//!     }))
//!     .run_until(ctrl_c())
//!     .await
//! # }
//! # }
//! ```
//!
//! # A test, without a cluster
//!
//! With the feature `testing`, see the module `testing`.
//!
//! # What is where
//!
//! | for | see |
//! |---|---|
//! | informers of a program | [`SharedInformerFactory`], [`SharedInformer`], [`InformerRun`], [`wait_for_cache_sync`] |
//! | handlers | [`on_event`], [`on_event_async`], [`blocking`], [`handler_funcs`], [`filtered`], [`HandlerOptions`] |
//! | reading the cache | [`Lister`], [`Indexer`], [`Snapshot`]; index functions [`field`], [`label`], [`owner_uid`] |
//! | the form of objects | [`Lazy`] (the default), [`Typed`], [`Dynamic`], [`Metadata`] |
//! | queues of keys and workers | [`workqueue`] |
//! | caches, managers, controllers | the module `runtime` (feature `runtime`) |
//! | sources that are not Kubernetes | [`source`] |
//! | the parts by themselves | [`reflector`], [`queue`], [`controller`], [`store`], [`pump`] |
//!
//! # Guarantees
//!
//! Per object, every handler sees a legal history, and the cache shows the state of an event, or a later one, when a
//! handler is told of it. A slow or panicking handler holds up nobody. Reads wait for nobody. Nothing that a server sends
//! makes the cache lose what it has. The contracts are on [`SharedInformer`], [`Event`] and [`reflector`].
//!
//! # Features
//!
//! `client` and `ring` (default), `aws-lc-rs`, `packed`, `prometheus`, `runtime`, `testing`, `webhook`. The version of `k8s-openapi` is chosen by the
//! program: depend on it with a feature such as `latest`.

#[cfg(feature = "testing")]
pub mod testing;

pub use informer_cache::handler::{
    EventHandler, HandlerFuncs, blocking, filtered, handler_funcs, on_event, on_event_async,
};
pub use informer_cache::{
    AddHandlerError, AnyObject, BufferPolicy, CacheSynced, Change, Event, EventStream, GenericEvent,
    GenericInformer, GenericLister, GenericRegistration, HandlerOptions, HandlerRegistration, HandlerState,
    InformerRun, InformerSet, InformerState, MAX_HANDLERS, MIN_RESYNC_PERIOD, Replacement,
    SharedIndexInformer, SharedInformer, SharedInformerBuilder, SyncError, Undecodable, UndecodableLog,
    Unsynced, wait_for_cache_sync,
};
pub use informer_cache::{controller, handler, listener, metrics, processor, pump, queue, reflector, source};
#[cfg(feature = "packed")]
pub use informer_client::Packed;
#[cfg(feature = "client")]
pub use informer_client::{
    Client, ClientError, ClientOptions, DecodeError, DiscoveredKind, Dynamic, Encoding, Encodings, HashKey,
    HashShares, HashSharesError, HeaderError, KubeListWatch, Lazy, Limits, Metadata, Origin, Pruning,
    RawObject, ReadOptions, Representation, RequestError, ResourceKind, SharedInformerFactory, SplitLists,
    StaticKind, StreamingLists, Typed, program_name,
};
pub use informer_core::{
    FieldOperator, FieldPath, FieldRequirement, FieldSelector, FieldSelectorProblem, Gvk, Gvr, Header,
    KeyError, LabelOperator, LabelRequirement, LabelSelector, Labels, Object, ObjectKey, OwnerReference,
    ParseFieldPathError, ParseFieldSelectorError, ParseGvError, ParseKeyError, ParseLabelSelectorError,
    ResourceVersion, Tombstone,
};
#[cfg(feature = "runtime")]
pub use informer_runtime::{
    self as runtime, Cache, CacheInformer, Context, Controller, ControllerOptions, Edited, Fetched,
    InformerOptions, KubeObject, ListOptions, Manager, Outcome, ReadError, ReconcileError, Reconciler,
    Request, WriteError, ctrl_c,
};
pub use informer_store::{
    self as store, Indexer, Indexers, Lister, NamespacedLister, Snapshot, field, label, namespace, owner_uid,
};
pub use informer_workqueue as workqueue;
/// Ends reflectors and controllers that run by themselves.
pub use tokio_util::sync::CancellationToken;
#[cfg(feature = "client")]
pub use {k8s_openapi, kube_client, kube_core};
