//! Changes of objects as a stream, without a cache: a reflector that is driven by its reader.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::{FutureExt as _, Stream};
use informer_cache::Change;
use informer_cache::queue::{QueueClosed, ReflectorStore};
use informer_cache::reflector::{Reflector, ReflectorConfig, ReflectorHandle, ReflectorStatus};
use informer_cache::source::{DynListWatch, ListWatch};
use informer_core::Object;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{Client, KubeListWatch, Representation, StaticKind};

/// The changes of the objects of one kind, as a stream. It holds no cache.
///
/// The first item is [`Change::Replaced`], with all objects. Added, updated and deleted objects and bookmarks
/// follow, in the order of the server. The stream has no end: after a broken connection, or if the server
/// ends the watch, it resumes the watch from the last resourceVersion. If the server does not have that
/// version any more (410), the stream lists again, and the next item is another [`Change::Replaced`]. An
/// object that is not in it was deleted.
///
/// Failed requests are repeated with the backoff of a reflector, which respects `Retry-After`.
/// [`status`](Self::status) has the last error. The bookmarks and the version of each list are
/// resourceVersions that the reader has completely seen.
///
/// The reader drives the stream: nothing is read from the server while the stream is not polled. A reader
/// that is slower than the changes delays the watch; if that takes too long, the server ends it, and the
/// stream resumes or lists again. At most one list, or one batch of events, is in memory.
///
/// For several readers of one kind, or to look up objects, use an informer.
///
/// Upstream: [`watch.RetryWatcher`](https://pkg.go.dev/k8s.io/client-go/tools/watch#RetryWatcher) and the
/// reflector of client-go.
///
/// ```no_run
/// # async fn example(client: informer_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use futures_util::StreamExt;
/// use informer_cache::Change;
/// use informer_client::{KubeListWatch, Lazy, WatchChanges};
/// use informer_core::Object;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pods = KubeListWatch::<Lazy<Pod>>::all(&client).namespace("default").labels("app=web".parse()?);
/// let mut changes = WatchChanges::new(pods);
/// while let Some(change) = changes.next().await {
///     match change {
///         Change::Replaced(list) => println!("{} pods", list.items.len()),
///         Change::Added(pod) | Change::Updated(pod) => println!("{} @{}", pod.key(), pod.resource_version()),
///         Change::Deleted(pod) => println!("{} was deleted", pod.key()),
///         _ => {}
///     }
/// }
/// # Ok(()) }
/// ```
///
/// # Cancel safety
///
/// [`next`](futures_util::StreamExt::next) is cancel safe: dropping its future loses no change. Dropping the
/// stream ends the open request.
#[must_use = "a stream does nothing unless it is polled"]
pub struct WatchChanges<O: Object> {
    received: Arc<Received<O>>,
    handle: ReflectorHandle,
    run: Pin<Box<dyn Future<Output = Result<(), QueueClosed>> + Send>>,
}

/// The changes that the reflector has written and the reader has not taken.
struct Received<O>(Mutex<VecDeque<Change<O>>>);

impl<O: Object> ReflectorStore<O> for Received<O> {
    fn push(&self, changes: Vec<Change<O>>) -> Result<(), QueueClosed> {
        self.0.lock().extend(changes);
        Ok(())
    }
}

impl Client {
    /// Lists and watches all objects of a kind, in all namespaces, as a stream of changes. The type is a
    /// [representation](Representation) of the kind, such as `Lazy<Pod>`.
    ///
    /// [`WatchChanges::new`] creates a stream of a namespace, of selected objects, or of a kind that is known
    /// only at run time.
    pub fn watch<O: Representation + StaticKind>(&self) -> WatchChanges<O> {
        WatchChanges::new(KubeListWatch::all(self))
    }
}

impl<O: Object> WatchChanges<O> {
    /// Creates a stream of the changes of a source. It sends no request before it is polled.
    pub fn new(source: impl ListWatch<O>) -> Self {
        let config = ReflectorConfig::named(source.describe());
        Self::with_config(source, config)
    }

    /// Creates a stream with options of its lists and watches: page size, timeouts, backoff and an error
    /// handler.
    pub fn with_config(source: impl ListWatch<O>, config: ReflectorConfig) -> Self {
        let received = Arc::new(Received(Mutex::default()));
        let store: Arc<dyn ReflectorStore<O>> = received.clone();
        let reflector = Reflector::new(DynListWatch::new(source), store, config);
        let handle = reflector.handle();
        let run = async move { reflector.run(CancellationToken::new()).await };
        // `fuse` makes it safe to poll the stream after its end.
        Self { received, handle, run: Box::pin(run.fuse()) }
    }

    /// Returns the status of the underlying reflector: its phase, the last resourceVersion, and the last
    /// error.
    pub fn status(&self) -> ReflectorStatus {
        self.handle.status()
    }

    fn take(&self) -> Option<Change<O>> {
        self.received.0.lock().pop_front()
    }
}

impl<O: Object> Stream for WatchChanges<O> {
    type Item = Change<O>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(change) = self.take() {
            return Poll::Ready(Some(change));
        }
        let ended = self.run.as_mut().poll(context).is_ready();
        match self.take() {
            Some(change) => Poll::Ready(Some(change)),
            None if ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl<O: Object> fmt::Debug for WatchChanges<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchChanges").field("status", &self.status()).finish_non_exhaustive()
    }
}
