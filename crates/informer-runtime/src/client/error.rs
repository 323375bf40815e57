use informer_client::{CallError, DecodeError};

use crate::BoxError;

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
    /// The [field owner](super::CachedClient::field_owner) of the client is invalid. No request was sent.
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
        cause: Box<crate::ReadError>,
    },
    /// The [fence](super::CachedClient::fenced) of the client rejected the write. No request was sent.
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
    fn call(&self) -> Option<&CallError> {
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

pub(super) fn conflict(operation: &super::Operation) -> WriteError {
    let status = informer_cache::source::ServerStatus {
        code: 409,
        reason: "Conflict".to_owned(),
        message: "the object was changed since it was read; read it again".to_owned(),
        ..Default::default()
    };
    CallError::refused(operation.to_string(), status).into()
}

pub(super) fn not_found(operation: &super::Operation) -> WriteError {
    let status = informer_cache::source::ServerStatus {
        code: 404,
        reason: "NotFound".to_owned(),
        message: "it is not in the cache".to_owned(),
        ..Default::default()
    };
    CallError::refused(operation.to_string(), status).into()
}

pub(super) fn read_failed(operation: &super::Operation, cause: crate::ReadError) -> WriteError {
    WriteError::Read { attempt: operation.to_string(), cause: Box::new(cause) }
}

#[cfg(test)]
mod tests {
    use informer_client::ResourceKind;

    use super::*;
    use crate::client::operation::{Operation, OperationVerb};

    fn operation() -> Operation {
        Operation::on(OperationVerb::Replace, &ResourceKind::new("", "v1", "Pod", "pods"), "default/web")
    }

    /// Returns code, reason and message of the status that an error contains.
    fn status(error: &WriteError) -> (u16, &str, &str) {
        let status = error.call().and_then(CallError::status).expect("the error has a status");
        (status.code, &status.reason, &status.message)
    }

    #[test]
    fn conflict_has_the_status_of_an_api_server() {
        let error = conflict(&operation());
        assert!(error.is_conflict());
        let message = "the object was changed since it was read; read it again";
        assert_eq!(status(&error), (409, "Conflict", message));
    }

    #[test]
    fn object_that_is_not_cached_has_the_status_of_an_api_server() {
        let error = not_found(&operation());
        assert!(error.is_not_found());
        assert_eq!(status(&error), (404, "NotFound", "it is not in the cache"));
    }
}
