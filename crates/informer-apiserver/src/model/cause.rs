//! Causes of a rejected write: one error for one field of an object.

use std::fmt::Display;

use serde::Serialize;

/// The field of a cause that concerns the whole object, as Go prints an empty path.
pub(crate) const NO_FIELD: &str = "[]";

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Cause {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) reason: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) field: String,
}

impl Cause {
    /// Formats validation causes as `field: message`, without duplicates.
    pub(crate) fn joined(causes: &[Self]) -> String {
        let mut all: Vec<String> = Vec::new();
        for cause in causes {
            let line = format!("{}: {}", cause.field, cause.message);
            if !all.contains(&line) {
                all.push(line);
            }
        }
        if all.len() == 1 { all.remove(0) } else { format!("[{}]", all.join(", ")) }
    }

    pub(crate) fn forbidden(field: &(impl Display + ?Sized), message: &str) -> Self {
        Self {
            reason: "FieldValueForbidden",
            message: format!("Forbidden: {message}"),
            field: field.to_string(),
        }
    }

    pub(crate) fn invalid(field: &(impl Display + ?Sized), value: &str, message: &str) -> Self {
        let message = format!("Invalid value: {value}: {message}");
        Self { reason: "FieldValueInvalid", message, field: field.to_string() }
    }

    pub(crate) fn not_supported(field: &(impl Display + ?Sized), value: &str, supported: &str) -> Self {
        let message = format!("Unsupported value: {value}: supported values: {supported}");
        Self { reason: "FieldValueNotSupported", message, field: field.to_string() }
    }

    pub(crate) fn too_long(field: &(impl Display + ?Sized), bytes: usize) -> Self {
        let message = format!("Too long: may not be more than {bytes} bytes");
        Self { reason: "FieldValueTooLong", message, field: field.to_string() }
    }

    pub(crate) fn too_many(field: &(impl Display + ?Sized), given: usize, max: usize) -> Self {
        let message = format!("Too many: {given}: must have at most {max} items");
        Self { reason: "FieldValueTooMany", message, field: field.to_string() }
    }

    pub(crate) fn required(field: &(impl Display + ?Sized), message: &str) -> Self {
        Self {
            reason: "FieldValueRequired",
            message: format!("Required value: {message}"),
            field: field.to_string(),
        }
    }
}

/// The maximum number of causes in a response for one object. Further causes are dropped, so that a request
/// cannot make its response, or the memory of the server, much larger than itself.
pub(crate) const MAX_CAUSES: usize = 1_000;

/// The causes of one object, in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Causes(Vec<Cause>);

impl Causes {
    /// Adds a cause, or drops it if there are already [`MAX_CAUSES`].
    pub(crate) fn push(&mut self, cause: Cause) {
        if !self.is_full() {
            self.0.push(cause);
        }
    }

    /// Adds causes until there are [`MAX_CAUSES`]. The iterator is not polled further.
    pub(crate) fn extend(&mut self, causes: impl IntoIterator<Item = Cause>) {
        let left = MAX_CAUSES.saturating_sub(self.0.len());
        self.0.extend(causes.into_iter().take(left));
    }

    /// Adds a cause before all others.
    pub(crate) fn push_first(&mut self, cause: Cause) {
        self.0.truncate(MAX_CAUSES - 1);
        self.0.insert(0, cause);
    }

    /// Replaces all causes by one.
    pub(crate) fn replace_all(&mut self, cause: Cause) {
        self.0 = vec![cause];
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if further causes are dropped.
    pub(crate) const fn is_full(&self) -> bool {
        self.0.len() >= MAX_CAUSES
    }

    pub(crate) fn into_vec(self) -> Vec<Cause> {
        self.0
    }
}
