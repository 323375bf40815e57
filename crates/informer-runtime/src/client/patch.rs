use informer_client::PatchFormat;
use serde_json::Value;

/// A hand-written patch. Usually [`CachedClient::update`](super::CachedClient::update) computes the patch.
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
    /// Creates a JSON merge patch: fields replace fields, null removes a field, lists are replaced as a
    /// whole.
    pub fn merge(body: Value) -> Self {
        Self { format: PatchFormat::Merge, body }
    }

    /// Creates a JSON patch (RFC 6902): a list of operations such as `add`, `replace` and `remove`.
    pub fn json(operations: Value) -> Self {
        Self { format: PatchFormat::Json, body: operations }
    }

    /// Creates a strategic merge patch, which only built-in kinds support: lists are merged by the keys of
    /// the schema.
    pub fn strategic(body: Value) -> Self {
        Self { format: PatchFormat::Strategic, body }
    }
}

impl std::fmt::Debug for Patch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patch").field("format", &self.format).finish_non_exhaustive()
    }
}
