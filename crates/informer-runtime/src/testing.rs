//! Contexts for unit tests of reconcilers.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use informer_cache::SyncError;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::mpsc;

pub use crate::events::RecordedEvent;

use crate::events::Recorded;
use crate::{CachedClient, Context, EventRecorder, KubeObject, ReconcileCause, Request, Services};

/// The timeout for the first list of a watched kind. It expires only if the server rejects the list.
const SYNC_TIMEOUT: Duration = Duration::from_secs(10);

/// Creates the [`Context`] with which a unit test calls a reconciler, without a manager.
///
/// The context is the one of a controller: its client writes under the controller's name,
/// [`ctx.get`](Context::get) reads [watched](TestContextBuilder::watches) kinds from a cache, and
/// [`ctx.now`](Services::now) follows tokio's clock. The events that the reconciler records are not sent
/// to the server; [`take_events`](Self::take_events) returns them. The test passes the state of a reconciler
/// for [`reconcile_with`](crate::ControllerBuilder::reconcile_with) as the third argument.
///
/// ```
/// use std::sync::Arc;
///
/// use informer_runtime::testing::TestContext;
/// use informer_runtime::{CachedClient, Context, EventType, Outcome, ReconcileError, Request};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// struct Settings {
///     key: String,
/// }
///
/// async fn reconcile(
///     request: Request,
///     ctx: Context,
///     settings: Arc<Settings>,
/// ) -> Result<Outcome, ReconcileError> {
///     let Some(map) = ctx.get::<ConfigMap>(&request.key).await? else { return Ok(Outcome::Done) };
///     if !map.data.iter().flatten().any(|(key, _)| *key == settings.key) {
///         ctx.recorder.warning(&map, "MissingKey", "Validate", format!("{} is missing", settings.key));
///     }
///     Ok(Outcome::Done)
/// }
///
/// # async fn example(client: CachedClient) -> Result<(), Box<dyn std::error::Error>> {
/// // `client` is a `FakeClient` that has the ConfigMap `default/settings`.
/// let test = TestContext::builder(&client).controller("settings").watches::<ConfigMap>().build().await?;
/// let settings = Arc::new(Settings { key: "region".to_owned() });
/// let outcome = reconcile(test.request("default/settings"), test.context(), settings).await;
/// assert!(matches!(outcome, Ok(Outcome::Done)));
/// let events = test.take_events();
/// assert_eq!((events[0].event_type, events[0].reason.as_str()), (EventType::Warning, "MissingKey"));
/// # Ok(()) }
/// ```
pub struct TestContext {
    context: Context,
    next: AtomicU64,
    events: EventLog,
}

/// Keeps the events of its recorders, for tests of code that records events without a manager.
///
/// At most 1000 events are kept until the next [`take`](Self::take). Further ones are lost and
/// [counted](EventRecorder::dropped).
///
/// ```
/// use informer_runtime::EventSubject;
/// use informer_runtime::testing::EventLog;
///
/// let log = EventLog::new();
/// let pod = EventSubject::new("v1", "Pod", "default", "web");
/// log.recorder("scheduler").warning(pod, "Unschedulable", "Schedule", "no node has room");
/// assert_eq!(log.take()[0].to_string(), "Warning Unschedulable Pod default/web: no node has room");
/// ```
///
/// Upstream: `FakeRecorder`.
pub struct EventLog {
    recorder: EventRecorder,
    events: Mutex<mpsc::Receiver<Recorded>>,
}

impl EventLog {
    /// Creates an empty log.
    pub fn new() -> Self {
        let (recorder, events) = EventRecorder::channel();
        Self { recorder, events: Mutex::new(events) }
    }

    /// Returns a recorder whose events have `controller` as the reporting controller.
    pub fn recorder(&self, controller: &str) -> EventRecorder {
        self.recorder.of(controller)
    }

    /// Returns the events that were recorded since the last call, oldest first. Unlike on a server, equal
    /// events form no series: each of them is returned.
    pub fn take(&self) -> Vec<RecordedEvent> {
        let mut recorded = self.events.lock();
        std::iter::from_fn(|| recorded.try_recv().ok()).map(RecordedEvent::from).collect()
    }
}

impl Default for EventLog {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLog").field("recorder", &self.recorder).finish_non_exhaustive()
    }
}

