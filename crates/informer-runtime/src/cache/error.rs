use std::time::Duration;

use informer_cache::SyncError;
use informer_client::DecodeError;

/// The error of a failed read. A missing object is not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The cache was not started. The informer was created, and starts with the cache.
    #[error("read {kind}: the cache is not started; read after the manager has started it")]
    NotStarted {
        /// The kind.
        kind: String,
    },
    /// The cache was stopped and had no informer of the kind.
    #[error("read {kind}: the cache is stopped")]
    Stopped {
        /// The kind.
        kind: String,
    },
    /// There is no informer of the kind, and reads do not create informers.
    #[error("read {kind}: it is not cached; create its informer first, or let reads start informers")]
    NotCached {
        /// The kind.
        kind: String,
    },
    /// The informer of the kind did not sync in time.
    #[error("read {kind}: its informer has no initial list yet")]
    NotSynced {
        /// The kind.
        kind: String,
        /// The activity of the informer and its last error.
        #[source]
        cause: SyncError,
    },
    /// The informer was removed from the cache while the read waited for it.
    #[error("read {kind}: its informer was removed from the cache")]
    Removed {
        /// The kind.
        kind: String,
    },
    /// The namespace is not in the cache.
    #[error("read {kind}: namespace {namespace:?} is not in the cache, which has {known}")]
    UnknownNamespace {
        /// The kind.
        kind: String,
        /// The requested namespace.
        namespace: String,
        /// The namespaces of the cache.
        known: String,
    },
    /// A field selector contains an operator other than equality.
    #[error("read {kind}: the cache selects fields by = only; {requirement} is not")]
    NotExact {
        /// The kind.
        kind: String,
        /// The requirement.
        requirement: String,
    },
    /// The selected field has no index.
    #[error("read {kind}: there is no index of field {field:?}; add one with `index_field`")]
    NoIndex {
        /// The kind.
        kind: String,
        /// The field.
        field: String,
    },
    /// The kind is pinned to another representation. A second representation would be a second watch and a
    /// second store.
    #[error(
        "read {kind} as {requested}: the cache is pinned to {pinned}; read it as that, or change `pin_representation`"
    )]
    OtherRepresentation {
        /// The kind.
        kind: String,
        /// The requested representation.
        requested: &'static str,
        /// The representation to which the cache pins the kind.
        pinned: &'static str,
    },
    /// The object cannot be decoded as its type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The cache did not receive the program's own writes within the bound.
    #[error(
        "read {kind}: after {waited:?} the cache does not show this program's write of {key}; retry, and check whether its watch works"
    )]
    Behind {
        /// The kind.
        kind: String,
        /// The key of the written object, `many objects`, or `many objects in namespace NAME`.
        key: String,
        /// How long the read has waited.
        waited: Duration,
    },
    /// A live read failed.
    #[error(transparent)]
    Live(#[from] crate::client::WriteError),
}
