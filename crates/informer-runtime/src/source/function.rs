use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{Feed, Source};
use crate::{BoxError, ReconcileRequest};

type Start<R> = dyn Fn(Feed<R>) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync;

/// A source that is an async function: it puts what is there into the queue and returns; what goes on runs in
/// [`Feed::spawn`].
///
/// ```
/// use std::time::Duration;
/// use informer_runtime::{Request, source};
///
/// // Looks at everything each minute.
/// let tick = source::function("minutes", |feed| async move {
///     let ticking = feed.clone();
///     feed.spawn(async move {
///         loop {
///             tokio::time::sleep(Duration::from_secs(60)).await;
///             ticking.enqueue(0).add("default/all".parse::<Request>().expect("a key"));
///         }
///     });
///     Ok(())
/// });
/// # let _ = tick;
/// ```
pub fn function<R, F, Fut>(name: impl Into<String>, start: F) -> Function<R>
where
    R: ReconcileRequest,
    F: Fn(Feed<R>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    Function { name: name.into(), start: Arc::new(move |feed| Box::pin(start(feed))) }
}

/// Made by [`function`].
pub struct Function<R: ReconcileRequest> {
    name: String,
    start: Arc<Start<R>>,
}

impl<R: ReconcileRequest> Source<R> for Function<R> {
    fn name(&self) -> String {
        format!("function {}", self.name)
    }

    fn start(&self, feed: Feed<R>) -> BoxFuture<'_, Result<(), BoxError>> {
        (self.start)(feed)
    }
}

impl<R: ReconcileRequest> fmt::Debug for Function<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("name", &self.name).finish_non_exhaustive()
    }
}
