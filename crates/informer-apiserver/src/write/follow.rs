//! What follows from a write: definitions are served, namespaces and definitions that end are emptied and let go.

use std::sync::Arc;

use informer_core::Gvr;
use serde_json::Value;

use super::{DEFINITIONS, Object, Scope, is_terminating, metadata};
use crate::error::ApiError;
use crate::kinds::Kind;
use crate::server::Shared;
use crate::storage::{Changed, Stored};

impl Shared {
    /// Called after an object was written.
    pub(super) fn after_write(&self, scope: Scope<'_>, name: &str) {
        if !scope.dry_run && scope.kind().is(DEFINITIONS, "CustomResourceDefinition") {
            self.settle_definition(name);
        }
        if !scope.dry_run && is_role(scope.kind()) {
            self.aggregate_roles();
        }
    }

    /// Called after an object was removed: it may have been what held its namespace or its definition.
    pub(super) fn after_removal(&self, scope: Scope<'_>, removed: &Stored) {
        self.collect_after(removed);
        if is_role(scope.kind()) {
            self.aggregate_roles();
        }
        if scope.kind().is(DEFINITIONS, "CustomResourceDefinition") {
            self.release_names(removed);
        }
        if let Some(namespace) = removed.key.namespace()
            && self.ends(&Gvr::new("", "v1", "namespaces"), namespace)
        {
            self.settling.once(&namespace_turn(namespace), || self.settle_namespace(namespace));
        }
        if let Some(name) = definition_of(scope.kind())
            && self.ends(&Gvr::new(DEFINITIONS, "v1", "customresourcedefinitions"), &name)
        {
            self.settle_definition(&name);
        }
    }

    fn ends(&self, gvr: &Gvr, name: &str) -> bool {
        let Ok(resource) = self.resource(gvr) else { return false };
        self.find(&resource, None, name).is_ok_and(|stored| stored.terminating)
    }

    /// Writes an object that the server itself has decided on, or removes it where it was only held by finalizers: then there is
    /// none any more.
    pub(crate) fn settle(
        &self,
        scope: Scope<'_>,
        current: &Arc<Stored>,
        object: &Object,
    ) -> Result<Result<Option<Arc<Stored>>, Changed>, ApiError> {
        let ends = is_terminating(&Value::Object(object.clone()));
        if ends && metadata::finalizers(object).is_empty() {
            return Ok(self.remove(scope, current).map(|_| None));
        }
        Ok(self.put(scope, current, object)?.map(Some))
    }
}

/// How the turns of a namespace are told from those of others.
pub(super) fn namespace_turn(name: &str) -> String {
    format!("namespaces/{name}")
}

fn is_role(kind: &Kind) -> bool {
    kind.is("rbac.authorization.k8s.io", "ClusterRole")
}

/// The name of the definition that a custom kind would have.
pub(super) fn definition_of(kind: &Kind) -> Option<String> {
    kind.is_custom().then(|| kind.qualified_resource())
}
