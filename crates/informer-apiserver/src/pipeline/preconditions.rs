//! Preconditions of writes: UID and resourceVersion.

use crate::model::error::ApiError;
use crate::model::json::Object;
use crate::model::kinds::KindDefinition;
use crate::model::object_meta::text;
use crate::registry::storage::Stored;

/// A precondition of a write: the value that a field of the stored object must have.
#[derive(Clone, Copy)]
pub(crate) struct Precondition<'a> {
    /// The name of the field in error messages.
    pub(crate) field: &'static str,
    /// The expected value; empty for no precondition.
    pub(crate) expected: &'a str,
    pub(crate) stored: &'a str,
}

impl Precondition<'_> {
    fn is_met(self) -> bool {
        self.expected.is_empty() || self.expected == self.stored
    }
}

/// Checks the UID in the body of an update, which must be that of the stored object.
pub(crate) fn check_precondition(kind: &KindDefinition, old: &Stored, new: &Object) -> Result<(), ApiError> {
    let uid = Precondition { field: "UID", expected: text(new, "uid"), stored: &old.uid };
    check_state(kind, old, [uid])
}

/// Checks preconditions of a write. The error names the first one that is not met.
pub(crate) fn check_state<const N: usize>(
    kind: &KindDefinition,
    old: &Stored,
    preconditions: [Precondition<'_>; N],
) -> Result<(), ApiError> {
    let wrong = preconditions.into_iter().find(|precondition| !precondition.is_met());
    let Some(Precondition { field, expected, stored }) = wrong else { return Ok(()) };
    let (namespace, name) = (old.key.namespace().unwrap_or_default(), old.key.name());
    let slash = if namespace.is_empty() { "" } else { "/" };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{namespace}{slash}{name}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: {field} in precondition: {expected}, {field} in object meta: {stored}",
        kind.gvr.resource
    );
    Err(ApiError::conflict(kind, name, &why))
}
