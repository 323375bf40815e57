//! Compares the objects that the controllers of the replicas create or change with the expected ones.

use std::collections::BTreeMap;

use informer_core::Gvr;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::Value;

use super::{World, secrets};
use crate::auditor::key_of;
use crate::replicas::{SHARDED, copy_of};
use crate::sample::Sample;

impl World {
    /// Describes which results of the controllers are missing; `None` if no result is missing or the scenario
    /// has no replicas.
    pub(super) async fn controllers_difference(&self) -> Option<String> {
        self.replicas.as_ref()?;
        let expected: BTreeMap<String, String> = self
            .objects(&ConfigMap::gvr())
            .await
            .iter()
            .map(|map| (key_of(map), expected_copy(map)))
            .collect();
        let secrets = self.objects(&secrets()).await;
        let copies: BTreeMap<String, String> =
            secrets.iter().map(|secret| (key_of(secret), held_copy(secret))).collect();
        if expected != copies {
            return Some(format!("the Secrets hold {copies:?}; the ConfigMaps require {expected:?}"));
        }
        let deployments = self.objects(&Deployment::gvr()).await;
        let stamped = |deployment: &&Value| {
            let stamp = deployment["metadata"]["annotations"][SHARDED].as_str().unwrap_or_default();
            let replicas = deployment["spec"]["replicas"].to_string();
            stamp == replicas
        };
        let missed = deployments.iter().find(|deployment| !stamped(deployment))?;
        Some(format!("the sharded controller has not annotated {}: {}", key_of(missed), missed["metadata"]))
    }

    async fn objects(&self, gvr: &Gvr) -> Vec<Value> {
        self.raw.list(gvr).await.map(|list| list.0).unwrap_or_default()
    }
}

fn expected_copy(map: &Value) -> String {
    let data: Option<BTreeMap<String, String>> = serde_json::from_value(map["data"].clone()).ok();
    copy_of(data.as_ref())
}

fn held_copy(secret: &Value) -> String {
    let mut secret = secret.clone();
    secret["apiVersion"] = "v1".into();
    secret["kind"] = "Secret".into();
    let secret: Option<Secret> = serde_json::from_value(secret).ok();
    let copy = secret.and_then(|secret| secret.data?.remove("copy"));
    copy.map_or_else(String::new, |copy| String::from_utf8_lossy(&copy.0).into_owned())
}
