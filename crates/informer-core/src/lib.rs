//! The vocabulary of the `informer` crates: what identifies an object, what a cache knows of every
//! object without decoding it, and how objects are selected.
//!
//! | type | is |
//! |---|---|
//! | [`ObjectKey`] | namespace and name, the identity of a cached object |
//! | [`Header`], [`Object`] | what every representation of an object can tell without a decode |
//! | [`Labels`], [`OwnerReference`] | parts of the header |
//! | [`ResourceVersion`] | the version of an object or a list, comparable as Kubernetes 1.35 defines it |
//! | [`Gvk`], [`Gvr`] | names of kinds and resources |
//! | [`LabelSelector`], [`FieldSelector`], [`FieldPath`] | which objects, and which part of one |
//! | [`Tombstone`] | the last known state of an object that is gone |
//!
//! And what the crates above have to do alike: [`deadline`], [`fnv`], [`panics`].
//!
//! This crate knows neither tokio nor HTTP nor serde.
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
