//! Managers, caches and controllers for Kubernetes, on shared informers.
//!
//! This crate has the role of controller-runtime on top of the informers of this workspace: a [`Manager`]
//! starts caches, then controllers, in order, and stops them cleanly.

pub mod client;
pub mod conditions;
#[cfg(feature = "console")]
pub mod console;
pub mod handler;
pub mod multicluster;
pub mod predicate;
pub mod source;
#[cfg(feature = "testing")]
pub mod testing;
pub mod wait;
#[cfg(feature = "webhook")]
pub mod webhook;

mod api_request;
mod cache;
mod causes;
#[cfg(all(feature = "certificates", any(feature = "ring", feature = "aws-lc-rs")))]
mod certificates;
mod clock;
mod controller;
mod error;
mod event_subject;
mod events;
mod finalizer;
mod health;
mod http_server;
mod instrumentation;
mod kind;
mod leader;
mod manager;
mod observers;
mod owner;
mod random;
mod runnable;
mod selector;
mod services;
mod shard;
mod signals;

pub use cache::{
    BODY_LEASE, BodyReference, Cache, CacheBuilder, CacheInformer, CacheRegistration, InformerOptions,
    InformerScope, ListOptions, MAX_BODY_FETCHES, MAX_BODY_LEASES, MissingInformer, ReferenceSet, Referenced,
    ReferencedState, ScopedInformer, TypedIndex, typed,
};
pub use causes::{CauseObject, Causes, ChangedPart, ReconcileCause};
#[cfg(all(feature = "certificates", any(feature = "ring", feature = "aws-lc-rs")))]
pub use certificates::ManagedCertificates;
pub use client::{
    CachedClient, ClientBuilder, ClientMetrics, DeleteOptions, DynamicClient, DynamicSubresource, Edited,
    Fetched, FieldValidation, GetOptions, Intercept, LiveReader, MAX_CONFLICT_ATTEMPTS, MaybeConflict,
    MetadataClient, Next, ObjectStream, Operation, OperationResult, OperationVerb, Page, Patch, Propagation,
    Subresource, WaitError, retry_on_conflict,
};
pub use controller::{
    BuildError, CleanupError, Context, Controller, ControllerBuilder, ControllerDefaults, ControllerError,
    ControllerHandle, ControllerOptions, ControllerPhase, ControllerState, Finalization, LookupError,
    Outcome, ReconcileCounts, ReconcileError, ReconcileId, ReconcilePanic, ReconcileTimeout, Reconciler,
    ShardState, TerminalError,
};
pub use error::{ReadError, WriteError};
pub use event_subject::EventSubject;
pub use events::{EventRecorder, EventSink, EventType, RecordedEvent};
pub use finalizer::{
    FinalizeError, Finalized, Finalizers, add_finalizer, contains_finalizer, remove_finalizer,
};
pub use health::{HealthChecks, Heartbeat, Probe};
pub use http_server::{HttpServer, ServerTls, Tls, TlsError, TlsOptions, TlsOptionsError, TlsVersion};
pub use informer_client::{ChangedFields, ResourceKind, StaticKind, StaticResource};
pub use informer_control::{ReconcileRequest, Request, Trigger};
pub use kind::KubeObject;
pub use leader::{
    Coordination, ElectionConfigError, Fence, LeaderElection, LeaderElector, LeaderLost, Leadership,
};
pub use manager::{
    AddError, IntoRunnable, Manager, ManagerError, ManagerHandle, ManagerStatus, RunnableError,
};
pub use owner::{
    Owner, OwnerError, has_controller_reference, has_owner_reference, remove_controller_reference,
    remove_owner_reference, set_controller_reference, set_owner_reference,
};
pub use runnable::{BoxError, FnRunnable, Runnable, RunnableGroup, runnable};
pub use selector::{LabelSelectorError, label_selector};
pub use services::Services;
pub use shard::{
    NotOwned, OwnedKey, ShardConfigError, ShardFence, ShardGroup, ShardMember, ShardView, Sharding,
};
pub use signals::ctrl_c;
/// The token that a manager cancels to stop a [`Runnable`]. It is re-exported from `tokio_util`.
pub use tokio_util::sync::CancellationToken;
