//! Follows the CustomResourceDefinitions of the server. The informers of a kind whose CRD is deleted end, and
//! start again when the CRD returns.
//!
//! The deletion of a CRD before the first list of CRDs is not observed. A kind counts as missing if its lists
//! fail with 404 and the synced store of CRDs does not contain its CRD.
//!
//! # Invariants
//!
//! 1. While an informer of the table is not served, reads of it fail.
//! 2. Only a CRD deletion reported by the watch stops an informer. Kinds of built-in groups and of aggregated
//!    API servers have no CRD, so a missing CRD does not prove that the kind will not be served. An informer
//!    whose lists fail with 404 therefore continues with backoff, and is served again after a list that
//!    succeeds.
//!
//! # Shutdown
//!
//! The task ends when the cache is stopped or dropped.

use std::sync::Weak;
use std::time::Duration;

use informer_cache::{Event, SharedInformer};
use informer_client::{Client, KubeListWatch, Metadata};
use informer_core::Object;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::CacheInner;
use crate::ResourceKind;

/// The time between two checks for informers whose kind the server does not know.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// Returns the name of the CRD that a kind has if it is a custom resource.
pub(super) fn crd_name(kind: &ResourceKind) -> String {
    let gvr = kind.gvr();
    format!("{}.{}", gvr.resource, gvr.group)
}

/// Watches the metadata of CRDs, and reports additions, deletions and missing CRDs to the cache.
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
    let mut checks = tokio::time::interval(CHECK_PERIOD);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            event = events.next() => event,
            _ = checks.tick() => {
                let Some(cache) = cache.upgrade() else { return };
                if informer.has_synced() {
                    cache.check_missing(|crd| informer.indexer().contains(crd));
                }
                continue;
            }
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

    /// Compares the informers with the CRDs of the server, of which `has_crd` returns those that exist.
    fn check_missing(&self, has_crd: impl Fn(&str) -> bool) {
        let missing = self.table.lock().update_missing(has_crd);
        for kind in missing {
            tracing::warn!(kind, "the server does not serve a kind that has no CRD (404); reads of it fail");
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

#[cfg(test)]
mod tests {
    use informer_apiserver::ApiServer;

    use super::*;
    use crate::Cache;

    #[tokio::test(start_paused = true)]
    async fn reported_crd_deletion_ends_an_informer_already_marked_as_missing() {
        let server = ApiServer::builder().build();
        let cache = Cache::builder(Client::from_service(server.service(), "default")).follow_crds().build();
        cache.start();
        let kind = ResourceKind::new("example.com", "v1", "Widget", "widgets").namespaced();
        let informer = cache.dynamic(kind);
        let mut served = informer.served();
        served.wait_for(|served| !served).await.expect("the cache runs");
        let requests =
            || server.requests().iter().filter(|request| request.path.ends_with("/widgets")).count();
        let before = requests();
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(requests() > before, "the informer of a missing kind continues with backoff");

        // The watch of CRDs reports the deletion only now.
        cache.shared.crd_deleted("widgets.example.com");
        let before = requests();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(requests(), before, "the informer has ended");
        assert!(!informer.is_served());
    }
}
