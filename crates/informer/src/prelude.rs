//! The types that most programs use, for a glob import: `use informer::prelude::*;`.

pub use informer_cache::handler::{EventHandler, on_event, on_event_async};
pub use informer_cache::{Event, HandlerOptions, SharedInformer, wait_for_cache_sync};
#[cfg(feature = "client")]
pub use informer_client::{Client, Dynamic, Lazy, Metadata, ReadOptions, SharedInformerFactory, Typed};
pub use informer_core::{FieldSelector, LabelSelector, Object, ObjectKey};
#[cfg(feature = "runtime")]
pub use informer_runtime::{Context, Controller, Manager, Outcome, ReconcileError, Request, ctrl_c};
pub use informer_store::{Lister, field, label, owner_uid};
#[cfg(feature = "derive")]
pub use kube_derive::CustomResource;
