use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{Enqueuer, Source};
use crate::{BoxError, ReconcileRequest};

type Start<R> = dyn Fn(Enqueuer<R>) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync;

/// Creates a source from an async function. The function enqueues the initial requests and returns; later
/// requests come from tasks that it spawns with [`Enqueuer::spawn`].
///
/// ```
/// use std::time::Duration;
/// use informer_runtime::{Request, source};
///
/// // Enqueues a request every minute.
/// let tick = source::function("minutes", |enqueuer| async move {
///     let ticking = enqueuer.clone();
///     enqueuer.spawn(async move {
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
    F: Fn(Enqueuer<R>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    Function { name: name.into(), start: Arc::new(move |enqueuer| Box::pin(start(enqueuer))) }
}

/// The source returned by [`function`], which calls an async function when the controller starts.
pub struct Function<R: ReconcileRequest> {
    name: String,
    start: Arc<Start<R>>,
}

impl<R: ReconcileRequest> Source<R> for Function<R> {
    fn name(&self) -> String {
        format!("function {}", self.name)
    }

    fn start(&self, enqueuer: Enqueuer<R>) -> BoxFuture<'_, Result<(), BoxError>> {
        (self.start)(enqueuer)
    }
}

impl<R: ReconcileRequest> fmt::Debug for Function<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("name", &self.name).finish_non_exhaustive()
    }
}
