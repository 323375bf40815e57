//! Where objects come from: the traits of a source, what it is asked, what it answers, how it fails.
//!
//! A source answers two questions, "what is there" ([`ListSource`]) and "what happens from there on" ([`WatchSource`]);
//! something that answers both is a [`ListWatch`]. A Kubernetes API server is one (`informer-client` implements it),
//! and so can be a directory of files. A [`Reflector`](https://pkg.go.dev/k8s.io/client-go/tools/cache#Reflector)
//! turns the answers into changes for a queue.
//!
//! Neither answer is a collection: both are streams, so that a list of a million objects passes through the memory
//! of a few network frames.

mod answer;
mod error;
mod request;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use answer::{ListEnd, ListPart, ListStream, Listed, WatchEvent, WatchStream};
pub use error::{ServerStatus, SourceError, SourceErrorKind};
use informer_core::Object;
pub use request::{KnownObjects, ListRequest, SourceContext, VersionMatch, WatchRequest};

/// Answers what is there.
pub trait ListSource<O: Object>: Send + Sync + 'static {
    /// Begins a list. The future resolves when the source has accepted the request (an HTTP server: when it has
    /// answered with its headers); the objects follow in the stream.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future or the stream ends the request.
    ///
    /// # Errors
    ///
    /// When the source refuses the list or cannot be reached. Failures after that come through the stream.
    fn list(
        &self,
        request: ListRequest<O>,
    ) -> impl Future<Output = Result<ListStream<O>, SourceError>> + Send;
}

/// Answers what happens.
pub trait WatchSource<O: Object>: Send + Sync + 'static {
    /// Begins a watch. The future resolves when the source has accepted it; the events follow in the stream, in the
    /// order of the source. The stream ends (without an error) when the source closes the watch.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future or the stream ends the watch.
    ///
    /// # Errors
    ///
    /// When the source refuses the watch or cannot be reached. Failures after that come through the stream.
    fn watch(
        &self,
        request: WatchRequest<O>,
    ) -> impl Future<Output = Result<WatchStream<O>, SourceError>> + Send;
}

/// A source of objects of one kind: a list, and a watch that continues it.
///
/// The contract between the two: a watch from the version of a list delivers every change after that list, once and in
/// order, or it fails with [`SourceErrorKind::Expired`].
pub trait ListWatch<O: Object>: ListSource<O> + WatchSource<O> {
    /// What is listed, in words for errors, logs and states, as `pods in namespace default`.
    fn describe(&self) -> String;

    /// True where [`WatchRequest::send_initial_events`] may be asked for. A source that fails it once is told by
    /// [`streaming_list_failed`](Self::streaming_list_failed) and may answer `false` from then on.
    fn supports_streaming_list(&self) -> bool {
        false
    }

    /// A streaming list was refused, or its end mark never came: remember it for this server and kind.
    fn streaming_list_failed(&self) {}

    /// True if the source answers a complete list sooner without a limit, for example because it reads parts of it in parallel.
    /// A reflector with [`Paging::Auto`](crate::reflector::Paging::Auto) then asks for complete lists without one.
    fn prefers_complete_lists(&self) -> bool {
        false
    }

    /// Identifies the server program that answers now, for example by its version; `None` if that is not known. A reflector calls it
    /// with each complete list. Another server may write an object of the same uid and version differently: after a change, the next
    /// list is read in full, and nothing in it counts as [unchanged](SourceContext::unchanged).
    fn server_version(&self) -> impl Future<Output = Option<Arc<str>>> + Send {
        std::future::ready(None)
    }
}

/// A [`ListWatch`] behind a pointer, so that informers are generic over the object alone.
pub struct DynListWatch<O: Object>(Arc<dyn ErasedListWatch<O>>);

impl<O: Object> DynListWatch<O> {
    /// Wraps a source.
    pub fn new(source: impl ListWatch<O>) -> Self {
        Self(Arc::new(source))
    }

    /// As [`ListSource::list`].
    ///
    /// # Errors
    ///
    /// As [`ListSource::list`].
    pub async fn list(&self, request: ListRequest<O>) -> Result<ListStream<O>, SourceError> {
        self.0.list(request).await
    }

    /// As [`WatchSource::watch`].
    ///
    /// # Errors
    ///
    /// As [`WatchSource::watch`].
    pub async fn watch(&self, request: WatchRequest<O>) -> Result<WatchStream<O>, SourceError> {
        self.0.watch(request).await
    }

    /// As [`ListWatch::describe`].
    pub fn describe(&self) -> String {
        self.0.describe()
    }

    /// As [`ListWatch::supports_streaming_list`].
    pub fn supports_streaming_list(&self) -> bool {
        self.0.supports_streaming_list()
    }

    /// As [`ListWatch::streaming_list_failed`].
    pub fn streaming_list_failed(&self) {
        self.0.streaming_list_failed();
    }

    /// As [`ListWatch::prefers_complete_lists`].
    pub fn prefers_complete_lists(&self) -> bool {
        self.0.prefers_complete_lists()
    }

    /// As [`ListWatch::server_version`].
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

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, SourceError>> + Send + 'a>>;

/// The same trait with boxed futures: one box a request, none an object.
trait ErasedListWatch<O: Object>: Send + Sync {
    fn list(&self, request: ListRequest<O>) -> Answer<'_, ListStream<O>>;
    fn watch(&self, request: WatchRequest<O>) -> Answer<'_, WatchStream<O>>;
    fn describe(&self) -> String;
    fn supports_streaming_list(&self) -> bool;
    fn streaming_list_failed(&self);
    fn prefers_complete_lists(&self) -> bool;
    fn server_version(&self) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + Send + '_>>;
}

impl<O: Object, S: ListWatch<O>> ErasedListWatch<O> for S {
    fn list(&self, request: ListRequest<O>) -> Answer<'_, ListStream<O>> {
        Box::pin(ListSource::list(self, request))
    }

    fn watch(&self, request: WatchRequest<O>) -> Answer<'_, WatchStream<O>> {
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