/// Builds a [`TestContext`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct TestContextBuilder {
    client: CachedClient,
    controller: String,
    now: Option<Timestamp>,
    watched: Vec<StartInformer>,
    causes: Vec<ReconcileCause>,
}

type StartInformer =
    Box<dyn FnOnce(CachedClient) -> Pin<Box<dyn Future<Output = Result<(), SyncError>> + Send>> + Send>;

impl TestContext {
    /// Returns a builder of a reconciler's context with this client, usually a `FakeClient` of the crate
    /// `informer`.
    pub fn builder(client: &CachedClient) -> TestContextBuilder {
        TestContextBuilder {
            client: client.clone(),
            controller: "test".to_owned(),
            now: None,
            watched: Vec::new(),
            causes: Vec::new(),
        }
    }

    /// Returns the context of a reconcile. Each call returns a new [`ReconcileId`](crate::ReconcileId).
    pub fn context(&self) -> Context {
        self.context.with_number(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the request for the object with this key: `NAMESPACE/NAME`, or `NAME` for a cluster-scoped
    /// kind.
    ///
    /// # Panics
    ///
    /// Panics if the key is invalid.
    #[track_caller]
    pub fn request(&self, key: &str) -> Request {
        key.parse().unwrap_or_else(|error| panic!("create a request for {key:?}: {error}"))
    }

    /// Returns the events that were recorded since the last call, oldest first. Unlike on a server, equal
    /// events form no series: each of them is returned.
    ///
    /// At most 1000 events are kept until the next call. Further ones are lost and
    /// [counted](crate::EventRecorder::dropped).
    pub fn take_events(&self) -> Vec<RecordedEvent> {
        self.events.take()
    }

    /// Returns the current time of the contexts.
    pub fn now(&self) -> Timestamp {
        self.context.now()
    }

    /// Sets the current time of all contexts. It then follows tokio's clock, so that in paused time only
    /// `tokio::time::advance` and sleeps change it.
    pub fn set_now(&self, now: Timestamp) {
        self.context.clock.set(now);
    }

    /// Cancels [`Context::stopping`] of all contexts, as a stopping controller does after its drain time.
    pub fn stop(&self) {
        self.context.stopping().cancel();
    }
}

impl TestContextBuilder {
    /// Sets the name of the controller: the field owner of its writes, and the reporter of its events. The
    /// default is `test`.
    pub fn controller(mut self, name: impl Into<String>) -> Self {
        self.controller = name.into();
        self
    }

    /// Adds a kind that the controller watches, so that [`Context::get`] finds its objects. As in a program,
    /// it returns an error for other kinds.
    pub fn watches<K: KubeObject>(mut self) -> Self {
        self.watched.push(Box::new(|client| {
            Box::pin(async move { client.cache().informer::<K>().wait_for_sync(SYNC_TIMEOUT).await })
        }));
        self
    }

    /// Sets the current time; see [`TestContext::set_now`]. The default is that of the system clock.
    pub fn now(mut self, now: Timestamp) -> Self {
        self.now = Some(now);
        self
    }

    /// Sets the causes that [`Context::causes`] returns, oldest first. By default there are none, as for a
    /// controller that does not record causes. As in a controller, at most 16 are kept, and one that equals
    /// the cause before it is not repeated.
    pub fn causes(mut self, causes: impl IntoIterator<Item = ReconcileCause>) -> Self {
        self.causes.extend(causes);
        self
    }

    /// Starts the informers of the watched kinds, waits until they have synced, and builds the context.
    ///
    /// # Errors
    ///
    /// Returns an error if an informer does not sync, for example because a CRD is missing.
    pub async fn build(self) -> Result<TestContext, SyncError> {
        self.client.cache().start();
        for start in self.watched {
            start(self.client.clone()).await?;
        }
        let events = EventLog::new();
        let services =
            Services::new(self.client.of_controller(&self.controller), events.recorder(&self.controller));
        if let Some(now) = self.now {
            services.clock.set(now);
        }
        let causes = self.causes.into_iter().collect();
        let context = Context::detached(&self.controller, services, causes);
        Ok(TestContext { context, next: AtomicU64::new(1), events })
    }
}

impl fmt::Debug for TestContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestContext").field("context", &self.context).finish_non_exhaustive()
    }
}

impl fmt::Debug for TestContextBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestContextBuilder")
            .field("controller", &self.controller)
            .field("watched", &self.watched.len())
            .finish_non_exhaustive()
    }
}
