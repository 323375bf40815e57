//! Interceptors, which see and may change every operation between a client and the API server.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{CachedClient, Operation, WriteError};

/// Intercepts every operation of a client. Closures implement this trait:
///
/// ```
/// # fn example(client: &informer_runtime::CachedClient) {
/// use informer_runtime::{Next, Operation, OperationVerb, WriteError};
///
/// let failing = client.intercept(|operation: Operation, next: Next| async move {
///     match operation.verb {
///         OperationVerb::Delete => Err(WriteError::Stopped { attempt: operation.to_string(), cause: "not today".into() }),
///         _ => next.run(operation).await,
///     }
/// });
/// # }
/// ```
///
/// A response is the object, the list, or the Status as JSON. Cached objects are converted to JSON, too, so a
/// client with interceptors copies shared objects; interceptors are intended for tests. The JSON of a typed
/// object has only the fields that the type knows.
///
/// Reads by [`CachedClient::metadata`] and cached reads by [`Context`](crate::Context) are not intercepted.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not intercept the operations of a client",
    label = "not an interceptor",
    note = "a closure takes an `Operation` and a `Next`: \
            `|operation: Operation, next: Next| async move {{ next.run(operation).await }}`"
)]
pub trait Intercept: Send + Sync + 'static {
    /// Handles an operation. An interceptor either responds to the operation itself or passes it on with
    /// [`Next::run`].
    fn intercept(&self, operation: Operation, next: Next) -> BoxFuture<'static, Result<Value, WriteError>>;
}

impl<F, R> Intercept for F
where
    F: Fn(Operation, Next) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, WriteError>> + Send + 'static,
{
    fn intercept(&self, operation: Operation, next: Next) -> BoxFuture<'static, Result<Value, WriteError>> {
        Box::pin(self(operation, next))
    }
}

/// The function at the end of a chain of interceptors, which sends an operation to the cache or to the API
/// server.
pub(super) type Endpoint =
    Arc<dyn Fn(Operation) -> BoxFuture<'static, Result<Value, WriteError>> + Send + Sync>;

/// The remaining chain after an interceptor: the next interceptor, or the cache or API server.
#[must_use = "call `run`, or the operation does not happen"]
pub struct Next {
    left: usize,
    interceptors: Vec<Arc<dyn Intercept>>,
    last: Endpoint,
}

impl Next {
    pub(super) fn new(client: &CachedClient, last: Endpoint) -> Self {
        let interceptors = client.settings.interceptors.clone();
        Self { left: interceptors.len(), interceptors, last }
    }

    /// Passes an operation to the next interceptor or, after the last one, to the cache or the API server.
    ///
    /// # Errors
    ///
    /// Returns the error of the next interceptor, the cache or the API server.
    pub async fn run(mut self, operation: Operation) -> Result<Value, WriteError> {
        match self.left.checked_sub(1) {
            None => (self.last)(operation).await,
            Some(left) => {
                self.left = left;
                let interceptor = Arc::clone(&self.interceptors[left]);
                interceptor.intercept(operation, self).await
            }
        }
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("left", &self.left).finish_non_exhaustive()
    }
}
