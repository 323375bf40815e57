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

/// How long an expected request may take, in the runtime's time: longer than any watch or backoff lasts, so
/// that under paused time only a request that never comes runs into it.
const EXPECT_WITHIN: Duration = Duration::from_secs(3600);

/// A source whose answers a [`ScriptedServer`] gives. Clones are one source.
///
/// Every request waits until the server has answered it. A request to a server that was dropped is refused as
/// a connection that nobody accepts.
pub struct ScriptedSource<O: Object> {
    shared: Arc<Shared>,
    requests: mpsc::UnboundedSender<Incoming<O>>,
}

/// The other end of a [`ScriptedSource`]: takes its requests in the order in which they come.
pub struct ScriptedServer<O: Object> {
    shared: Arc<Shared>,
    requests: mpsc::UnboundedReceiver<Incoming<O>>,
}

/// A request as the server has seen it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordedRequest {
    /// A list.
    #[non_exhaustive]
    List {
        /// The version asked for.
        version: ResourceVersion,
        /// The limit of a page.
        limit: Option<u32>,
        /// The token of the page before.
        continue_token: Option<String>,
    },
    /// A watch.
    #[non_exhaustive]
    Watch {
        /// The version from which on.
        version: ResourceVersion,
        /// True for a streaming list.
        send_initial_events: bool,
        /// After this time the server should close it.
        timeout: Duration,
    },
}

#[derive(Default)]
struct Shared {
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
    /// A source that knows no streaming lists, and its server.
    pub fn new() -> (Self, ScriptedServer<O>) {
        let shared = Arc::new(Shared::default());
        let (sender, receiver) = mpsc::unbounded_channel();
        let server = ScriptedServer { shared: Arc::clone(&shared), requests: receiver };
        (Self { shared, requests: sender }, server)
    }

    /// A source that may be asked for streaming lists until one has failed, and its server.
    pub fn streaming() -> (Self, ScriptedServer<O>) {
        let (source, server) = Self::new();
        source.shared.log.lock().streaming_list = true;
        (source, server)
    }

    async fn ask<T>(
        &self,
        recorded: RecordedRequest,
        incoming: Incoming<O>,
        answer: oneshot::Receiver<Result<T, SourceError>>,
    ) -> Result<T, SourceError> {
        self.shared.log.lock().requests.push(recorded);
        let refused = || failure(SourceErrorKind::ConnectionRefused);
        self.requests.send(incoming).map_err(|_| refused())?;
        answer.await.unwrap_or_else(|_| Err(refused()))
    }
}

impl<O: Object> ListSource<O> for ScriptedSource<O> {
    fn list(
        &self,
        request: ListRequest<O>,
    ) -> impl Future<Output = Result<ListStream<O>, SourceError>> + Send {
        let (sender, answer) = oneshot::channel();
        let recorded = RecordedRequest::List {
            version: request.version.clone(),
            limit: request.limit,
            continue_token: request.continue_token.clone(),
        };
        self.ask(recorded, Incoming::List(request, sender), answer)
    }
}

impl<O: Object> WatchSource<O> for ScriptedSource<O> {
    fn watch(
        &self,
        request: WatchRequest<O>,
    ) -> impl Future<Output = Result<WatchStream<O>, SourceError>> + Send {
        let (sender, answer) = oneshot::channel();
        let recorded = RecordedRequest::Watch {
            version: request.version.clone(),
            send_initial_events: request.send_initial_events,
            timeout: request.timeout,
        };
        self.ask(recorded, Incoming::Watch(request, sender), answer)
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
    /// When the next request is a watch, when none comes within an hour of the runtime's time, or when the
    /// source is gone.
    pub async fn expect_list(&mut self) -> ExpectedList<O> {
        match self.next("a list").await {
            Incoming::List(request, answer) => ExpectedList::new(request, answer),
            Incoming::Watch(request, _) => panic!("expected a list, got {request:?}"),
        }
    }

    /// Takes the next request, which must be a watch.
    ///
    /// # Panics
    ///
    /// When the next request is a list, when none comes within an hour of the runtime's time, or when the
    /// source is gone.
    pub async fn expect_watch(&mut self) -> ExpectedWatch<O> {
        match self.next("a watch").await {
            Incoming::Watch(request, answer) => ExpectedWatch::new(request, answer),
            Incoming::List(request, _) => panic!("expected a watch, got {request:?}"),
        }
    }

    /// The ordinary beginning: a list that is answered whole, then a watch from its version, which is
    /// accepted.
    ///
    /// # Panics
    ///
    /// When something else is asked.
    pub async fn expect_sync(
        &mut self,
        objects: impl IntoIterator<Item = O>,
        version: impl Into<ResourceVersion>,
    ) -> WatchPeer<O> {
        let version = version.into();
        self.expect_list().await.reply_page(objects, version.clone());
        self.expect_watch().await.assert_version(version).accept()
    }

    /// Nothing is asked for this long, in the runtime's time.
    ///
    /// # Panics
    ///
    /// When something is asked.
    pub async fn expect_silence(&mut self, how_long: Duration) {
        match timeout(how_long, self.requests.recv()).await {
            Ok(Some(Incoming::List(request, _))) => panic!("expected silence, got {request:?}"),
            Ok(Some(Incoming::Watch(request, _))) => panic!("expected silence, got {request:?}"),
            Ok(None) | Err(_) => {}
        }
    }

    /// Every request so far, those that nobody has expected yet included.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.log.lock().requests.clone()
    }

    /// How often the source was told that a streaming list has failed.
    pub fn streaming_list_failures(&self) -> usize {
        self.shared.log.lock().streaming_list_failures
    }

    async fn next(&mut self, what: &str) -> Incoming<O> {
        match timeout(EXPECT_WITHIN, self.requests.recv()).await {
            Ok(Some(incoming)) => incoming,
            Ok(None) => panic!("expected {what}, but the source is gone"),
            Err(_) => panic!("expected {what}, but nothing was asked within {EXPECT_WITHIN:?}"),
        }
    }
}

impl RecordedRequest {
    /// True for lists.
    pub fn is_list(&self) -> bool {
        matches!(self, Self::List { .. })
    }

    /// The version asked for.
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
