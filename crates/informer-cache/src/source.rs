//! List and watch sources: the traits, their requests, responses and errors.
//!
//! A source has two operations: [`ListSource`] returns the current objects, and [`WatchSource`] returns the
//! changes after a list. A type that implements both is a [`ListWatch`], for example a Kubernetes API server
//! (`informer-client`) or a directory of files. A
//! [`Reflector`](https://pkg.go.dev/k8s.io/client-go/tools/cache#Reflector) turns the responses into changes
//! for a queue.
//!
//! Lists and watches are streams, not collections: a list of a million objects needs memory for only a few
//! network frames.

mod closures;
mod error;
mod filtered;
mod request;
mod response;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use closures::{ListWatchFns, list_watch};
pub use error::{ServerStatus, SourceError, SourceErrorKind};
pub use filtered::{FilterPanicked, FilteredSource, ObjectFilter};
use informer_core::Object;
pub use request::{KnownObjects, ListRequest, SourceContext, VersionMatch, WatchRequest};
pub use response::{ListEnd, ListPart, ListStream, Listed, WatchEvent, WatchStream};

/// A source that lists the current objects of a kind.
pub trait ListSource<O: Object>: Send + Sync + 'static {
    /// Begins a list. The future resolves when the source has accepted the request (for an HTTP server: when
    /// the response headers have arrived). The objects follow in the stream.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future or the stream ends the request.
    ///
    /// # Errors
    ///
    /// Returns an error if the source rejects the list or cannot be reached. Later failures are items of the
    /// stream.
    fn list(
        &self,
        request: ListRequest<O>,
    ) -> impl Future<Output = Result<ListStream<O>, SourceError>> + Send;
}

/// A source that watches for changes of objects.
pub trait WatchSource<O: Object>: Send + Sync + 'static {
    /// Begins a watch. The future resolves when the source has accepted the watch. The events follow in the
    /// stream, in the order of the source. The stream ends without an error when the source closes the watch.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future or the stream ends the watch.
    ///
    /// # Errors
    ///
    /// Returns an error if the source rejects the watch or cannot be reached. Later failures are items of the
    /// stream.
    fn watch(
        &self,
        request: WatchRequest<O>,
    ) -> impl Future<Output = Result<WatchStream<O>, SourceError>> + Send;
}

/// A source of objects of one kind, with a list and a watch that continues from the list.
///
/// Contract between list and watch: a watch from the version of a list delivers every change after that list,
/// once and in order, or fails with [`SourceErrorKind::Expired`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source that lists and watches `{O}`",
    label = "not a source of an informer",
    note = "for a Kubernetes API server, use `SharedInformerFactory` or `KubeListWatch`",
    note = "another source implements `ListSource`, `WatchSource` and `ListWatch`"
)]
pub trait ListWatch<O: Object>: ListSource<O> + WatchSource<O> {
    /// Returns a description of the listed objects for errors, logs and states, for example `pods in
    /// namespace default`.
    fn describe(&self) -> String;

    /// Returns true if the source supports [`WatchRequest::send_initial_events`]. If a streaming list was
    /// rejected or did not complete, the reflector calls
    /// [`streaming_list_failed`](Self::streaming_list_failed), and the source may return `false` from then
    /// on.
    fn supports_streaming_list(&self) -> bool {
        false
    }

    /// Notifies the source that a streaming list was rejected, or that the final bookmark of a streaming list
    /// never arrived. The source should remember that this server does not support streaming lists of this
    /// kind.
    fn streaming_list_failed(&self) {}

    /// Returns true if the source serves a complete list faster when the request has no `limit`, for example
    /// because it reads parts of the list in parallel. A reflector with
    /// [`Paging::Auto`](crate::reflector::Paging::Auto) then requests complete lists without a limit.
    fn prefers_complete_lists(&self) -> bool {
        false
    }

