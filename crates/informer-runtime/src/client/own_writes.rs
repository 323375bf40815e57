//! Decides which writes of the program later reads must show, and makes reads wait for them. The cache
//! records these writes (`cache/own_writes.rs`).

use std::time::Duration;

use informer_client::Representation;
use informer_core::ResourceVersion;
use serde_json::Value;
use tokio::time::Instant;

use super::{CachedClient, ClientMetrics, Operation, OperationVerb};
use crate::cache::own_writes::{OwnWrite, Scope, Ticket};
use crate::kind::object_key;
use crate::{CacheInformer, ListOptions, ReadError, ResourceKind};

impl Operation {
    /// Returns true if the operation is a write that later reads must show. This excludes dry runs, deletions
    /// of collections, and creations of a subresource such as an eviction.
    pub(super) fn is_own_write(&self) -> bool {
        let below = self.verb == OperationVerb::Create && self.subresource.is_some();
        let dry_run = self.query.iter().any(|(name, _)| name == "dryRun");
        self.verb.is_write() && self.verb != OperationVerb::DeleteCollection && !below && !dry_run
    }

    /// Returns the write that a successful response confirms, so that the cache can record it. `None` if
    /// neither the response nor the operation has a valid name of an object.
    pub(super) fn own_write<'a>(&'a self, response: &'a Value, began: Ticket) -> Option<OwnWrite<'a>> {
        let metadata = &response["metadata"];
        let name = metadata["name"].as_str().or(self.name.as_deref())?;
        let key = object_key(&self.kind, self.namespace.as_deref(), name)?;
        let deletes = self.verb == OperationVerb::Delete;
        let uid = metadata["uid"].as_str().or(response["details"]["uid"].as_str().filter(|_| deletes));
        let has_finalizers =
            metadata["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
        let has_grace_period = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() > 0;
        let removed =
            (metadata["deletionTimestamp"].is_string() || deletes) && !has_finalizers && !has_grace_period;
        // The response to a write of a subresource may be of another kind, such as Scale. It then has the
        // version of the object, but not its labels, so selectors cannot be evaluated on it. Field selectors
        // cannot be evaluated on a response that contains only metadata.
        let is_kind = self.subresource.is_none() || response["kind"].as_str() == Some(&self.kind.gvk().kind);
        let is_object = is_kind && !self.metadata_only;
        Some(OwnWrite {
            kind: &self.kind,
            key,
            version: ResourceVersion::from(metadata["resourceVersion"].as_str().unwrap_or_default()),
            deleted: uid.filter(|_| removed).map(str::to_owned),
            object: Some(response).filter(|_| is_object && metadata["uid"].is_string()),
            began,
        })
    }
}

impl CachedClient {
    /// Returns the informer of a kind once it shows the program's own writes of a scope (an object, a
    /// namespace or a kind).
    pub(crate) async fn caught_up<O: Representation>(
        &self,
        kind: &ResourceKind,
        scope: Scope,
    ) -> Result<CacheInformer<O>, ReadError> {
        let informer = self.shared.cache.ready::<O>(kind).await?;
        if let Some(timeout) = self.shared.read_your_writes {
            let begin = Instant::now();
            let waited = self.wait_for_own_writes(kind, &informer, &scope, timeout).await;
            if !matches!(waited, Ok(false)) {
                self.shared.metrics.read_waited(kind.gvk(), begin.elapsed(), waited.is_ok());
            }
            waited?;
        }
        Ok(informer)
    }

    /// Waits until an informer shows the program's own writes of a scope (an object, a namespace or a kind),
    /// for at most `timeout`. Returns whether it had to wait. After half of that time, this method checks
    /// whether the server has lost some of the writes.
    async fn wait_for_own_writes<O: Representation>(
        &self,
        kind: &ResourceKind,
        informer: &CacheInformer<O>,
        scope: &Scope,
        timeout: Duration,
    ) -> Result<bool, ReadError> {
        let end = Instant::now() + timeout;
        let check = async {
            tokio::time::sleep(timeout / 2).await;
            self.lower_lost_writes(kind, informer, scope).await
        };
        tokio::select! {
            biased;
            waited = informer.wait_for_own_writes(scope, timeout) => return waited,
            // The check has found that the server has lost writes. The wait in the first branch does not
            // notice that fewer writes are expected now, so a second wait follows.
            true = check => {}
        }
        let left = end.saturating_duration_since(Instant::now());
        informer.wait_for_own_writes(scope, left).await.map(|_| true)
    }

