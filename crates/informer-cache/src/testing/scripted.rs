use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use informer_core::{Object, ResourceVersion};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::{ExpectedList, ExpectedWatch, WatchPeer, failure};
use crate::source::{
    ListRequest, ListSource, ListStream, ListWatch, SourceError, SourceErrorKind, WatchRequest, WatchSource,
    WatchStream,
};

/// The timeout for a request that a test expects, by the runtime's clock. It is longer than any watch or
/// backoff. In paused time it therefore elapses only if no request is sent.
const EXPECT_WITHIN: Duration = Duration::from_secs(3600);

/// A source whose responses are sent by a [`ScriptedServer`]. Clones refer to the same source.
///
/// Every request waits for the response of the server. After the server was dropped, requests fail as if the
/// connection were refused.
pub struct ScriptedSource<O: Object> {
    shared: Arc<ScriptedState>,
    requests: mpsc::UnboundedSender<Incoming<O>>,
}

/// The server of a [`ScriptedSource`]. It receives the requests of the source in order.
pub struct ScriptedServer<O: Object> {
    shared: Arc<ScriptedState>,
    requests: mpsc::UnboundedReceiver<Incoming<O>>,
}

/// A request that the server received.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordedRequest {
    /// A request for a list or a page.
    #[non_exhaustive]
    List {
        /// The requested resourceVersion.
        version: ResourceVersion,
        /// The maximum number of objects that the request allows in a page.
        limit: Option<u32>,
        /// The continue token in the request; `None` for a first page.
        continue_token: Option<String>,
    },
    /// A request for a watch or a streaming list.
    #[non_exhaustive]
    Watch {
        /// The resourceVersion from which the watch starts.
        version: ResourceVersion,
        /// True if the watch is a streaming list.
        send_initial_events: bool,
        /// The time after which the request wants the server to close the watch.
        timeout: Duration,
    },
}

#[derive(Default)]
struct ScriptedState {
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    requests: Vec<RecordedRequest>,
    streaming_list: bool,
    streaming_list_failures: usize,
}

enum Incoming<O: Object> {
    List(ListRequest<O>, oneshot::Sender<Result<ListStream<O>, SourceError>>),
    Watch(WatchRequest<O>, oneshot::Sender<Result<WatchStream<O>, SourceError>>),
}

impl<O: Object> ScriptedSource<O> {
    /// Creates a source that does not support streaming lists, and the server of this source.
    pub fn new() -> (Self, ScriptedServer<O>) {
        let shared = Arc::new(ScriptedState::default());
        let (sender, receiver) = mpsc::unbounded_channel();
        let server = ScriptedServer { shared: Arc::clone(&shared), requests: receiver };
        (Self { shared, requests: sender }, server)
    }

    /// Creates a source that supports streaming lists until a streaming list has failed, and the server of
    /// this source.
    pub fn streaming() -> (Self, ScriptedServer<O>) {
        let (source, server) = Self::new();
        source.shared.log.lock().streaming_list = true;
        (source, server)
    }

    async fn ask<T>(
        &self,
        recorded: RecordedRequest,
        incoming: Incoming<O>,
        response: oneshot::Receiver<Result<T, SourceError>>,
    ) -> Result<T, SourceError> {
        self.shared.log.lock().requests.push(recorded);
        let refused = || failure(SourceErrorKind::ConnectionRefused);
        self.requests.send(incoming).map_err(|_| refused())?;
        response.await.unwrap_or_else(|_| Err(refused()))
    }
}

impl<O: Object> ListSource<O> for ScriptedSource<O> {
    fn list(
        &self,
        request: ListRequest<O>,
    ) -> impl Future<Output = Result<ListStream<O>, SourceError>> + Send {
        let (sender, response) = oneshot::channel();
        let recorded = RecordedRequest::List {
            version: request.version.clone(),
            limit: request.limit,
            continue_token: request.continue_token.clone(),
        };
        self.ask(recorded, Incoming::List(request, sender), response)
    }
}

