use std::time::Duration;

use informer_cache::SyncError;
use informer_client::DecodeError;

/// A read that could not be answered. That an object does not exist is no error but an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The cache was not started yet. The informer was noted and starts with the cache.
    #[error("read {kind}: the cache is not started; read after the manager has started it")]
    NotStarted {
        /// The kind.
        kind: String,
    },
    /// The cache was stopped, and had no informer of the kind.
    #[error("read {kind}: the cache is stopped")]
    Stopped {
        /// The kind.
        kind: String,
    },
    /// There is no informer of the kind, and the cache is configured to make none for a read.
    #[error(
        "read {kind}: it is not cached; ask the cache for its informer first, or let reads start informers"
    )]
    NotCached {
        /// The kind.
        kind: String,
    },
    /// The informer of the kind did not have its first list within the time.
    #[error("read {kind}: its informer has no first list yet")]
    NotSynced {
        /// The kind.
        kind: String,
        /// What the informer is doing, and its last error.
        #[source]
        cause: SyncError,
    },
    /// The informer was removed from the cache while the read waited for it.
    #[error("read {kind}: its informer was removed from the cache")]
    Removed {
        /// The kind.
        kind: String,
    },
    /// The cache holds other namespaces than the one asked for.
    #[error("read {kind}: namespace {namespace:?} is not in the cache, which has {known}")]
    UnknownNamespace {
        /// The kind.
        kind: String,
        /// What was asked for.
        namespace: String,
        /// What the cache has.
        known: String,
    },
    /// A field is selected by something else than equality.
    #[error("read {kind}: the cache selects fields by = only; {requirement} is not")]
    NotExact {
        /// The kind.
        kind: String,
        /// The requirement.
        requirement: String,
    },
    /// A field is selected that has no index.
    #[error("read {kind}: there is no index of field {field:?}; add one with `index_field`")]
    NoIndex {
        /// The kind.
        kind: String,
        /// The field.
        field: String,
    },
    /// The kind is pinned to another form, and a second one would be a second watch and a second store.
    #[error("read {kind} as {asked}: the cache holds it as {held} alone")]
    OtherForm {
        /// The kind.
        kind: String,
        /// The form asked for.
        asked: &'static str,
        /// The form that the cache was configured to hold.
        held: &'static str,
    },
    /// The object does not fit its type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The cache did not show the program's own writes within the bound.
    #[error(
        "read {kind}: after {waited:?} the cache does not show this program's write of {key}; retry, and check whether its watch works"
    )]
    Behind {
        /// The kind.
        kind: String,
        /// The key that was written, `many objects`, or `many objects in namespace NAME`.
        key: String,
        /// How long the read has waited.
        waited: Duration,
    },
    /// The server was asked, and did not answer with the object.
    #[error(transparent)]
    Live(#[from] crate::client::WriteError),
}
