use informer_client::CallError;

use crate::error::{ReadError, WriteError};

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

pub(super) fn read_failed(operation: &super::Operation, cause: ReadError) -> WriteError {
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

    /// Returns code, reason and message of the Kubernetes Status in an error.
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
