use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use informer_cache::handler::on_event;
use informer_cache::{Event, HandlerOptions, SyncError};
use informer_client::{Lazy, Metadata, Representation, Typed};
use informer_core::LabelSelector;
use parking_lot::Mutex;

use super::enqueuer::Route;
use super::{Enqueuer, MAX_NAMED_INFORMERS, Source, WatchRole, WatchedKind};
use crate::cache::{Cache, CacheInformer, CacheRegistration};
use crate::handler::Handler;
use crate::kind::group_kind;
use crate::predicate::Predicate;
use crate::{BoxError, KubeObject, ReconcileRequest, ResourceKind, Trigger};

/// A kind that a controller watches, the representation of its objects in the cache, and predicates that
/// filter its events.
///
/// Controllers that watch a kind in the same representation share one informer, also with reads from the
/// cache. Another representation has another informer with a separate watch and store.
#[must_use = "pass it to a controller builder"]
pub struct Watch<O: Representation> {
    pub(crate) kind: ResourceKind,
    pub(crate) predicates: Vec<Box<dyn Predicate<O>>>,
    pub(crate) resync: Option<Duration>,
    pub(crate) every_owner: bool,
}

/// Watches a kind in the lazy representation: objects are stored encoded and decoded when they are read. The
/// informer is shared with reads of this kind from the cache.
pub fn watch<K: KubeObject>() -> Watch<Lazy<K>> {
    watch_of(ResourceKind::of::<K>())
}

/// Watches only the metadata of a kind. The server does not send spec and status, which saves memory and
/// bandwidth.
pub fn watch_metadata<K: KubeObject>() -> Watch<Metadata<K>> {
    watch_of(ResourceKind::of::<K>())
}

/// Watches a kind and stores its objects decoded. They are decoded once, when they arrive.
pub fn watch_typed<K: KubeObject>() -> Watch<Typed<K>>
where
    Typed<K>: Representation,
{
    watch_of(ResourceKind::of::<K>())
}

/// Watches a kind and stores its objects compressed, for kinds with many objects that are rarely read. See
/// [`Cache::packed`](crate::Cache::packed).
#[cfg(feature = "packed")]
pub fn watch_packed<K: KubeObject>() -> Watch<informer_client::Packed<K>> {
    watch_of(ResourceKind::of::<K>())
}

/// Watches a kind that is known only at run time. The type parameter is the representation of its objects in
/// the cache.
pub fn watch_of<O: Representation>(kind: impl Into<ResourceKind>) -> Watch<O> {
    Watch { kind: kind.into(), predicates: Vec::new(), resync: None, every_owner: false }
}

impl<O: Representation> Watch<O> {
    /// Adds a predicate on the events of this kind. An event reaches the handler only if all predicates
    /// accept it.
    pub fn filter(mut self, predicate: impl Predicate<O>) -> Self {
        self.predicates.push(Box::new(predicate));
        self
    }

    /// Adds a predicate on the object of an event, as [`object`](crate::predicate::object) does. An event
    /// reaches the handler only if all predicates accept it.
    pub fn filter_object(self, predicate: impl Fn(&O) -> bool + Send + Sync + 'static) -> Self {
        self.filter(crate::predicate::object(predicate))
    }

    /// Sets the period after which all objects are enqueued again from the cache; zero disables this. The
    /// default is the period of the cache.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Makes a change of an owned object enqueue all its owners of the reconciled kind. By default it
    /// enqueues only the owner with `controller: true`.
    pub fn every_owner(mut self) -> Self {
        self.every_owner = true;
        self
    }
}

impl<O: Representation> fmt::Debug for Watch<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("kind", &self.kind)
            .field("predicates", &self.predicates.len())
            .field("resync", &self.resync)
            .finish_non_exhaustive()
    }
}

/// Creates a source from the events of a kind in the manager's cache.
///
/// If the server does not serve the kind yet, or listing it is forbidden, the source retries until the
/// controller's sync timeout, since the CRD may be installed meanwhile.
pub fn kind<O: Representation, R: ReconcileRequest>(
    watch: Watch<O>,
    handler: impl Handler<O, R>,
) -> Kind<O, R> {
    Kind::new(None, watch, handler)
}

/// Creates a source from the events of a kind in any cache, for example that of another cluster, or one with
/// other namespaces or selectors than the manager's cache.
///
/// The source does not start the cache. Add the cache to the manager with
/// [`Manager::add`](crate::Manager::add), which starts and stops it, or start it with [`Cache::start`] and stop
/// it yourself. Several managers may watch a cache that the program starts itself.
///
/// - *Start.* The controller reconciles no request before the informer of the kind has synced. The source
///   fails if the cache was stopped before, or if it is not started within the controller's sync timeout.
/// - *End.* The source holds the informer of the kind while the controller runs. Afterwards an
///   [idle timeout](crate::CacheBuilder::idle_timeout) of the cache can end the informer.
/// - *Reads.* [`Context::client`](crate::Context) reads from the manager's cache. To read from this cache, use
///   a [`CachedClient`](crate::CachedClient::new) of it.
///
/// The predicates of [`event_filter`](crate::ControllerBuilder::event_filter) do not apply, and
/// [`Watch::every_owner`] has no effect, because `handler` determines the requests.
///
/// Upstream: [`source.Kind`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/source#Kind).
///
/// ```
/// # use informer_client::Client;
/// use informer_runtime::handler::enqueue_object;
/// use informer_runtime::source::{kind_in, watch};
/// use informer_runtime::{Cache, Controller, Manager, Outcome};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// # fn example(client: Client, other: Client) -> Manager {
/// let other = Cache::new(other);
/// let controller = Controller::new::<ConfigMap>("settings")
///     .source(kind_in(&other, watch::<Secret>(), enqueue_object()))
///     .reconcile(|_, _| async { Ok(Outcome::Done) });
/// Manager::new(client).add(other).controller(controller)
/// # }
/// ```
pub fn kind_in<O: Representation, R: ReconcileRequest>(
    cache: &Cache,
    watch: Watch<O>,
    handler: impl Handler<O, R>,
) -> Kind<O, R> {
    Kind::new(Some(cache.clone()), watch, handler)
}

