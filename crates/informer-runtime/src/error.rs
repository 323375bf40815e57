//! The errors of reads and writes. The two types contain each other. A live read sends a request to the API
//! server, as a write does, so its error contains a [`WriteError`]. A write may first read the object that it
//! changes, so its error may contain a [`ReadError`].

use std::sync::Arc;
use std::time::Duration;

use informer_cache::source::SourceError;
use informer_cache::{AddHandlerError, SyncError};
use informer_client::{CallError, DecodeError};

use crate::BoxError;

/// The error of a failed read. A missing object is not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The cache was not started yet. The read has created the informer, which starts together with the
    /// cache.
    #[error("read {kind}: the cache is not started; read after the manager has started it")]
    NotStarted {
        /// The kind of the objects that were to be read.
        kind: String,
    },
    /// The cache was stopped and had no informer of the kind.
    #[error("read {kind}: the cache is stopped")]
    Stopped {
        /// The kind of the objects that were to be read.
        kind: String,
    },
    /// There is no informer of the kind, and reads do not create informers.
    #[error("read {kind}: it is not cached; create its informer first, or let reads start informers")]
    NotCached {
        /// The kind of the objects that were to be read.
        kind: String,
    },
    /// The informer of the kind did not sync within the cache's read timeout.
    #[error("read {kind}: its informer has no initial list yet")]
    NotSynced {
        /// The kind of the objects that were to be read.
        kind: String,
        /// The activity of the informer and its last error, which explain why it has not synced.
        #[source]
        cause: SyncError,
    },
    /// The informer was removed from the cache while the read waited for it.
    #[error("read {kind}: its informer was removed from the cache")]
    Removed {
        /// The kind of the objects that were to be read.
        kind: String,
    },
    /// The server does not serve the kind. Its CustomResourceDefinition is missing, or the API server
    /// responds with 404 to lists of a built-in or aggregated kind. Reads succeed again when the kind is
    /// served, see
    /// [`CacheBuilder::follow_crds`](crate::CacheBuilder::follow_crds).
    #[error(
        "read {kind}: the server does not serve the kind (404); create its CRD, or check its APIService and \
         API version"
    )]
    NotServed {
        /// The kind of the objects that were to be read.
        kind: String,
    },
    /// The namespace of the read is not one to which the cache is restricted.
    #[error("read {kind}: namespace {namespace:?} is not in the cache, which has {known}")]
    UnknownNamespace {
        /// The kind of the objects that were to be read.
        kind: String,
        /// The namespace of the read.
        namespace: String,
        /// The namespaces to which the cache is restricted.
        known: String,
    },
    /// A field selector contains an operator other than equality, which a cache does not support.
    #[error("read {kind}: the cache selects fields by = only; {requirement} is not")]
    NotExact {
        /// The kind of the objects that were to be read.
        kind: String,
        /// The requirement of the field selector that has another operator.
        requirement: String,
    },
    /// A field selector selects by a field that has no index in the cache.
    #[error("read {kind}: there is no index of field {field:?}; add one with `index_field`")]
    NoIndex {
        /// The kind of the objects that were to be read.
        kind: String,
        /// The name of the field without an index.
        field: String,
    },
    /// The cache is configured to store the kind in another representation only. A second representation
    /// would need a second watch and a second store.
    #[error(
        "read {kind} as {requested}: the cache is pinned to {pinned}; read it as that, or change `pin_representation`"
    )]
    OtherRepresentation {
        /// The kind of the objects that were to be read.
        kind: String,
        /// The representation in which the program wanted to read the kind.
        requested: &'static str,
        /// The representation to which the cache pins the kind.
        pinned: &'static str,
    },
    /// An object in the cache cannot be decoded as the requested type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The cache did not receive the program's own writes within the time limit that
    /// `ClientBuilder::read_your_writes` sets.
    #[error(
        "read {kind}: after {waited:?} the cache does not show this program's write of {key}; retry, and check whether its watch works"
    )]
    Behind {
        /// The kind of the objects that were to be read.
        kind: String,
        /// The written object that the cache does not show: its key, `many objects`, or `many objects in
        /// namespace NAME`.
        key: String,
        /// How long the read has waited for the program's own writes.
        waited: Duration,
    },
    /// The body of an object whose metadata is cached could not be read from the API server.
    #[error("read {kind} {key}: its body could not be fetched; the next attempt is in {retry_in:?}")]
    Body {
        /// The kind of the object that was to be read.
        kind: String,
        /// The key of the object.
        key: String,
        /// The time after which the cache requests the body again.
        retry_in: Duration,
        /// The error of the request.
        #[source]
        cause: Arc<SourceError>,
    },
    /// The body of an object whose metadata is cached did not arrive within the cache's read timeout.
    #[error(
        "read {kind} {key}: its body did not arrive within {waited:?}; retry, and check the load of the API server"
    )]
    BodyTimeout {
        /// The kind of the object that was to be read.
        kind: String,
        /// The key of the object.
        key: String,
        /// How long the read has waited for the body.
        waited: Duration,
    },
    /// The informer has too many handlers, so that the cache cannot follow its changes.
    #[error(transparent)]
    Handler(#[from] AddHandlerError),
    /// A live read, which bypasses the cache, failed.
    #[error(transparent)]
    Live(#[from] WriteError),
}

impl ReadError {
    /// Returns the delay before a retry that the API server requested with `Retry-After`; `None` if it
    /// requested none.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Live(error) => error.retry_after(),
            _ => None,
        }
    }
}

