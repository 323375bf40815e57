//! Managed fields and server-side apply: sets of fields, type checks of values, merging, and ownership. The
//! functions are pure: they use no clock, no lock and no server state.
//!
//! This module reimplements kube-apiserver's structured-merge-diff ([field
//! management](https://kubernetes.io/docs/reference/using-api/server-side-apply/)).

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
pub(crate) use managed::{Managed, ManagedFieldsOperation, ManagerId};
pub(crate) use merge::merge_unmanaged;
pub(crate) use set::Set;
pub(crate) use types::Type;
pub(crate) use update::{Applied, Applier, Conflict, Convert, Failed, Updater};
pub(crate) use walk::validate;
