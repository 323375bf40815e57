//! The errors of reads and writes. The two types contain each other. A live read sends a request to the API
//! server, as a write does, so its error contains a [`WriteError`]. A write may first read the object that it
//! changes, so its error may contain a [`ReadError`].

use std::time::Duration;

use informer_cache::SyncError;
use informer_client::{CallError, DecodeError};

use crate::BoxError;

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
    /// The cache is configured to store the kind in another representation only. A second representation
    /// would need a second watch and a second store.
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
    /// The cache did not receive the program's own writes within the time limit that
    /// `ClientBuilder::read_your_writes` sets.
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
    /// A live read, which bypasses the cache, failed.
    #[error(transparent)]
    Live(#[from] WriteError),
}

/// The error of a failed write or live read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The API server rejected the request or did not respond.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The object has no valid name, which this operation requires.
    #[error("{attempt}: the object has no name, or an invalid one; set metadata.name")]
    NoName {
        /// The operation, as a description for the message.
        attempt: String,
    },
    /// The client is restricted to another namespace.
    #[error(
        "{attempt}: namespace {requested:?} differs from the namespace of the client, {own:?}; use another client"
    )]
    OtherNamespace {
        /// The operation, as a description for the message.
        attempt: String,
        /// The namespace of the object.
        requested: String,
        /// The namespace of the client.
        own: String,
    },
    /// The [field owner](crate::CachedClient::field_owner) of the client is invalid. No request was sent.
    #[error("{attempt}: field owner {owner:?} {problem}; use 1 to 128 bytes of printable characters")]
    FieldOwner {
        /// The operation, as a description for the message.
        attempt: String,
        /// The field owner.
        owner: String,
        /// The problem.
        problem: &'static str,
    },
    /// The replacing object was read from a cache or the server and may lack fields.
    #[error(
        "{attempt}: the object was read and may lack fields of the stored one, which a replacement would remove; use \
         `edit` and `update`, or `apply`"
    )]
    View {
        /// The operation, as a description for the message.
        attempt: String,
    },
    /// The write changes an immutable part of the object's identity.
    #[error("{attempt}: {field} is immutable; create a new object")]
    OtherObject {
        /// The operation, as a description for the message.
        attempt: String,
        /// The field.
        field: &'static str,
    },
    /// The object cannot be encoded as JSON.
    #[error("{attempt}: the object cannot be encoded")]
    Encode {
        /// The operation, as a description for the message.
        attempt: String,
        /// The cause.
        #[source]
        cause: serde_json::Error,
    },
    /// The response has an unexpected type. The server has executed the write.
    #[error("{attempt}: the response is not a {expected}")]
    Response {
        /// The operation, as a description for the message.
        attempt: String,
        /// The expected type.
        expected: String,
        /// The location of the problem, which is a field and never a value.
        #[source]
        cause: Option<BoxError>,
    },
    /// The object that should be changed cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The object that should be changed could not be read.
    #[error("{attempt}: the object cannot be read")]
    Read {
        /// The operation, as a description for the message.
        attempt: String,
        /// The cause.
        #[source]
        cause: Box<ReadError>,
    },
    /// The [fence](crate::CachedClient::fenced) of the client rejected the write. No request was sent.
    #[error("{attempt}: not sent: this process is not allowed to write now")]
    Fenced {
        /// The operation, as a description for the message.
        attempt: String,
        /// The error of the fence.
        #[source]
        cause: BoxError,
    },
    /// An interceptor returned an error, or a closure that changes an object did.
    #[error("{attempt}: stopped by the program")]
    Stopped {
        /// The operation, as a description for the message.
        attempt: String,
        /// The error of the operation.
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

    /// Returns true if a fence rejected the write, since another process may now be the one that writes.
    pub fn is_fenced(&self) -> bool {
        match self {
            Self::Fenced { .. } => true,
            Self::Stopped { cause, .. } => cause.downcast_ref().is_some_and(Self::is_fenced),
            _ => false,
        }
    }

    /// Returns true if the object or the kind does not exist.
    pub fn is_not_found(&self) -> bool {
        self.call().is_some_and(CallError::is_not_found)
    }

    /// Returns true if an object of that name exists.
    pub fn is_already_exists(&self) -> bool {
        self.call().is_some_and(CallError::is_already_exists)
    }

    /// Returns true if the object has changed since it was read, was re-created, or has fields of other field
    /// managers. Read the object again and retry.
    pub fn is_conflict(&self) -> bool {
        self.call().is_some_and(CallError::is_conflict)
    }

    /// Returns true if the object failed validation.
    pub fn is_invalid(&self) -> bool {
        self.call().is_some_and(CallError::is_invalid)
    }

    /// Returns true if the client lacks permission.
    pub fn is_forbidden(&self) -> bool {
        self.call().is_some_and(CallError::is_forbidden)
    }
}
