//! Who manages which fields of an object: sets of fields, values held against their types, and what an apply makes of
//! them. Pure: no clock, no lock, nothing of the server.
//!
//! Upstream specifies this as structured merge and diff
//! ([field management](https://kubernetes.io/docs/reference/using-api/server-side-apply/)).

mod atomics;
mod compare;
mod created;
mod element;
mod managed;
mod merge;
mod remove;
mod set;
mod types;
mod update;
mod walk;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use atomics::atomics;
pub(crate) use element::Element;
pub(crate) use managed::{Managed, ManagerId, Operation};
pub(crate) use merge::laid_over;
pub(crate) use set::Set;
pub(crate) use types::Type;
pub(crate) use update::{Applied, Applier, Conflict, Convert, Failed, Updater};
pub(crate) use walk::{go_type, validate};
