//! The source that delivers the events of a kind from all clusters.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use informer_cache::handler::on_event;
use informer_cache::{Event, HandlerOptions};
use informer_client::Representation;
use informer_core::{LabelSelector, Object, ObjectKey};
use parking_lot::Mutex;

use super::{Cluster, ClusterName, ClusterRequest, Clusters};
use crate::cache::{CacheInformer, CacheRegistration};
use crate::handler::Enqueue;
use crate::kind::{group_kind, object_key};
use crate::predicate::Predicate;
use crate::source::{Enqueuer, Route, Source, Watch, WatchedKind};
use crate::{BoxError, KubeObject, ReconcileRequest, ResourceKind, Trigger};

/// The time for which a controller waits at its start for the first lists of the clusters that are engaged
/// then. A cluster that takes longer delays only its own requests.
const MAX_SYNC_WAIT: Duration = Duration::from_secs(30);

/// Maps the events of an object in a cluster to requests. It is implemented for closures of the same
/// arguments.
pub trait ClusterHandler<O, R: ReconcileRequest = ClusterRequest>: Send + Sync + 'static {
    /// Adds the requests for a trigger of a cluster to the controller's queue.
    fn handle(&self, cluster: &ClusterName, trigger: &Trigger<O>, enqueue: &mut Enqueue<'_, R>);
}

impl<O, R, F> ClusterHandler<O, R> for F
where
    R: ReconcileRequest,
    F: Fn(&ClusterName, &Trigger<O>, &mut Enqueue<'_, R>) + Send + Sync + 'static,
{
    fn handle(&self, cluster: &ClusterName, trigger: &Trigger<O>, enqueue: &mut Enqueue<'_, R>) {
        self(cluster, trigger, enqueue);
    }
}

/// Creates a source that enqueues the objects of a kind in all clusters.
pub fn watch_in<O: Representation>(clusters: &Clusters, watch: Watch<O>) -> WatchIn<O, ClusterRequest> {
    enqueue_in(
        clusters,
        watch,
        |cluster: &ClusterName, trigger: &Trigger<O>, enqueue: &mut Enqueue<'_, _>| {
            enqueue.add(ClusterRequest { cluster: cluster.clone(), key: trigger.key().clone() });
        },
    )
}

/// Creates a source that passes the events of a kind in all clusters to a handler.
pub fn enqueue_in<O: Representation, R: ReconcileRequest>(
    clusters: &Clusters,
    watch: Watch<O>,
    handler: impl ClusterHandler<O, R>,
) -> WatchIn<O, R> {
    WatchIn {
        clusters: clusters.clone(),
        kind: watch.kind,
        resync: watch.resync,
        predicates: Arc::new(watch.predicates),
        handler: Arc::new(handler),
        state: Arc::new(Mutex::new(SourceState::Created)),
    }
}

impl<O: Representation> WatchIn<O, ClusterRequest> {
    /// Makes the source enqueue the owners of kind `K` of the objects, instead of the objects. With
    /// [`Watch::every_owner`], not only the controller owner is enqueued.
    pub fn owners<K: KubeObject>(self, every: bool) -> Self {
        let owner = ResourceKind::of::<K>();
        let handler = move |cluster: &ClusterName, trigger: &Trigger<O>, enqueue: &mut Enqueue<'_, _>| {
            for object in trigger.states() {
                for key in owners(&**object, &owner, every) {
                    enqueue.add(ClusterRequest { cluster: cluster.clone(), key });
                }
            }
        };
        Self { handler: Arc::new(handler), ..self }
    }
}

fn owners<O: Object>(object: &O, kind: &ResourceKind, every: bool) -> Vec<ObjectKey> {
    let namespace = object.key().namespace();
    let owners = object.owners().iter().filter(|owner| {
        let group = owner.api_version().rsplit_once('/').map_or("", |(group, _)| group);
        (every || owner.is_controller()) && owner.kind() == kind.gvk().kind && group == kind.gvk().group
    });
    owners.filter_map(|owner| object_key(kind, namespace, owner.name())).collect()
}

