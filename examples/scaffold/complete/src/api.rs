//! The custom kinds of this operator, one module for each.

pub mod shop;

use informer::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Returns the CRDs of all kinds. `tests/manifests.rs` compares them with the files in
/// `config/crd`.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![shop::crd()]
}
