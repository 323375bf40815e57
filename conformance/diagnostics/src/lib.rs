//! The kind and the types that the programs of this package share.
//!
//! The programs in `fail` do not compile, and `fail/NAME.txt` has the messages of this library that the
//! compiler prints for `fail/NAME.rs`. The programs in `pass` compile; they have the closures of the
//! documentation. `cargo xtask diagnostics` compiles all of them and compares the messages.

use informer::CustomResource;
use serde::{Deserialize, Serialize};

/// The spec of a [`Website`].
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, schema = "disabled")]
#[kube(crates(kube_core = "informer::kube_core", k8s_openapi = "informer::k8s_openapi"))]
pub struct WebsiteSpec {
    /// The container image.
    pub image: String,
}

/// A type that implements no trait of this library.
#[derive(Debug)]
pub struct Unrelated;