/// The source returned by [`watch_in`] and [`enqueue_in`].
#[must_use = "pass it to a controller builder"]
pub struct WatchIn<O: Representation, R: ReconcileRequest> {
    clusters: Clusters,
    kind: ResourceKind,
    resync: Option<Duration>,
    predicates: Arc<Vec<Box<dyn Predicate<O>>>>,
    handler: Arc<dyn ClusterHandler<O, R>>,
    state: Arc<Mutex<SourceState<O, R>>>,
}

enum SourceState<O: Representation, R: ReconcileRequest> {
    Created,
    Running(BTreeMap<ClusterName, Watched<O, R>>),
    Stopped,
}

/// A cluster that the source watches.
struct Watched<O: Representation, R: ReconcileRequest> {
    cluster: Cluster,
    informer: CacheInformer<O>,
    registration: Arc<CacheRegistration<O>>,
    route: Arc<Route<O, R>>,
}

/// The parts of a source that its task uses.
struct Attacher<O: Representation, R: ReconcileRequest> {
    kind: ResourceKind,
    resync: Option<Duration>,
    predicates: Arc<Vec<Box<dyn Predicate<O>>>>,
    handler: Arc<dyn ClusterHandler<O, R>>,
    state: Arc<Mutex<SourceState<O, R>>>,
    enqueuer: Enqueuer<R>,
}

impl<O: Representation, R: ReconcileRequest> Attacher<O, R> {
    fn route(&self, cluster: &ClusterName) -> Route<O, R> {
        let (handler, cluster, predicates) =
            (Arc::clone(&self.handler), cluster.clone(), Arc::clone(&self.predicates));
        let kind = format!("{} in {cluster}", group_kind(&self.kind));
        let mut route = Route::new(kind, move |trigger: &Trigger<O>, enqueue: &mut Enqueue<'_, R>| {
            handler.handle(&cluster, trigger, enqueue);
        });
        route.filter(move |trigger: &Trigger<O>| predicates.iter().all(|predicate| predicate.holds(trigger)));
        route
    }

    /// Watches a cluster. An error concerns only this cluster, and is logged.
    fn attach(&self, cluster: &Cluster) -> Option<Watched<O, R>> {
        let name = &cluster.name;
        if let Err(error) = cluster.cache().check_representation::<O>(&self.kind) {
            tracing::error!(cluster = %name, error = &error as &dyn std::error::Error, "cannot watch a cluster");
            return None;
        }
        let informer = cluster.cache().informer_of::<O>(&self.kind);
        let mut options =
            HandlerOptions::for_work_queue().name(format!("controller {}", self.enqueuer.controller()));
        if let Some(period) = self.resync {
            options = options.resync(period);
        }
        let route = Arc::new(self.route(name));
        let (delivered, enqueuer, gone) = (Arc::clone(&route), self.enqueuer.clone(), cluster.gone.clone());
        let handler = on_event(move |event: Event<O>| {
            if !gone.is_cancelled() {
                delivered.deliver(&Trigger::Event(event), &enqueuer);
            }
        });
        match informer.add_handler_with(options, handler) {
            Ok(registration) => {
                let registration = Arc::new(registration);
                Some(Watched { cluster: cluster.clone(), informer, registration, route })
            }
            Err(error) => {
                tracing::error!(cluster = %name, error = &error as &dyn std::error::Error, "cannot watch a cluster");
                None
            }
        }
    }

    /// Watches the engaged clusters, and no others. Returns the registrations of the new ones.
    fn update(
        &self,
        engaged: &BTreeMap<ClusterName, Cluster>,
    ) -> Vec<(ClusterName, Arc<CacheRegistration<O>>)> {
        // A cluster of the same name may be another one, which was engaged after the first had been
        // disengaged.
        let is_engaged = |name: &ClusterName, watched: &Watched<O, R>| {
            !watched.cluster.gone.is_cancelled() && engaged.contains_key(name)
        };
        let mut ended = Vec::new();
        let new: Vec<&Cluster> = match &mut *self.state.lock() {
            SourceState::Running(watched) => {
                let gone = watched.iter().filter(|(name, watched)| !is_engaged(name, watched));
                let gone: Vec<ClusterName> = gone.map(|(name, _)| name.clone()).collect();
                ended.extend(gone.iter().filter_map(|name| watched.remove(name)));
                engaged.values().filter(|cluster| !watched.contains_key(&cluster.name)).collect()
            }
            SourceState::Created | SourceState::Stopped => return Vec::new(),
        };
        ended.iter().for_each(|watched| watched.registration.remove());
        let mut added = Vec::new();
        for cluster in new {
            let Some(watched) = self.attach(cluster) else { continue };
            let registration = Arc::clone(&watched.registration);
            let kept = match &mut *self.state.lock() {
                SourceState::Running(all) => {
                    all.insert(cluster.name.clone(), watched);
                    true
                }
                SourceState::Created | SourceState::Stopped => false,
            };
            if kept {
                added.push((cluster.name.clone(), registration));
            } else {
                registration.remove();
            }
        }
        added
    }
}

