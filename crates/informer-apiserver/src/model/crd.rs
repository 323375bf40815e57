//! CustomResourceDefinitions: their defaults and validation, the kinds that they define, and the conversion
//! of custom resources between versions.

pub(crate) mod conversion;
pub(crate) mod definition;
mod lifecycle;
pub(crate) mod names;

pub(crate) use conversion::{failed, read, review, shown, take};
pub(crate) use definition::{approval_condition, fill_crd, resources, update_crd, validate_crd};
pub(crate) use lifecycle::{CLEANUP_FINALIZER, init_crd_status, mark_crd_terminating};
pub(crate) use names::served_spec;
