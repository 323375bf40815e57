use std::fmt;
use std::future::Future;

use informer_core::Object;

use super::{
    ListRequest, ListSource, ListStream, ListWatch, SourceError, WatchRequest, WatchSource, WatchStream,
};

/// A source whose lists and watches are closures. [`list_watch`] returns it.
pub struct ListWatchFns<L, W> {
    description: String,
    list: L,
    watch: W,
}

/// Creates a source from a closure that begins a list and one that begins a watch. `description` names its
/// objects in errors, logs and states, for example `pods in namespace default`.
///
/// The closures must keep the contract of [`ListWatch`] between list and watch. The source has no streaming
/// lists.
///
/// Upstream: [`ListWatch`](https://pkg.go.dev/k8s.io/client-go/tools/cache#ListWatch), a struct of functions.
///
/// ```
/// use informer_cache::SharedInformer;
/// use informer_cache::source::{ListStream, WatchStream, list_watch};
/// use informer_cache::testing::{TestObject, object};
///
/// let source = list_watch::<TestObject, _, _, _, _>(
///     "files of a folder",
///     |_request| async { Ok(ListStream::complete([object("a", "1")], "1")) },
///     |_request| async { Ok(WatchStream::new(futures_util::stream::pending())) },
/// );
/// let informer = SharedInformer::new(source);
/// # let _ = informer;
/// ```
pub fn list_watch<O, L, LF, W, WF>(description: impl Into<String>, list: L, watch: W) -> ListWatchFns<L, W>
where
    O: Object,
    L: Fn(ListRequest<O>) -> LF + Send + Sync + 'static,
    LF: Future<Output = Result<ListStream<O>, SourceError>> + Send,
    W: Fn(WatchRequest<O>) -> WF + Send + Sync + 'static,
    WF: Future<Output = Result<WatchStream<O>, SourceError>> + Send,
{
    ListWatchFns { description: description.into(), list, watch }
}

impl<O, L, LF, W> ListSource<O> for ListWatchFns<L, W>
where
    O: Object,
    L: Fn(ListRequest<O>) -> LF + Send + Sync + 'static,
    LF: Future<Output = Result<ListStream<O>, SourceError>> + Send,
    W: Send + Sync + 'static,
{
    fn list(
        &self,
        request: ListRequest<O>,
    ) -> impl Future<Output = Result<ListStream<O>, SourceError>> + Send {
        (self.list)(request)
    }
}

impl<O, L, W, WF> WatchSource<O> for ListWatchFns<L, W>
where
    O: Object,
    L: Send + Sync + 'static,
    W: Fn(WatchRequest<O>) -> WF + Send + Sync + 'static,
    WF: Future<Output = Result<WatchStream<O>, SourceError>> + Send,
{
    fn watch(
        &self,
        request: WatchRequest<O>,
    ) -> impl Future<Output = Result<WatchStream<O>, SourceError>> + Send {
        (self.watch)(request)
    }
}

impl<O, L, LF, W, WF> ListWatch<O> for ListWatchFns<L, W>
where
    O: Object,
    L: Fn(ListRequest<O>) -> LF + Send + Sync + 'static,
    LF: Future<Output = Result<ListStream<O>, SourceError>> + Send,
    W: Fn(WatchRequest<O>) -> WF + Send + Sync + 'static,
    WF: Future<Output = Result<WatchStream<O>, SourceError>> + Send,
{
    fn describe(&self) -> String {
        self.description.clone()
    }
}

impl<L, W> fmt::Debug for ListWatchFns<L, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ListWatchFns").field(&self.description).finish()
    }
}
