//! Basic types of the `informer` crates: object keys, metadata that a cache reads without decoding an object,
//! and selectors.
//!
//! | type | is |
//! |---|---|
//! | [`ObjectKey`] | namespace and name: the identity of a cached object |
//! | [`Header`], [`Object`] | the metadata that every representation of an object has without decoding it |
//! | [`Labels`], [`OwnerReference`] | parts of the header |
//! | [`ResourceVersion`] | the version of an object or a list, comparable as Kubernetes 1.35 defines it |
//! | [`Gvk`], [`Gvr`] | group, version and kind; group, version and resource |
//! | [`LabelSelector`], [`FieldSelector`], [`FieldPath`] | selection of objects, and the path of one field |
//! | [`Tombstone`] | the last known state of a deleted object |
//!
//! Helpers that several crates share: [`deadline`], [`fnv`], [`panics`].
//!
//! This crate depends neither on tokio nor on an HTTP or serde crate.
//!
//! ```
//! use informer_core::{Header, LabelSelector, ObjectKey, Object};
//!
//! let key: ObjectKey = "default/web-0".parse()?;
//! assert_eq!((key.namespace(), key.name()), (Some("default"), "web-0"));
//!
//! let pod = Header::new(key).with_version("17").with_labels([("app", "web")]);
//! let selector: LabelSelector = "app in (web, api), !canary".parse()?;
//! assert!(selector.matches(pod.labels()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod deadline;
mod field_path;
pub mod fnv;
mod gvk;
mod header;
mod key;
mod labels;
mod object;
mod packed_strings;
pub mod panics;
pub mod random;
mod selector;
mod tombstone;
mod version;

pub use field_path::{FieldPath, ParseFieldPathError};
pub use gvk::{Gvk, Gvr, ParseGvError};
pub use header::{Header, OwnerReference};
pub use key::{KeyError, ObjectKey, ParseKeyError};
pub use labels::Labels;
pub use object::Object;
pub use selector::field::{
    FieldOperator, FieldRequirement, FieldSelector, FieldSelectorProblem, ParseFieldSelectorError,
};
pub use selector::label::{LabelOperator, LabelRequirement, LabelSelector};
pub use selector::parse::ParseLabelSelectorError;
pub use tombstone::Tombstone;
pub use version::ResourceVersion;