    /// Returns the version of the server that responds now; `None` if it is unknown. A reflector calls this
    /// method for each complete list. A server of another version may encode an object with the same uid and
    /// resourceVersion differently. The value must also change when the schema of a custom resource changes,
    /// because a new default changes stored objects without a new resourceVersion. When the returned value
    /// changes, every object of the next list is decoded, and no object counts as
    /// [unchanged](SourceContext::unchanged).
    fn server_version(&self) -> impl Future<Output = Option<Arc<str>>> + Send {
        std::future::ready(None)
    }
}

/// A type-erased [`ListWatch`], so that informers are generic only over the object.
pub struct DynListWatch<O: Object>(Arc<dyn ErasedListWatch<O>>);

impl<O: Object> DynListWatch<O> {
    /// Creates a type-erased handle of a source.
    pub fn new(source: impl ListWatch<O>) -> Self {
        Self(Arc::new(source))
    }

    /// Begins a list, like [`ListSource::list`].
    ///
    /// # Errors
    ///
    /// The same errors as [`ListSource::list`].
    pub async fn list(&self, request: ListRequest<O>) -> Result<ListStream<O>, SourceError> {
        self.0.list(request).await
    }

    /// Begins a watch, like [`WatchSource::watch`].
    ///
    /// # Errors
    ///
    /// The same errors as [`WatchSource::watch`].
    pub async fn watch(&self, request: WatchRequest<O>) -> Result<WatchStream<O>, SourceError> {
        self.0.watch(request).await
    }

    /// Returns the source's description of its objects, like [`ListWatch::describe`].
    pub fn describe(&self) -> String {
        self.0.describe()
    }

    /// Returns whether the source supports streaming lists, like [`ListWatch::supports_streaming_list`].
    pub fn supports_streaming_list(&self) -> bool {
        self.0.supports_streaming_list()
    }

    /// Notifies the source of a failed streaming list, like [`ListWatch::streaming_list_failed`].
    pub fn streaming_list_failed(&self) {
        self.0.streaming_list_failed();
    }

    /// Returns whether the source prefers lists without a limit, like [`ListWatch::prefers_complete_lists`].
    pub fn prefers_complete_lists(&self) -> bool {
        self.0.prefers_complete_lists()
    }

    /// Returns the version of the server, like [`ListWatch::server_version`].
    pub async fn server_version(&self) -> Option<Arc<str>> {
        self.0.server_version().await
    }
}

impl<O: Object> Clone for DynListWatch<O> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<O: Object> fmt::Debug for DynListWatch<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DynListWatch").field(&self.describe()).finish()
    }
}

type SourceFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SourceError>> + Send + 'a>>;

/// The traits of a source with boxed futures, so that they can be used as trait objects. A boxed future costs
/// one allocation per request, and none per object.
trait ErasedListWatch<O: Object>: Send + Sync {
    fn list(&self, request: ListRequest<O>) -> SourceFuture<'_, ListStream<O>>;
    fn watch(&self, request: WatchRequest<O>) -> SourceFuture<'_, WatchStream<O>>;
    fn describe(&self) -> String;
    fn supports_streaming_list(&self) -> bool;
    fn streaming_list_failed(&self);
    fn prefers_complete_lists(&self) -> bool;
    fn server_version(&self) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + Send + '_>>;
}

impl<O: Object, S: ListWatch<O>> ErasedListWatch<O> for S {
    fn list(&self, request: ListRequest<O>) -> SourceFuture<'_, ListStream<O>> {
        Box::pin(ListSource::list(self, request))
    }

    fn watch(&self, request: WatchRequest<O>) -> SourceFuture<'_, WatchStream<O>> {
        Box::pin(WatchSource::watch(self, request))
    }

    fn describe(&self) -> String {
        ListWatch::describe(self)
    }

    fn supports_streaming_list(&self) -> bool {
        ListWatch::supports_streaming_list(self)
    }

    fn streaming_list_failed(&self) {
        ListWatch::streaming_list_failed(self);
    }

    fn prefers_complete_lists(&self) -> bool {
        ListWatch::prefers_complete_lists(self)
    }

    fn server_version(&self) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + Send + '_>> {
        Box::pin(ListWatch::server_version(self))
    }
}