impl<O: Representation, R: ReconcileRequest> Source<R> for WatchIn<O, R> {
    fn name(&self) -> String {
        format!("kind {} in all clusters", self.kind)
    }

    fn watched(&self) -> Option<WatchedKind> {
        Some(WatchedKind::new(self.kind.clone()))
    }

    fn start(&self, enqueuer: Enqueuer<R>) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move {
            match &mut *self.state.lock() {
                state @ SourceState::Created => *state = SourceState::Running(BTreeMap::new()),
                _ => return Err("the source was started before".into()),
            }
            let within = enqueuer.sync_within().min(MAX_SYNC_WAIT);
            let attacher = Attacher {
                kind: self.kind.clone(),
                resync: self.resync,
                predicates: Arc::clone(&self.predicates),
                handler: Arc::clone(&self.handler),
                state: Arc::clone(&self.state),
                enqueuer: enqueuer.clone(),
            };
            let mut engaged = self.clusters.subscribe();
            let first = engaged.borrow_and_update().clone();
            let first = attacher.update(&first);
            let synced = join_all(first.iter().map(async |(cluster, registration)| {
                if let Err(error) = registration.wait_for_sync(within).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(%cluster, error, "a cluster did not sync in time; the controller starts without it");
                }
            }));
            // Clusters that join or leave meanwhile must not wait for a late one.
            let follow = async move {
                while engaged.changed().await.is_ok() {
                    let now = engaged.borrow_and_update().clone();
                    attacher.update(&now);
                }
            };
            enqueuer.spawn(follow);
            synced.await;
            Ok(())
        })
    }

    fn replay(&self, enqueuer: Enqueuer<R>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let watched: Vec<_> = match &*self.state.lock() {
                SourceState::Running(watched) => {
                    let parts = watched.values();
                    parts.map(|one| (one.informer.clone(), Arc::clone(&one.route))).collect()
                }
                SourceState::Created | SourceState::Stopped => return,
            };
            for (informer, route) in watched {
                route.replay(informer.list(&LabelSelector::everything()), &enqueuer).await;
            }
        })
    }

    fn stop(&self) {
        let before = std::mem::replace(&mut *self.state.lock(), SourceState::Stopped);
        if let SourceState::Running(watched) = before {
            watched.values().for_each(|watched| watched.registration.remove());
        }
    }
}

impl<O: Representation, R: ReconcileRequest> fmt::Debug for WatchIn<O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchIn").field("kind", &self.kind).finish_non_exhaustive()
    }
}
