//! Controllers of objects in many clusters, which come and go while the program runs.
//!
//! [`Clusters`] is the set of clusters. Each has a client, a cache and an event recorder of its own.
//! [`watch_in`] is the source of a controller that watches a kind in all of them. Its requests are
//! [`ClusterRequest`]s, and [`Clusters::reconcile`] calls a reconciler with the cluster of a request.
//!
//! ```
//! use std::time::Duration;
//!
//! use informer_runtime::multicluster::{Cluster, Clusters, watch_in};
//! use informer_runtime::source::watch;
//! use informer_runtime::{Context, Controller, Manager, Outcome, ReconcileError, Request};
//! use k8s_openapi::api::core::v1::ConfigMap;
//! # use informer_client::Client;
//!
//! async fn reconcile(request: Request, cluster: Cluster, _: Context) -> Result<Outcome, ReconcileError> {
//!     if cluster.client().get::<ConfigMap>(&request.key).await?.is_some() {
//!         println!("{} has {}", cluster.name(), request.key);
//!     }
//!     Ok(Outcome::Done)
//! }
//!
//! # fn example(home: Client, east: Client) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let clusters = Clusters::new();
//! clusters.engage("east", east)?;
//! let controller = Controller::of_requests("settings")
//!     .source(watch_in(&clusters, watch::<ConfigMap>()))
//!     .reconcile(clusters.reconcile(reconcile));
//! // Leases, and events of the manager, are in the home cluster.
//! let manager = Manager::new(home).add(clusters.clone()).controller(controller);
//! # drop(manager);
//! # Ok(()) }
//! ```
//!
//! # Invariants
//!
//! 1. Clusters are independent: an API server that cannot be reached delays only requests of its own cluster.
//! 2. A cluster that was disengaged gets no new requests of sources, and its reconciles are dropped at their
//!    next await. A cluster of the same name that is engaged later is another cluster.
//!
//! # Lock order
//!
//! The lock of the set of clusters and that of a source are never held together. Hooks, caches and handlers
//! run without them.
//!
//! # Shutdown
//!
//! When the manager stops its caches, all clusters are disengaged.
//!
//! Upstream: [multicluster-runtime](https://github.com/kubernetes-sigs/multicluster-runtime) on top of
//! controller-runtime ([#2746](https://github.com/kubernetes-sigs/controller-runtime/issues/2746)).

mod request;
mod source;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use informer_client::{Client, MemoryBudget};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use request::{ClusterName, ClusterRequest};
pub use source::{ClusterHandler, WatchIn, enqueue_in, watch_in};

use crate::events::EventSender;
use crate::{
    BoxError, Cache, CachedClient, Context, EventRecorder, Outcome, ReconcileError, Request, Runnable,
    RunnableGroup,
};

/// The maximum number of clusters. Each has informers of its own, so that memory is the limit long before.
const MAX_CLUSTERS: usize = 10_000;

/// The time in which the tasks of a disengaged cluster end.
const DISENGAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// A cluster of [`Clusters`]. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    name: ClusterName,
    client: CachedClient,
    recorder: EventRecorder,
    /// Cancelled when the cluster is disengaged.
    gone: CancellationToken,
    tasks: TaskTracker,
}

impl Cluster {
    /// Returns the name under which the cluster was engaged.
    pub fn name(&self) -> &ClusterName {
        &self.name
    }

    /// Returns the client of the cluster, which reads from its cache. In a reconciler it writes under the
    /// name of the controller.
    pub fn client(&self) -> &CachedClient {
        &self.client
    }

    /// Returns the cache of the cluster.
    pub fn cache(&self) -> &Cache {
        self.client.cache()
    }

    /// Returns the recorder of events in the cluster.
    pub fn recorder(&self) -> &EventRecorder {
        &self.recorder
    }

    /// Returns a token that is cancelled when the cluster is disengaged.
    pub fn disengaged(&self) -> &CancellationToken {
        &self.gone
    }

    fn of_controller(&self, controller: &str) -> Self {
        Self {
            client: self.client.of_controller(controller),
            recorder: self.recorder.of(controller),
            ..self.clone()
        }
    }

