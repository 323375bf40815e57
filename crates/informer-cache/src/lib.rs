//! Reflectors, delta queues and shared informers over any list and watch source.
//!
//! A [`source`] answers what is there and what happens; a [`reflector`] turns that into [`Change`]s for a [`queue`]; the
//! [`pump`] applies them to an indexed store, whose only writer it is, and says what to announce as [`Event`]s; the
//! [`processor`] hands those to [`listener`]s, each with a buffer of its own, and they call the [`handler`]s. A
//! [`SharedInformer`] is all of it in one handle, and an [`InformerSet`] several of them.
//!
//! This crate knows neither HTTP nor Kubernetes' types: anything that lists and watches is a source. `informer-client` has
//! the one for API servers, and the facade `informer` re-exports both.
//!
//! # Guarantees
//!
//! - Per object, every handler sees a legal history: an add, updates whose old state is the new one of before, a delete.
//! - When a handler is called, the store shows that state or a later one.
//! - A list is applied whole or not at all; what it no longer has is announced as deleted, with the last known state.
//! - The state of one uid never goes back, except by a consistent read.
//! - User code runs under none of our locks, and its panics are contained and counted.
//!
//! Rules are pure state without a clock, a lock or a task ([`reflector::ReflectorState`], [`queue::InOrderState`], [`pump::Pump`],
//! [`listener::ListenerBuffer`]); the tasks around them only wait, read and write.

pub mod controller;
pub mod handler;
pub mod listener;
pub mod metrics;
pub mod processor;
pub mod pump;
pub mod queue;
pub mod reflector;
pub mod source;
pub mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

mod change;
mod event;
mod generic;
mod informer_set;
mod shared_informer;
mod state;
mod undecodable;

pub use change::{Change, Replacement};
pub use controller::{InformerController, new_indexer_informer, new_informer};
pub use event::Event;
pub use generic::{AnyObject, GenericEvent, GenericInformer, GenericLister, GenericRegistration};
pub use informer_set::InformerSet;
pub use listener::{BufferPolicy, HandlerOptions, HandlerState};
pub use processor::MIN_RESYNC_PERIOD;
pub use shared_informer::{
    AddHandlerError, EventStream, HandlerRegistration, InformerRun, MAX_HANDLERS, SharedIndexInformer,
    SharedInformer, SharedInformerBuilder,
};
pub use state::{InformerCrash, InformerState};
pub use sync::{CacheSynced, SyncError, Unsynced, wait_for_cache_sync};
pub use undecodable::{Undecodable, UndecodableLog};