impl<O: Object> WatchSource<O> for ScriptedSource<O> {
    fn watch(
        &self,
        request: WatchRequest<O>,
    ) -> impl Future<Output = Result<WatchStream<O>, SourceError>> + Send {
        let (sender, response) = oneshot::channel();
        let recorded = RecordedRequest::Watch {
            version: request.version.clone(),
            send_initial_events: request.send_initial_events,
            timeout: request.timeout,
        };
        self.ask(recorded, Incoming::Watch(request, sender), response)
    }
}

impl<O: Object> ListWatch<O> for ScriptedSource<O> {
    fn describe(&self) -> String {
        "objects of a script".to_owned()
    }

    fn supports_streaming_list(&self) -> bool {
        self.shared.log.lock().streaming_list
    }

    fn streaming_list_failed(&self) {
        let mut log = self.shared.log.lock();
        log.streaming_list = false;
        log.streaming_list_failures += 1;
    }
}

impl<O: Object> ScriptedServer<O> {
    /// Takes the next request, which must be a list.
    ///
    /// # Panics
    ///
    /// Panics if the next request is a watch, if there is none within an hour of the runtime's time, or if
    /// the source was dropped.
    pub async fn expect_list(&mut self) -> ExpectedList<O> {
        match self.next("a list").await {
            Incoming::List(request, response) => ExpectedList::new(request, response),
            Incoming::Watch(request, _) => panic!("expected a list, got {request:?}"),
        }
    }

    /// Takes the next request, which must be a watch.
    ///
    /// # Panics
    ///
    /// Panics if the next request is a list, if there is none within an hour of the runtime's time, or if the
    /// source was dropped.
    pub async fn expect_watch(&mut self) -> ExpectedWatch<O> {
        match self.next("a watch").await {
            Incoming::Watch(request, response) => ExpectedWatch::new(request, response),
            Incoming::List(request, _) => panic!("expected a watch, got {request:?}"),
        }
    }

    /// Handles the requests of a starting informer: responds to a list with all objects, then accepts a watch
    /// from its version.
    ///
    /// # Panics
    ///
    /// Panics if the source sends other requests.
    pub async fn expect_sync(
        &mut self,
        objects: impl IntoIterator<Item = O>,
        version: impl Into<ResourceVersion>,
    ) -> WatchPeer<O> {
        let version = version.into();
        self.expect_list().await.reply_page(objects, version.clone());
        self.expect_watch().await.assert_version(version).accept()
    }

    /// Waits for the time `how_long`, by the runtime's clock. The source must send no request during this
    /// time.
    ///
    /// # Panics
    ///
    /// Panics if the source sends a request.
    pub async fn expect_silence(&mut self, how_long: Duration) {
        match timeout(how_long, self.requests.recv()).await {
            Ok(Some(Incoming::List(request, _))) => panic!("expected silence, got {request:?}"),
            Ok(Some(Incoming::Watch(request, _))) => panic!("expected silence, got {request:?}"),
            Ok(None) | Err(_) => {}
        }
    }

    /// Returns all requests that the server has received, including those that no `expect` method has
    /// returned yet.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.log.lock().requests.clone()
    }

    /// Returns how often a failure of a streaming list was reported to the source.
    pub fn streaming_list_failures(&self) -> usize {
        self.shared.log.lock().streaming_list_failures
    }

    async fn next(&mut self, what: &str) -> Incoming<O> {
        match timeout(EXPECT_WITHIN, self.requests.recv()).await {
            Ok(Some(incoming)) => incoming,
            Ok(None) => panic!("expected {what}, but the source was dropped"),
            Err(_) => panic!("expected {what}, but there was no request within {EXPECT_WITHIN:?}"),
        }
    }
}

impl RecordedRequest {
    /// Returns true if the request is a list.
    pub fn is_list(&self) -> bool {
        matches!(self, Self::List { .. })
    }

    /// Returns the resourceVersion in the request.
    pub fn version(&self) -> &ResourceVersion {
        match self {
            Self::List { version, .. } | Self::Watch { version, .. } => version,
        }
    }
}

impl<O: Object> Clone for ScriptedSource<O> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), requests: self.requests.clone() }
    }
}

impl<O: Object> fmt::Debug for ScriptedSource<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedSource").finish_non_exhaustive()
    }
}

impl<O: Object> fmt::Debug for ScriptedServer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedServer").field("requests", &self.requests()).finish_non_exhaustive()
    }
}
