//! Reflectors, delta queues and shared informers over any list and watch source.

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
pub use controller::{Controller, new_indexer_informer, new_informer};
pub use event::Event;
pub use generic::{AnyObject, GenericEvent, GenericInformer, GenericLister};
pub use informer_set::InformerSet;
pub use listener::{BufferPolicy, HandlerOptions, HandlerState};
pub use processor::RESYNC_PERIOD_MIN;
pub use shared_informer::{
    AddHandlerError, EventStream, HANDLERS_MAX, HandlerRegistration, InformerRun, SharedIndexInformer,
    SharedInformer, SharedInformerBuilder,
};
pub use state::InformerState;
pub use sync::{CacheSynced, SyncError, Unsynced, wait_for_cache_sync};
pub use undecodable::{Undecodable, UndecodableLog};
