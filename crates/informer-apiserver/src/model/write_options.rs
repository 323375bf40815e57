//! Options of a write: the part of the object that the write may change, and the validation of unknown
//! fields.

/// The handling of unknown fields (`fieldValidation`). They are dropped in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// The object is not decoded, so unknown fields are not found. For writes of the server's own controllers
    /// and of [`ApiServer::raw`](crate::ApiServer::raw).
    Unchecked,
    Ignore,
    Warn,
    Strict,
}

impl FieldValidation {
    /// Returns the validation that the parameter `fieldValidation` of a request selects.
    pub(crate) fn of_parameter(value: &str) -> Self {
        match value {
            "Ignore" => Self::Ignore,
            "Strict" => Self::Strict,
            _ => Self::Warn,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// A write to the main resource, which changes everything except a status that has its own subresource.
    Main,
    /// A write to `/status`, which changes the status, and for some built-in kinds the metadata.
    Status,
    /// A write to `/finalize` of a namespace, which changes the finalizers in its spec.
    Finalize,
    /// A write to `/scale`, whose body is a Scale object.
    Scale,
    /// A write to `/ephemeralcontainers` of a pod.
    EphemeralContainers,
    /// A write to `/resize` of a pod, which changes the CPU and memory of its containers.
    Resize,
    /// A write to `/approval` of a certificate request, which changes its conditions.
    Approval,
    /// A write of the embedding program, which changes everything, including the status.
    Whole,
    /// A write of the embedding program like [`Whole`](Self::Whole), but without defaults and validation, for
    /// objects that no request could store.
    Raw,
}

impl WriteMode {
    /// Returns true for writes of the embedding program. They do not require the namespace to exist, and they
    /// bypass the admission plugins.
    pub(crate) fn is_of_program(self) -> bool {
        matches!(self, Self::Whole | Self::Raw)
    }
}
