//! Causes of a rejected write: one error for one field of an object.

use serde::Serialize;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Cause {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) reason: &'static str,
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

    pub(crate) fn forbidden(field: &str, message: &str) -> Self {
        Self { reason: "FieldValueForbidden", message: format!("Forbidden: {message}"), field: field.into() }
    }

    pub(crate) fn invalid(field: &str, value: &str, message: &str) -> Self {
        let message = format!("Invalid value: {value}: {message}");
        Self { reason: "FieldValueInvalid", message, field: field.into() }
    }

    pub(crate) fn not_supported(field: &str, value: &str, supported: &str) -> Self {
        let message = format!("Unsupported value: {value}: supported values: {supported}");
        Self { reason: "FieldValueNotSupported", message, field: field.into() }
    }

    pub(crate) fn too_long(field: &str, bytes: usize) -> Self {
        let message = format!("Too long: may not be more than {bytes} bytes");
        Self { reason: "FieldValueTooLong", message, field: field.into() }
    }

    pub(crate) fn too_many(field: &str, given: usize, max: usize) -> Self {
        let message = format!("Too many: {given}: must have at most {max} items");
        Self { reason: "FieldValueTooMany", message, field: field.into() }
    }

    pub(crate) fn required(field: &str, message: &str) -> Self {
        Self {
            reason: "FieldValueRequired",
            message: format!("Required value: {message}"),
            field: field.into(),
        }
    }
}
