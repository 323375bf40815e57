use informer_client::PatchFormat;
use serde_json::Value;

/// A patch of your own. [`CachedClient::update`](super::CachedClient::update) makes one of a difference, which is what is wanted most times.
///
/// ```
/// use informer_runtime::Patch;
/// use serde_json::json;
///
/// let scaled = Patch::merge(json!({"spec": {"replicas": 3}}));
/// # let _ = scaled;
/// ```
#[derive(Clone)]
pub struct Patch {
    pub(super) format: PatchFormat,
    pub(super) body: Value,
}

impl Patch {
    /// A JSON merge patch: members replace members, null removes them, lists are replaced whole.
    pub fn merge(body: Value) -> Self {
        Self { format: PatchFormat::Merge, body }
    }

    /// A JSON patch: a list of operations.
    pub fn json(operations: Value) -> Self {
        Self { format: PatchFormat::Json, body: operations }
    }

    /// A strategic merge patch, of built-in kinds alone: lists merge by the keys of their kind.
    pub fn strategic(body: Value) -> Self {
        Self { format: PatchFormat::Strategic, body }
    }
}

impl std::fmt::Debug for Patch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patch").field("format", &self.format).finish_non_exhaustive()
    }
}
