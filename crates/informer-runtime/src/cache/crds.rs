//! Follows the CustomResourceDefinitions of the server. The informers of a kind whose CRD is deleted end, and
//! start again when the CRD returns.
//!
//! # Invariants
//!
//! 1. While an informer of the table is not served, it does not run, and reads of it fail.
//! 2. Only a deletion that the watch of CRDs shows ends an informer. Kinds of built-in groups and of
//!    aggregated API servers have no CRD, so a missing CRD proves nothing.
//!
//! # Shutdown
//!
//! The task ends when the cache is stopped or dropped.

use std::sync::Weak;

use informer_cache::{Event, SharedInformer};
use informer_client::{Client, KubeListWatch, Metadata};
use informer_core::Object;
use tokio_util::sync::CancellationToken;

use super::CacheInner;
use crate::ResourceKind;

/// Returns the name of the CRD that a kind has if it is a custom resource.
pub(super) fn crd_name(kind: &ResourceKind) -> String {
    let gvr = kind.gvr();
    format!("{}.{}", gvr.resource, gvr.group)
}

/// Watches the metadata of CRDs, and reports additions and deletions to the cache.
pub(super) async fn follow(cache: Weak<CacheInner>, client: Client, stop: CancellationToken) {
    let kind = ResourceKind::new(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    );
    let informer = SharedInformer::builder(KubeListWatch::<Metadata>::of(client, kind))
        .name("customresourcedefinitions of a cache")
        .build();
    let mut events = informer.events();
    let _run = informer.start();
    loop {
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            event = events.next() => event,
        };
        let (Some(event), Some(cache)) = (event, cache.upgrade()) else { return };
        match event {
            Event::Added { object, .. } => cache.crd_appeared(object.key().name()),
            Event::Deleted { last, .. } => cache.crd_deleted(last.key().name()),
            Event::Updated { .. } => {}
        }
    }
}

impl CacheInner {
    /// Ends the informers of a kind whose CRD was deleted.
    fn crd_deleted(&self, name: &str) {
        let (runs, ended) = self.table.lock().end_unserved(name);
        drop(runs);
        if ended > 0 {
            tracing::warn!(crd = name, "stopped the informers of a kind whose CRD was deleted");
        }
    }

    /// Starts the informers of a kind whose CRD was created. An informer that was created before the CRD
    /// starts again, so that it does not wait until the end of its backoff.
    fn crd_appeared(&self, name: &str) {
        let started = self.table.lock().start_served(name);
        if started > 0 {
            tracing::info!(crd = name, "started the informers of a kind whose CRD was created");
        }
    }
}
