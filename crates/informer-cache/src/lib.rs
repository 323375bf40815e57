//! Reflectors, delta queues and shared informers over any list and watch source.

pub mod queue;
pub mod source;

mod change;
mod event;
mod undecodable;

pub use change::{Change, Replacement};
pub use event::Event;
pub use undecodable::{Undecodable, UndecodableLog};
