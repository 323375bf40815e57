use informer_client::{CallError, DecodeError};

use crate::BoxError;

/// A write, or a read of the server, that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The server refused it, or did not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The object names no name where one is needed.
    #[error("{attempt}: the object has no name, or an invalid one; set metadata.name")]
    NoName {
        /// What was attempted.
        attempt: String,
    },
    /// The client is one of another namespace.
    #[error("{attempt}: namespace {asked:?} was asked for, and the client is one of {own:?}")]
    OtherNamespace {
        /// What was attempted.
        attempt: String,
        /// The namespace of the object.
        asked: String,
        /// The namespace of the client.
        own: String,
    },
    /// The [field owner](super::CachedClient::field_owner) of the client is invalid. Nothing was sent.
    #[error("{attempt}: field owner {owner:?} {problem}; use 1 to 128 bytes of printable characters")]
    FieldOwner {
        /// The operation.
        attempt: String,
        /// The owner.
        owner: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A replacement of an object that was read.
    #[error(
        "{attempt}: this is a view of an object that was read, and what the view does not have would be lost; change a copy of it \
         with `edit` and hand that to `update`, or state what is wanted with `apply`"
    )]
    View {
        /// What was attempted.
        attempt: String,
    },
    /// A change of what makes an object the one that it is.
    #[error("{attempt}: {field} is not to be changed; make another object instead")]
    OtherObject {
        /// What was attempted.
        attempt: String,
        /// The field.
        field: &'static str,
    },
    /// The object cannot be written as JSON.
    #[error("{attempt}: the object cannot be encoded")]
    Encode {
        /// What was attempted.
        attempt: String,
        /// Why not.
        #[source]
        cause: serde_json::Error,
    },
    /// The answer is not what it should be. The write has happened.
    #[error("{attempt}: the answer is no {expected}")]
    Answer {
        /// What was attempted.
        attempt: String,
        /// What was expected.
        expected: String,
        /// Where it is not: a field, no value.
        #[source]
        cause: Option<BoxError>,
    },
    /// The object that is to be changed cannot be read as its type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The object to be changed could not be read.
    #[error("{attempt}: it cannot be read")]
    Read {
        /// What was attempted.
        attempt: String,
        /// Why not.
        #[source]
        cause: Box<crate::ReadError>,
    },
    /// The program may not write at this time, as its [fence](super::CachedClient::fenced) says. Nothing was sent.
    #[error("{attempt}: not sent, since this process may not write now")]
    Fenced {
        /// What was attempted.
        attempt: String,
        /// Why it may not.
        #[source]
        cause: BoxError,
    },
    /// An interceptor, or a closure that changes an object, failed.
    #[error("{attempt}: stopped by the program")]
    Stopped {
        /// What was attempted.
        attempt: String,
        /// With what.
        #[source]
        cause: BoxError,
    },
}

impl WriteError {
    fn call(&self) -> Option<&CallError> {
        match self {
            Self::Call(error) => Some(error),
            Self::Stopped { cause, .. } => cause.downcast_ref(),
            _ => None,
        }
    }

    /// The process may not write at this time; whoever may does.
    pub fn is_fenced(&self) -> bool {
        match self {
            Self::Fenced { .. } => true,
            Self::Stopped { cause, .. } => cause.downcast_ref().is_some_and(Self::is_fenced),
            _ => false,
        }
    }

    /// The object, or the kind, does not exist.
    pub fn is_not_found(&self) -> bool {
        self.call().is_some_and(CallError::is_not_found)
    }

    /// An object of the name exists.
    pub fn is_already_exists(&self) -> bool {
        self.call().is_some_and(CallError::is_already_exists)
    }

    /// The object was changed since it was read, is another one, or fields of it belong to others: read it again.
    pub fn is_conflict(&self) -> bool {
        self.call().is_some_and(CallError::is_conflict)
    }

    /// The object does not fulfil what its kind demands.
    pub fn is_invalid(&self) -> bool {
        self.call().is_some_and(CallError::is_invalid)
    }

    /// We may not.
    pub fn is_forbidden(&self) -> bool {
        self.call().is_some_and(CallError::is_forbidden)
    }
}

/// The object is not the one that was read.
pub(super) fn conflict(operation: &super::Operation) -> WriteError {
    let status = informer_cache::source::ServerStatus {
        code: 409,
        reason: "Conflict".to_owned(),
        message: "the object was changed since it was read; read it again".to_owned(),
        ..Default::default()
    };
    CallError::refused(operation.to_string(), status).into()
}

/// The cache does not have the object.
pub(super) fn not_found(operation: &super::Operation) -> WriteError {
    let status = informer_cache::source::ServerStatus {
        code: 404,
        reason: "NotFound".to_owned(),
        message: "it is not in the cache".to_owned(),
        ..Default::default()
    };
    CallError::refused(operation.to_string(), status).into()
}

/// The cache did not answer.
pub(super) fn unread(operation: &super::Operation, cause: crate::ReadError) -> WriteError {
    WriteError::Read { attempt: operation.to_string(), cause: Box::new(cause) }
}
