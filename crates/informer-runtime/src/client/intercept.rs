//! What stands between a client and the server.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{CachedClient, Operation, WriteError};

/// Sees every operation of a client before it goes on. A closure is one:
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
/// An answer is the object, the list, or the status as JSON. Objects that a read answers from the cache are shown as JSON too:
/// a client with interceptors copies what others share, and is meant for tests. Of an object that is held typed, the JSON has
/// only the fields that the type knows.
///
/// Reads by [`CachedClient::metadata`] do not pass through interceptors.
pub trait Intercept: Send + Sync + 'static {
    /// Answers an operation, by itself or by [`Next::run`].
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

/// The end of the chain: the cache or the server.
pub(super) type Last = Arc<dyn Fn(Operation) -> BoxFuture<'static, Result<Value, WriteError>> + Send + Sync>;

/// What follows an interceptor: the next one, or the cache or the server.
#[must_use = "an operation that is not handed on does not happen"]
pub struct Next {
    /// How many interceptors are left.
    left: usize,
    interceptors: Vec<Arc<dyn Intercept>>,
    last: Last,
}

impl Next {
    pub(super) fn new(client: &CachedClient, last: Last) -> Self {
        let interceptors = client.settings.interceptors.clone();
        Self { left: interceptors.len(), interceptors, last }
    }

    /// Lets the operation go on.
    ///
    /// # Errors
    ///
    /// What the next interceptor, the cache or the server says.
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
