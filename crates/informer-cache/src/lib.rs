//! Reflectors, delta queues and shared informers over any list and watch source.
//!
//! The parts, in the order of the data flow:
//!
//! - A [`source`] lists and watches objects.
//! - A [`reflector`] turns lists and watch events into [`Change`]s and writes them to a [`queue`].
//! - The pump applies changes to an indexed store, whose only writer it is, and returns [`Event`]s.
//! - The processor distributes events to listeners. Each listener has its own buffer and calls one
//!   [`handler`].
//!
//! A [`SharedInformer`] combines all of these parts in one handle. An [`InformerSet`] holds several
//! informers.
//!
//! This crate depends neither on HTTP nor on Kubernetes types: a source is anything that implements the
//! traits of [`source`]. `informer-client` implements them for API servers. The facade `informer` re-exports
//! both crates.
//!
//! # Guarantees
//!
//! - For each object, every handler receives a legal history: an add, then updates, then a delete. The old
//!   state of an update is the new state of the previous event.
//! - When a handler is called for an event, the store shows the state of that event or a later one.
//! - A list is applied completely or not at all. Objects missing from it are announced as deleted, with the
//!   last known state.
//! - The cached state of one uid never goes back to an older one, except by a consistent read.
//! - User code (handlers, hooks, transforms) runs under no lock of this crate. Its panics are contained and
//!   counted.
//!
//! The logic is sans-io: the state machines use no clock and no task, and take no lock. The tasks that call
//! them only wait, read and write. [`proto`] has the state machines, for simulators.

pub mod controller;
pub mod handler;
pub mod metrics;
pub mod proto;
pub mod queue;
pub mod reflector;
pub mod source;
pub mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

mod any_object;
mod change;
mod event;
mod generic;
mod informer_set;
mod listener;
mod processor;
mod pump;
mod shared_informer;
mod state;
mod undecodable;

pub use any_object::AnyObject;
pub use change::{Change, Replacement};
pub use controller::{InformerController, new_indexer_informer, new_informer};
pub use event::Event;
pub use generic::{GenericEvent, GenericInformer, GenericLister, GenericRegistration};
pub use informer_set::{AmbiguousInformer, InformerLease, InformerSet};
pub use listener::{BufferPolicy, HandlerLatency, HandlerOptions, HandlerState};
pub use processor::MIN_RESYNC_PERIOD;
pub use pump::PumpCounters;
pub use shared_informer::{
    AddHandlerError, EventStream, HandlerRegistration, InformerRun, MAX_HANDLERS, SharedIndexInformer,
    SharedInformer, SharedInformerBuilder,
};
pub use state::{InformerCrash, InformerState};
pub use sync::{CacheSynced, SyncError, Unsynced, wait_for_cache_sync};
pub use undecodable::{Undecodable, UndecodableLog};