    async fn end(self) {
        self.gone.cancel();
        self.tasks.close();
        let ended = async {
            self.cache().stop().await;
            self.tasks.wait().await;
        };
        if tokio::time::timeout(DISENGAGE_TIMEOUT, ended).await.is_err() {
            tracing::warn!(cluster = %self.name, "the tasks of a disengaged cluster did not end in time");
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The error for a cluster that cannot be engaged.
#[derive(Debug, thiserror::Error)]
pub enum EngageError {
    /// A cluster of that name is engaged.
    #[error("engage cluster {name}: a cluster of this name is engaged; disengage it first")]
    Exists {
        /// The name of the cluster.
        name: ClusterName,
    },
    /// There are as many clusters as possible.
    #[error("engage cluster {name}: there are {max} clusters; divide them among programs")]
    TooMany {
        /// The name of the cluster.
        name: ClusterName,
        /// The maximum number of clusters.
        max: usize,
    },
    /// The set of clusters was stopped.
    #[error("engage cluster {name}: the manager is stopping")]
    Stopped {
        /// The name of the cluster.
        name: ClusterName,
    },
}

type Hook = Arc<dyn Fn(&Cluster) -> Result<(), BoxError> + Send + Sync>;

/// The clusters of a program, by name. Clones share one set.
///
/// A provider, which is any code of the program, [engages](Self::engage) and [disengages](Self::disengage)
/// clusters at any time: from a list of kubeconfigs, from Secrets, or from the objects of Cluster API. Add
/// the set to the manager, so that it ends with the manager.
#[derive(Clone, Default)]
#[must_use = "add it to a manager"]
pub struct Clusters {
    shared: Arc<EngagedClusters>,
}

#[derive(Default)]
struct EngagedClusters {
    /// The clusters; observed by sources.
    engaged: watch::Sender<BTreeMap<ClusterName, Cluster>>,
    stopped: Mutex<bool>,
    hooks: Mutex<Vec<Hook>>,
    budget: Mutex<Option<MemoryBudget>>,
}

impl Clusters {
    /// Creates an empty set of clusters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function that is called with each cluster before sources use it, for example to add indexes to
    /// its cache. An error rejects the cluster.
    pub fn on_engage(self, hook: impl Fn(&Cluster) -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        self.shared.hooks.lock().push(Arc::new(hook));
        self
    }

    /// Limits the memory of the caches of all clusters together. Clusters that are engaged later share the
    /// budget; those of [`engage_with`](Self::engage_with) have the budget of their own cache, if any. See
    /// [`CacheBuilder::memory_limit`](crate::CacheBuilder::memory_limit).
    pub fn memory_budget(self, budget: MemoryBudget) -> Self {
        *self.shared.budget.lock() = Some(budget);
        self
    }

    /// Adds a cluster with a new cache of all its namespaces. Controllers begin to watch it.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is in use, if a hook fails, or if the manager is stopping.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub fn engage(
        &self,
        name: impl Into<ClusterName>,
        client: impl Into<Client>,
    ) -> Result<Cluster, BoxError> {
        let mut cache = Cache::builder(client);
        if let Some(budget) = self.shared.budget.lock().clone() {
            cache = cache.memory_budget(budget);
        }
        self.engage_with(name, CachedClient::new(&cache.build()))
    }

    /// Adds a cluster with a client whose cache has options of its own, such as namespaces. Starts the cache.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`engage`](Self::engage).
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub fn engage_with(
        &self,
        name: impl Into<ClusterName>,
        client: CachedClient,
    ) -> Result<Cluster, BoxError> {
        let name = name.into();
        let (events, recorder) = EventSender::new(client.api().clone());
        let cluster = Cluster {
            name: name.clone(),
            client,
            recorder,
            gone: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let hooks = self.shared.hooks.lock().clone();
        hooks.iter().try_for_each(|hook| hook(&cluster))?;
        {
            let stopped = self.shared.stopped.lock();
            if *stopped {
                return Err(EngageError::Stopped { name }.into());
            }
            let mut rejected = None;
            self.shared.engaged.send_if_modified(|engaged| {
                if engaged.contains_key(&name) {
                    rejected = Some(EngageError::Exists { name: name.clone() });
                } else if engaged.len() >= MAX_CLUSTERS {
                    rejected = Some(EngageError::TooMany { name: name.clone(), max: MAX_CLUSTERS });
                } else {
                    engaged.insert(name.clone(), cluster.clone());
                }
                rejected.is_none()
            });
            if let Some(rejected) = rejected {
                return Err(rejected.into());
            }
        }
        cluster.cache().start();
        cluster.tasks.spawn(Box::new(events).run(cluster.gone.clone()));
        tracing::info!(cluster = %name, "engaged a cluster");
        Ok(cluster)
    }

    /// Removes a cluster. Its queued requests are dropped, its running reconciles end at their next await,
    /// and its informers stop. Waits for the informers. Returns false if there is no such cluster.
    ///
    /// # Cancel safety
    ///
    /// The cluster is removed when the future is first polled.
    pub async fn disengage(&self, name: impl Into<ClusterName>) -> bool {
        let name = name.into();
        let mut removed = None;
        self.shared.engaged.send_if_modified(|engaged| {
            removed = engaged.remove(&name);
            // A source that sees the next cluster of this name must see that this one was removed.
            removed.iter().for_each(|cluster| cluster.gone.cancel());
            removed.is_some()
        });
        let Some(cluster) = removed else { return false };
        tracing::info!(cluster = %name, "disengaged a cluster");
        cluster.end().await;
        true
    }

    /// Returns the cluster with this name, if it is engaged.
    pub fn get(&self, name: &ClusterName) -> Option<Cluster> {
        self.shared.engaged.borrow().get(name).cloned()
    }

    /// Returns the names of the engaged clusters, in order.
    pub fn names(&self) -> Vec<ClusterName> {
        self.shared.engaged.borrow().keys().cloned().collect()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<BTreeMap<ClusterName, Cluster>> {
        self.shared.engaged.subscribe()
    }

    /// Returns a reconciler that calls a function with the cluster of each request. A request of a cluster
    /// that is not engaged succeeds without a call. If the cluster is disengaged during the reconcile, its
    /// future is dropped.
    ///
    /// Upstream: `ErrClusterNotFound`, which drops the request.
    pub fn reconcile<F, Fut>(
        &self,
        reconciler: F,
    ) -> impl Fn(ClusterRequest, Context) -> BoxFuture<'static, Result<Outcome, ReconcileError>>
    + Send
    + Sync
    + 'static
    + use<F, Fut>
    where
        F: Fn(Request, Cluster, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, ReconcileError>> + Send + 'static,
    {
        let (clusters, reconciler) = (self.clone(), Arc::new(reconciler));
        move |request: ClusterRequest, context: Context| {
            let (clusters, reconciler) = (clusters.clone(), Arc::clone(&reconciler));
            Box::pin(async move {
                let Some(cluster) = clusters.get(&request.cluster) else { return Ok(Outcome::Done) };
                let cluster = cluster.of_controller(context.controller());
                let gone = cluster.gone.clone();
                let reconciled = gone.run_until_cancelled(reconciler(request.request(), cluster, context));
                reconciled.await.unwrap_or(Ok(Outcome::Done))
            })
        }
    }

    /// Removes all clusters, and prevents that others are engaged.
    fn take_all(&self) -> BTreeMap<ClusterName, Cluster> {
        *self.shared.stopped.lock() = true;
        self.shared.engaged.send_replace(BTreeMap::new())
    }
}

impl Runnable for Clusters {
    fn name(&self) -> String {
        "clusters".to_owned()
    }

    fn group(&self) -> RunnableGroup {
        RunnableGroup::Caches
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> {
        Box::pin(async move {
            let _ends = EndsOnDrop(&self);
            stop.cancelled().await;
            join_all(self.take_all().into_values().map(Cluster::end)).await;
            Ok(())
        })
    }
}

/// A guard that disengages the clusters of a manager that was dropped. Dropping the set is not enough, since
/// the provider may keep it.
struct EndsOnDrop<'a>(&'a Clusters);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        for cluster in self.0.take_all().into_values() {
            cluster.gone.cancel();
            cluster.tasks.close();
            // The first poll stops the informers. Nothing waits for their tasks.
            let _ = cluster.cache().stop().now_or_never();
        }
    }
}

impl fmt::Debug for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clusters").field(&self.names()).finish()
    }
}
