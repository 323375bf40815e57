//! Preconditions of writes: UID and resourceVersion.

use crate::model::error::ApiError;
use crate::model::kinds::Kind;
use crate::model::metadata::{Object, text};
use crate::registry::storage::Stored;

/// Checks the UID in the body of an update, which must be that of the stored object.
pub(crate) fn check_precondition(kind: &Kind, old: &Stored, new: &Object) -> Result<(), ApiError> {
    check_state(kind, old, [("UID", text(new, "uid"), &old.uid)])
}

/// Checks preconditions of a write. Each has a name, an expected value (empty for no precondition) and a
/// stored value.
pub(crate) fn check_state<const N: usize>(
    kind: &Kind,
    old: &Stored,
    preconditions: [(&str, &str, &str); N],
) -> Result<(), ApiError> {
    let wrong = preconditions.into_iter().find(|(_, given, stored)| !given.is_empty() && given != stored);
    let Some((what, given, stored)) = wrong else { return Ok(()) };
    let (namespace, name) = (old.key.namespace().unwrap_or_default(), old.key.name());
    let slash = if namespace.is_empty() { "" } else { "/" };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{namespace}{slash}{name}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: {what} in precondition: {given}, {what} in object meta: {stored}",
        kind.gvr.resource
    );
    Err(ApiError::conflict(kind, name, &why))
}
