use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt};
use informer_core::Object;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::{Enqueuer, Route, Source};
use crate::handler::Handler;
use crate::predicate::Predicate;
use crate::{BoxError, ReconcileRequest, Trigger};

/// Creates a source from the objects of a channel. Objects that are sent before the controller starts wait in
/// the channel, whose capacity the caller chooses.
///
/// ```
/// use std::sync::Arc;
/// use informer_cache::testing::{TestObject, object};
/// use informer_runtime::{Request, handler::enqueue_object, source};
///
/// let (sender, receiver) = tokio::sync::mpsc::channel(100);
/// let source = source::channel::<TestObject, Request>("callbacks", receiver, enqueue_object());
/// // Some time later, a callback reports a change:
/// sender.try_send(Arc::new(object("default/web", "1")))?;
/// # drop(source);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn channel<O, R>(
    name: impl Into<String>,
    mut receiver: mpsc::Receiver<Arc<O>>,
    handler: impl Handler<O, R>,
) -> Stream<O, R>
where
    O: Object,
    R: ReconcileRequest,
{
    let received = futures_util::stream::poll_fn(move |context| receiver.poll_recv(context));
    Stream::new(format!("channel {}", name.into()), received.boxed(), handler)
}

/// Creates a source from the objects of a stream. When the stream ends, the source delivers nothing more, and
/// the controller keeps running.
pub fn stream<O, R>(
    name: impl Into<String>,
    objects: impl futures_util::Stream<Item = Arc<O>> + Send + 'static,
    handler: impl Handler<O, R>,
) -> Stream<O, R>
where
    O: Object,
    R: ReconcileRequest,
{
    Stream::new(format!("stream {}", name.into()), objects.boxed(), handler)
}

/// The source returned by [`channel`] and [`stream`], which delivers the received objects.
pub struct Stream<O: Object, R: ReconcileRequest> {
    name: String,
    objects: Mutex<Option<BoxStream<'static, Arc<O>>>>,
    route: Mutex<Option<Route<O, R>>>,
}

impl<O: Object, R: ReconcileRequest> Stream<O, R> {
    fn new(name: String, objects: BoxStream<'static, Arc<O>>, handler: impl Handler<O, R>) -> Self {
        let route = Mutex::new(Some(Route::new(name.as_str(), handler)));
        Self { name, objects: Mutex::new(Some(objects)), route }
    }

    /// Adds a predicate to this source. A received object reaches the handler only if all predicates accept
    /// it.
    pub fn filter(self, predicate: impl Predicate<O>) -> Self {
        if let Some(route) = &mut *self.route.lock() {
            route.filter(predicate);
        }
        self
    }
}

impl<O: Object, R: ReconcileRequest> Source<R> for Stream<O, R> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn start(&self, enqueuer: Enqueuer<R>) -> BoxFuture<'_, Result<(), BoxError>> {
        let taken = (self.objects.lock().take(), self.route.lock().take());
        Box::pin(async move {
            let (Some(objects), Some(route)) = taken else {
                return Err("the source was started before; a stream can be read once".into());
            };
            let feeding = enqueuer.clone();
            enqueuer.spawn(async move {
                let mut objects = pin!(objects);
                while let Some(object) = objects.next().await {
                    route.deliver(&Trigger::Generic(object), &feeding);
                }
            });
            Ok(())
        })
    }
}

impl<O: Object, R: ReconcileRequest> fmt::Debug for Stream<O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("name", &self.name).finish_non_exhaustive()
    }
}
