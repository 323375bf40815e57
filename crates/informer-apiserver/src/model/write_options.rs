//! Options of a write: the parts of the object that it may change, and the validation of unknown fields.

/// The handling of unknown fields. They are dropped in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validation {
    /// The object is not decoded: writes of the server's own controllers, and writes through
    /// [`ApiServer::raw`](crate::ApiServer::raw).
    Unchecked,
    Ignore,
    Warn,
    Strict,
}

/// The part of the object that a write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// The main endpoint: everything except a status that has its own endpoint.
    Main,
    /// `/status`: the status, and for some built-in kinds the metadata.
    Status,
    /// `/finalize` of namespaces: the finalizers in the spec.
    Finalize,
    /// `/scale`, which is an object of its own.
    Scale,
    /// Writes of the embedding program: everything, including the status.
    Whole,
    /// Like [`Whole`](Self::Whole), without defaults and validation, for objects that no request could store.
    Raw,
}

impl WriteMode {
    /// Returns true for writes of the embedding program. They need no existing namespace and bypass the
    /// admission plugins.
    pub(crate) fn is_of_program(self) -> bool {
        matches!(self, Self::Whole | Self::Raw)
    }
}