    /// Stops reads from waiting for own writes that the server has lost because it was restored to an older
    /// version. A list request with a limit of one object determines the version of the server. Returns true
    /// if the server has lost any of the writes.
    async fn lower_lost_writes<O: Representation>(
        &self,
        kind: &ResourceKind,
        informer: &CacheInformer<O>,
        scope: &Scope,
    ) -> bool {
        let missing = informer.missing_writes(scope);
        let mut options = ListOptions::default().limit(1);
        // Any list of the kind has the newest resourceVersion of the server, so one request is enough. If the
        // cache is restricted to namespaces, the request is for one of them, because the program may lack the
        // permission to list others.
        if let Some(namespace) = informer.namespace_of(scope) {
            options = options.namespace(namespace);
        }
        match self.page_values(kind, &options, None, false).await {
            Ok(page) => informer.lower_lost_writes(scope, &missing, &page.resource_version.into()),
            Err(error) => {
                tracing::debug!(%error, "cannot read the server's version; lost writes are not detected");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use informer_client::PatchFormat;
    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::json;

    use super::*;

    fn on(verb: OperationVerb) -> Operation {
        Operation::on(verb, &ResourceKind::of::<Deployment>(), "ns/web")
    }

    const PATCH: OperationVerb = OperationVerb::Patch(PatchFormat::Merge);

    #[test]
    fn reads_do_not_wait_for_dry_runs_collections_and_created_subresources() {
        assert!(on(PATCH).is_own_write());
        assert!(on(PATCH).under(Some("status")).is_own_write());
        assert!(!on(OperationVerb::Get).is_own_write());
        assert!(!on(PATCH).asking("dryRun", "All").is_own_write());
        assert!(!on(OperationVerb::DeleteCollection).is_own_write());
        assert!(!on(OperationVerb::Create).under(Some("eviction")).is_own_write());
    }

    #[test]
    fn deletion_with_status_response_has_the_uid_and_no_version() {
        let response = json!({"kind": "Status", "metadata": {}, "details": {"name": "web", "uid": "u"}});
        let operation = on(OperationVerb::Delete);
        let write = operation.own_write(&response, 0).unwrap();
        assert_eq!((write.deleted.as_deref(), write.version.is_empty()), (Some("u"), true));
        assert!(write.object.is_none());
    }

    #[test]
    fn deletion_of_an_object_with_finalizers_or_grace_period_does_not_wait_for_its_removal() {
        for stays in [json!({"finalizers": ["x"]}), json!({"deletionGracePeriodSeconds": 30})] {
            let mut response = json!({"kind": "Deployment", "metadata": stays});
            response["metadata"]["uid"] = json!("u");
            response["metadata"]["resourceVersion"] = json!("7");
            response["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            let operation = on(OperationVerb::Delete);
            let write = operation.own_write(&response, 0).unwrap();
            assert_eq!((write.deleted, write.version), (None, 7.into()));
        }
    }

    #[test]
    fn removing_the_last_finalizer_of_a_terminating_object_deletes_it() {
        let metadata =
            json!({"uid": "u", "resourceVersion": "7", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let (operation, response) = (on(PATCH), json!({"kind": "Deployment", "metadata": metadata}));
        assert_eq!(operation.own_write(&response, 0).unwrap().deleted.as_deref(), Some("u"));
    }

    #[test]
    fn scale_response_has_the_version_of_the_object_but_not_its_labels() {
        let response =
            json!({"kind": "Scale", "metadata": {"name": "web", "uid": "u", "resourceVersion": "7"}});
        let operation = on(PATCH).under(Some("scale"));
        let write = operation.own_write(&response, 0).unwrap();
        assert_eq!((write.version, write.object), (7.into(), None));
    }
}