/// The error of a failed write, or of a failed read from the API server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The API server rejected the request or did not respond to it.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The object has no valid name, although the operation requires one.
    #[error("{attempt}: the object has no name, or an invalid one; set metadata.name")]
    NoName {
        /// A description of the failed operation for the message, for example `update Deployment
        /// default/web`.
        attempt: String,
    },
    /// The client is restricted to one namespace, and the object is in another.
    #[error(
        "{attempt}: namespace {requested:?} differs from the namespace of the client, {own:?}; use another client"
    )]
    OtherNamespace {
        /// A description of the failed operation for the message, for example `update Deployment
        /// default/web`.
        attempt: String,
        /// The namespace that the operation names.
        requested: String,
        /// The namespace to which the client is restricted.
        own: String,
    },
    /// The [field owner](crate::CachedClient::field_owner) of the client is invalid. No request was sent.
    #[error("{attempt}: field owner {owner:?} {problem}; use 1 to 128 bytes of printable characters")]
    FieldOwner {
        /// A description of the failed operation for the message, for example `update Deployment
        /// default/web`.
        attempt: String,
        /// The field owner that is invalid.
        owner: String,
        /// The reason for which the field owner is invalid.
        problem: &'static str,
    },
    /// The program tried to replace an object by one that it had read. An object that was read may lack
    /// fields of the object on the server.
    #[error(
        "{attempt}: the object was read and may lack fields of the stored one, which a replacement would remove; use \
         `edit` and `update`, or `apply`"
    )]
    View {
        /// A description of the failed operation for the message, for example `update Deployment
        /// default/web`.
        attempt: String,
    },
    /// The write changes the name, the namespace or the uid of an object, which are immutable.
    #[error("{attempt}: {field} is immutable; create a new object")]
    OtherObject {
        /// A description of the failed operation for the message, for example `update Deployment
        /// default/web`.
        attempt: String,
        /// The name of the immutable field.
        field: &'static str,
    },
    /// The object to be written cannot be encoded as JSON.
    #[error("{attempt}: the object cannot be encoded")]
    Encode {
        /// A description of the failed operation for the message, for example `update Deployment
        /// default/web`.
        attempt: String,
        /// The error of the JSON encoder.
        #[source]
        cause: serde_json::Error,
    },
    /// The response to the request has an unexpected type. If the request was a write, the server has
    /// executed it.
    #[error("{attempt}: the response is not a {expected}")]
    Response {
        /// A description of the failed operation for the message, for example `update Deployment
        /// default/web`.
        attempt: String,
        /// The type that the response should have.
        expected: String,
        /// The position at which the response is invalid. It names a field and never contains a value, which
        /// may be secret.
        #[source]
        cause: Option<BoxError>,
    },
    /// The object that the write should change was read and cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The object that the write should change could not be read.
    #[error("{attempt}: the object cannot be read")]
    Read {
        /// A description of the failed operation for the message, for example `update Deployment
        /// default/web`.
        attempt: String,
        /// The error of the read.
        #[source]
        cause: Box<ReadError>,
    },
    /// The [fence](crate::CachedClient::fenced) of the client rejected the write. No request was sent.
    #[error("{attempt}: not sent: this process is not allowed to write now")]
    Fenced {
        /// A description of the failed operation for the message, for example `update Deployment
        /// default/web`.
        attempt: String,
        /// The error that the fence returned.
        #[source]
        cause: BoxError,
    },
    /// The program stopped the operation: an interceptor returned an error, or a closure that changes an
    /// object did.
    #[error("{attempt}: stopped by the program")]
    Stopped {
        /// A description of the failed operation for the message, for example `update Deployment
        /// default/web`.
        attempt: String,
        /// The error that the interceptor or the closure returned.
        #[source]
        cause: BoxError,
    },
}

impl WriteError {
    pub(crate) fn call(&self) -> Option<&CallError> {
        match self {
            Self::Call(error) => Some(error),
            Self::Stopped { cause, .. } => cause.downcast_ref(),
            _ => None,
        }
    }

    /// Returns true if a [fence](crate::CachedClient::fenced) of the client rejected the write, because this
    /// process may not be the one that is allowed to write now.
    pub fn is_fenced(&self) -> bool {
        match self {
            Self::Fenced { .. } => true,
            Self::Stopped { cause, .. } => cause.downcast_ref().is_some_and(Self::is_fenced),
            _ => false,
        }
    }

    /// Returns the delay before a retry that the API server requested with `Retry-After`; `None` if it
    /// requested none. A failed reconcile with this error is not retried earlier.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Read { cause, .. } => cause.retry_after(),
            error => error.call()?.retry_after(),
        }
    }

    /// Returns true if the API server responded that the object or the kind does not exist.
    pub fn is_not_found(&self) -> bool {
        self.call().is_some_and(CallError::is_not_found)
    }

    /// Returns true if the object could not be created because an object of that name exists.
    pub fn is_already_exists(&self) -> bool {
        self.call().is_some_and(CallError::is_already_exists)
    }

    /// Returns true if the write conflicts with another one: the object has changed since it was read, was
    /// re-created, or has fields of other field managers. Read the object again and retry.
    pub fn is_conflict(&self) -> bool {
        self.call().is_some_and(CallError::is_conflict)
    }

    /// Returns true if the API server rejected the object because its validation failed.
    pub fn is_invalid(&self) -> bool {
        self.call().is_some_and(CallError::is_invalid)
    }

    /// Returns true if the API server rejected the request because the client lacks permission.
    pub fn is_forbidden(&self) -> bool {
        self.call().is_some_and(CallError::is_forbidden)
    }
}
