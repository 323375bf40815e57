use std::sync::Arc;

use crate::admission::Scope;
use crate::model::json::Object;
use crate::model::object_meta;
use crate::pipeline::Pipeline;
use crate::pipeline::retry::WriteError;
use crate::registry::storage::Stored;

impl Pipeline {
    /// Stores an object, or removes it if it is being deleted and has no finalizers left. Returns `None` if
    /// it was removed.
    pub(crate) fn put_or_remove(
        &self,
        scope: Scope<'_>,
        current: &Arc<Stored>,
        object: &Object,
    ) -> Result<Option<Arc<Stored>>, WriteError> {
        if crate::pipeline::is_terminating_object(object) && object_meta::finalizers(object).is_empty() {
            self.remove(scope, current)?;
            return Ok(None);
        }
        self.put(scope, current, object).map(Some)
    }
}
