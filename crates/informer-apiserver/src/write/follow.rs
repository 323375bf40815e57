//! Writes of the server's own controllers.

use std::sync::Arc;

use super::{Object, Scope, metadata};
use crate::error::ApiError;
use crate::kinds::Kind;
use crate::server::Shared;
use crate::storage::{Changed, Stored};

impl Shared {
    /// Writes an object. A terminating object without finalizers is removed instead; then `None` is returned.
    pub(crate) fn settle(
        &self,
        scope: Scope<'_>,
        current: &Arc<Stored>,
        object: &Object,
    ) -> Result<Result<Option<Arc<Stored>>, Changed>, ApiError> {
        if super::is_terminating_object(object) && metadata::finalizers(object).is_empty() {
            return Ok(self.remove(scope, current).map(|_| None));
        }
        Ok(self.put(scope, current, object)?.map(Some))
    }
}

/// The name of the CRD that a custom kind would have.
pub(crate) fn definition_of(kind: &Kind) -> Option<String> {
    kind.is_custom().then(|| kind.qualified_resource())
}
