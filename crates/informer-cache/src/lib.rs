//! Reflectors, delta queues and shared informers over any list and watch source.

pub mod queue;
pub mod reflector;
pub mod source;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

mod change;
mod event;
mod undecodable;

pub use change::{Change, Replacement};
pub use event::Event;
pub use undecodable::{Undecodable, UndecodableLog};
