//! Managers, caches and controllers for Kubernetes, on shared informers.
//!
//! What controller-runtime is to client-go, this crate is to the informers of this project: a program that starts caches,
//! then controllers, in order, and that stops cleanly.

mod cache;
mod client;
mod events;
mod health;
mod http_server;
mod kind;
mod leader;
mod manager;
mod observed;
mod runnable;
mod signals;
#[cfg(feature = "webhook")]
pub mod webhook;

pub use cache::{
    Cache, CacheBuilder, CacheInformer, CacheRegistration, InformerOptions, InformerPart, ListOptions,
    MissingInformer, PartScope, ReadError, TypedIndex, typed,
};
pub use client::{
    Client, ClientBuilder, DeleteOptions, DynamicClient, Edited, Fetched, FieldValidation, Intercept,
    LiveReader, Next, Operation, OperationVerb, Page, Patch, Propagation, Subresource, WriteError,
};
pub use events::{EventRecorder, EventSubject, EventType};
pub use health::{HealthChecks, Heartbeat, Probe};
pub use http_server::{HttpServer, Tls, TlsError};
pub use kind::{KubeKind, KubeObject, ScopedKind};
pub use leader::{ElectionConfigError, Fence, LeaderElection, LeaderElector, LeaderLost, Leadership};
pub use manager::{AddError, Manager, ManagerError, ManagerHandle, ManagerStatus, PartError};
pub use runnable::{BoxError, FnRunnable, IntoRunnable, Runnable, RunnableGroup, runnable};
pub use signals::ctrl_c;
/// Ends what a manager runs.
pub use tokio_util::sync::CancellationToken;
