//! `Website`, a kind of `example.com/v1`.

use informer::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use informer::kube_core::CustomResourceExt;
use informer::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The desired state of a Website.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Website",
    plural = "websites",
    namespaced,
    status = "WebsiteStatus",
    doc = "Runs an image in a Deployment.",
    printcolumn = r#"{"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"}"#,
    printcolumn = r#"{"name": "Available", "type": "integer", "jsonPath": ".status.availableReplicas"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    crates(
        kube_core = "informer::kube_core",
        k8s_openapi = "informer::k8s_openapi"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// The container image.
    #[schemars(length(min = 1))]
    pub image: String,
    /// The wanted number of replicas.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
}

/// Returns the CRD of this version.
pub fn crd() -> CustomResourceDefinition {
    Website::crd()
}

fn one() -> i32 {
    1
}

/// The observed state of a Website.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// The number of available replicas.
    pub available_replicas: i32,
}
