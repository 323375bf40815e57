//! The reconcile functions of the simulated operator.

use std::collections::BTreeMap;

use informer_core::ObjectKey;
use informer_runtime::{Context, Outcome, ReconcileError, set_controller_reference};
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Acting;
use crate::sample::Sample;

/// The annotation of a Deployment that the sharded controller keeps equal to the Deployment's number of
/// replicas.
pub(crate) const SHARDED: &str = "sim.example.com/replicas";

/// Returns the content that the operator writes to the Secret of a ConfigMap with this data.
pub(crate) fn copy_of(data: Option<&BTreeMap<String, String>>) -> String {
    data.into_iter().flatten().map(|(name, value)| format!("{name}={value};")).collect()
}

/// Reconciles a ConfigMap: the ConfigMap owns a Secret of the same name with a copy of its data.
pub(super) async fn mirror(
    key: &ObjectKey,
    ctx: &Context,
    acting: &Acting,
) -> Result<Outcome, ReconcileError> {
    let _acts = acting.begin(format!("mirror of {key}"));
    let Some(map) = ctx.get::<ConfigMap>(key).await? else { return Ok(Outcome::Done) };
    if map.metadata.deletion_timestamp.is_some() {
        return Ok(Outcome::Done);
    }
    let (namespace, name) = (key.namespace().map(str::to_owned), Some(key.name().to_owned()));
    let metadata = ObjectMeta { namespace, name, ..ObjectMeta::default() };
    let secret = Secret { metadata, ..Secret::default() };
    let copy = ByteString(copy_of(map.data.as_ref()).into_bytes());
    ctx.client
        .create_or_update(secret, |secret| {
            set_controller_reference(&map, secret)?;
            secret.data.get_or_insert_default().insert("copy".to_owned(), copy);
            Ok(())
        })
        .await?;
    // The read waits for the write before it. If the write does not arrive in time, the read fails, and with
    // it the reconcile.
    drop(ctx.client.get::<Secret>(key).await?);
    Ok(Outcome::Done)
}

/// Reconciles a Deployment: keeps one of its annotations equal to its number of replicas.
pub(super) async fn stamp(
    key: &ObjectKey,
    ctx: &Context,
    acting: &Acting,
) -> Result<Outcome, ReconcileError> {
    let owned = ctx.clone();
    let may_act = move || owned.owned_key().is_none_or(|owned| owned.check().is_ok());
    let _acts = acting.begin_while(format!("stamp of {key}"), may_act);
    let Some(deployment) = ctx.get::<Deployment>(key).await? else { return Ok(Outcome::Done) };
    let replicas = deployment.spec.replicas.unwrap_or_default().to_string();
    let mut edited = deployment.edit();
    edited.metadata.annotations.get_or_insert_default().insert(SHARDED.to_owned(), replicas);
    if !edited.is_changed() {
        return Ok(Outcome::Done);
    }
    let paths = vec![format!("metadata.annotations.{SHARDED}")];
    let ticket = acting.intents.begin(&Deployment::gvr(), key.as_ref(), 0, ("stamper", paths));
    let updated = ctx.client.update(&edited).await?;
    let version = updated.metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
    acting.intents.completed(ticket, version.unwrap_or_default());
    Ok(Outcome::Done)
}