/// The source returned by [`kind`] and [`kind_in`], which delivers the events of a kind from a cache.
pub struct Kind<O: Representation, R: ReconcileRequest> {
    /// The cache; `None` for that of the manager.
    cache: Option<Cache>,
    kind: ResourceKind,
    role: WatchRole,
    resync: Option<Duration>,
    route: Arc<Route<O, R>>,
    live: Mutex<KindSourceState<O>>,
}

impl<O: Representation, R: ReconcileRequest> Kind<O, R> {
    fn new(cache: Option<Cache>, watch: Watch<O>, handler: impl Handler<O, R>) -> Self {
        let mut route = Route::new(group_kind(&watch.kind), handler);
        watch.predicates.into_iter().for_each(|predicate| route.filter(predicate));
        Self {
            cache,
            kind: watch.kind,
            role: WatchRole::default(),
            resync: watch.resync,
            route: Arc::new(route),
            live: Mutex::new(KindSourceState::Created),
        }
    }

    /// Sets the relation of the kind to the reconciled one, which the console shows.
    pub(crate) fn with_role(mut self, role: WatchRole) -> Self {
        self.role = role;
        self
    }
}

/// The error for a cache that does not run, so that the source gets no events.
#[derive(Debug, thiserror::Error)]
enum CacheNotRunning {
    #[error("the cache was not started in time; add it to the manager or call `Cache::start`")]
    NotStarted(#[source] SyncError),
    #[error("the cache was stopped; create another one")]
    Stopped,
}

enum KindSourceState<O: Representation> {
    Created,
    Starting,
    Running(CacheInformer<O>, Arc<CacheRegistration<O>>),
    Stopped,
}

impl<O: Representation> KindSourceState<O> {
    /// Changes the source to running, and stores the informer and the handler's registration. Returns false
    /// if the source was stopped meanwhile; the caller then removes the handler.
    fn run(&mut self, informer: CacheInformer<O>, registration: &Arc<CacheRegistration<O>>) -> bool {
        let starting = matches!(self, Self::Starting);
        if starting {
            *self = Self::Running(informer, Arc::clone(registration));
        }
        starting
    }
}

impl<O: Representation, R: ReconcileRequest> Source<R> for Kind<O, R> {
    fn name(&self) -> String {
        let place = if self.cache.is_some() { " in another cache" } else { "" };
        format!("kind {}{place}", self.kind)
    }

    fn start(&self, enqueuer: Enqueuer<R>) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move {
            match &mut *self.live.lock() {
                state @ KindSourceState::Created => *state = KindSourceState::Starting,
                _ => return Err("the source was started before".into()),
            }
            let route = Arc::clone(&self.route);
            let cache = self.cache.clone().unwrap_or_else(|| enqueuer.services().cache.clone());
            if cache.is_stopped() {
                return Err(CacheNotRunning::Stopped.into());
            }
            cache.check_representation::<O>(&self.kind)?;
            let informer = cache.informer_of::<O>(&self.kind);
            let mut options =
                HandlerOptions::for_work_queue().name(format!("controller {}", enqueuer.controller()));
            if let Some(period) = self.resync {
                options = options.resync(period);
            }
            let within = enqueuer.sync_within();
            let handler = on_event(move |event: Event<O>| route.deliver(&Trigger::Event(event), &enqueuer));
            let registration = Arc::new(informer.add_handler_with(options, handler)?);
            if !self.live.lock().run(informer, &registration) {
                registration.remove();
                return Err("the source was stopped while it was starting".into());
            }
            match registration.wait_for_sync(within).await {
                Err(error) if !cache.is_started() => Err(CacheNotRunning::NotStarted(error).into()),
                synced => Ok(synced?),
            }
        })
    }

    fn replay(&self, enqueuer: Enqueuer<R>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let informer = match &*self.live.lock() {
                KindSourceState::Running(informer, _) => informer.clone(),
                _ => return,
            };
            self.route.replay(informer.list(&LabelSelector::everything()), &enqueuer).await;
        })
    }

    fn watched(&self) -> Option<WatchedKind> {
        let informer = match &*self.live.lock() {
            KindSourceState::Running(informer, _) => Some(informer.clone()),
            _ => None,
        };
        let scoped = informer.as_ref().map(CacheInformer::scoped_informers).unwrap_or_default();
        let names = scoped.iter().take(MAX_NAMED_INFORMERS).map(|scoped| scoped.informer.name().to_owned());
        Some(WatchedKind {
            role: self.role,
            informers: names.collect(),
            ..WatchedKind::new(self.kind.clone())
        })
    }

    fn stop(&self) {
        let before = std::mem::replace(&mut *self.live.lock(), KindSourceState::Stopped);
        if let KindSourceState::Running(_, registration) = before {
            registration.remove();
        }
    }
}

impl<O: Representation, R: ReconcileRequest> fmt::Debug for Kind<O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind").field("kind", &self.kind).field("cache", &self.cache).finish_non_exhaustive()
    }
}
