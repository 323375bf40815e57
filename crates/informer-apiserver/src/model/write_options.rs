//! What a write may change, and how strictly it is decoded.

/// What happens to fields that are not known; in any case they are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validation {
    /// The object is not decoded: writes of the server's own controllers, and those through [`ApiServer::raw`](crate::ApiServer::raw).
    Unchecked,
    Ignore,
    Warn,
    Strict,
}

/// Which part of the object a write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// The main endpoint: all but the status, where that has an endpoint of its own.
    Main,
    /// `/status`: the status, and of built-in kinds some metadata.
    Status,
    /// `/finalize` of namespaces: the finalizers of the specification.
    Finalize,
    /// `/scale`, which is an object of its own.
    Scale,
    /// Writes of the embedding program: everything, the status included.
    Whole,
    /// The same without defaults and validation, for objects that no request could store.
    Raw,
}

impl WriteMode {
    /// Returns true for writes of the embedding program. They do not need an existing namespace, and no admission plugin sees them.
    pub(crate) fn is_of_program(self) -> bool {
        matches!(self, Self::Whole | Self::Raw)
    }
}
