//! The informers of a program under one face: made when they are first asked for, started and stopped together.
//!
//! # Invariants
//!
//! 1. There is at most one entry for a kind and a form, and its informers are made once.
//! 2. While the cache runs, the cache holds a run of every informer of the table.
//! 3. Life cycle: `Created → Running → Stopped`, never back.
//!
//! # Lock order
//!
//! `table`, then the pending own writes of an informer. Informers are created, shown and awaited outside of `table`. They are
//! started under it, which runs no user code.
//!
//! # Shutdown
//!
//! [`Cache::stop`] forbids further starts, stops all informers and waits for their tasks. What they held can still be read.

mod builder;
mod error;
mod informer;
mod observers;
mod options;
pub(crate) mod own_writes;
mod plan;
mod read;
mod run;
mod table;
mod typed_index;

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use informer_cache::metrics::InformerMetrics;
use informer_cache::{InformerState, SharedInformer};
use informer_client::{Client, Dynamic, KubeListWatch, Lazy, Metadata, Representation, Typed};
use informer_core::Gvk;
use parking_lot::Mutex;

pub use builder::{CacheBuilder, MissingInformer};
pub use error::ReadError;
pub use informer::{CacheInformer, CacheRegistration, InformerPart};
pub use options::InformerOptions;
pub use plan::PartScope;
pub(crate) use plan::Selects;
pub use read::ListOptions;
pub use typed_index::{TypedIndex, typed};

use crate::observed::Observers;
use crate::{KubeKind, ScopedKind};
use informer::ErasedInformer;
use plan::{Levels, PartPlan};
use table::Table;

/// The informers of a program: one for each kind and form (and namespace, where only some are cached), made on first use.
///
/// A cheap handle; clones share the cache.
///
/// # Contract
///
/// - *First use.* [`informer`](Self::informer) makes an informer at once and never waits; a read makes one and waits until it
///   is synced, at most [`read_timeout`](CacheBuilder::read_timeout), and then fails with the informer's last error. With
///   [`MissingInformer::Refuse`] reads of other kinds than those that have informers fail at once.
/// - *Start.* What was asked for before [`start`](Self::start) starts with it, what comes later at once. A manager starts its cache, or
///   takes over one that was started before: its informers go on, and stop with the manager.
/// - *Staleness.* A read never asks the server: it answers what the informer has, which follows the server with a delay.
///   Objects are shared, not copied, and cannot be changed. Lists have no order.
/// - *One informer, many users.* Controllers and reads of one kind and form share one. Its form is a type parameter; two forms
///   of one kind are two watches and two stores, unless the kind is [pinned](CacheBuilder::only_form) to one.
/// - *Nobody waits for others.* A kind that cannot sync delays its own readers alone.
///
/// Upstream: [`cache.Cache`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/cache#Cache).
///
/// ```no_run
/// # async fn example(client: informer_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use informer_runtime::{Cache, ListOptions};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let cache = Cache::builder(client).namespaces(["web", "batch"]).build();
/// cache.index_field::<Pod>("spec.nodeName", informer_store::field("spec.nodeName"))?;
/// cache.start();
/// cache.wait_for_sync(Duration::from_secs(30)).await?;                 // the error names what is stuck, and why
/// let on_node = ListOptions::default().fields("spec.nodeName=worker-1".parse()?);
/// println!("{} pods", cache.list::<Pod>(&on_node).await?.len());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Cache {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    levels: Levels,
    missing: MissingInformer,
    read_timeout: Duration,
    observers: Arc<Observers<dyn InformerMetrics>>,
    /// Kinds that are held in one form: its `TypeId`, and its name for errors.
    pinned: std::collections::HashMap<Gvk, (TypeId, &'static str)>,
    table: Mutex<Table>,
    /// The next ticket: each beginning and each end of a write takes one.
    writes: AtomicU64,
}

impl Cache {
    /// A cache of all namespaces, with the defaults.
    pub fn new(client: impl Into<Client>) -> Self {
        Self::builder(client).build()
    }

    /// A cache to be configured.
    pub fn builder(client: impl Into<Client>) -> CacheBuilder {
        CacheBuilder::new(client.into())
    }

    /// The informer of `K` in the lazy form: the text of each object, typed when it is first read.
    pub fn informer<K: KubeKind>(&self) -> CacheInformer<Lazy<K>> {
        self.informer_of(ScopedKind::of::<K>())
    }

    /// The informer of `K`, decoded when it arrives: several times the memory, and no decode on access.
    pub fn typed<K: KubeKind>(&self) -> CacheInformer<Typed<K>>
    where
        Typed<K>: Representation,
    {
        self.informer_of(ScopedKind::of::<K>())
    }

    /// The informer of the metadata of `K`; the server sends nothing else.
    pub fn metadata<K: KubeKind>(&self) -> CacheInformer<Metadata<K>> {
        self.informer_of(ScopedKind::of::<K>())
    }

    /// The informer of `K`, compressed with a dictionary of its kind: a tenth of the memory, and some microseconds on each access. Secrets
    /// are compressed each by itself.
    #[cfg(feature = "packed")]
    pub fn packed<K: KubeKind>(&self) -> CacheInformer<informer_client::Packed<K>> {
        self.informer_of(ScopedKind::of::<K>())
    }

    /// The informer of a kind that is known at run time only.
    pub fn dynamic(&self, kind: impl Into<ScopedKind>) -> CacheInformer<Dynamic> {
        self.informer_of(kind)
    }

    /// The informer of a kind in the form `O`: the one that is there, or one that is made now, and started if the cache runs.
    /// It does not wait, and makes an informer whatever [`MissingInformer`] says of reads.
    pub fn informer_of<O: Representation>(&self, kind: impl Into<ScopedKind>) -> CacheInformer<O> {
        let kind = kind.into();
        if let Some(held) = self.held::<O>(kind.gvk()) {
            return held;
        }
        let made = self.make::<O>(&kind);
        let rewinds = self.rewinds();
        let (held, manager) = {
            let mut table = self.shared.table.lock();
            let (held, is_new) = table.insert(kind.gvk(), made, rewinds);
            (held, self.shared.observers.manager().filter(|_| is_new).cloned())
        };
        if let Some(manager) = manager {
            held.show_in(&*manager);
        }
        held
    }

    /// Shows the informers that there are, and those to come, in a manager. Of several managers the first one counts.
    pub(crate) fn show_in(&self, manager: &Arc<dyn InformerMetrics>) {
        let informers = {
            let table = self.shared.table.lock();
            if !self.shared.observers.join(Arc::clone(manager)) {
                return;
            }
            table.informers()
        };
        informers.iter().for_each(|informer| informer.show_in(&**manager));
    }

    /// The informer of a kind and form, if there is one.
    pub fn held<O: Representation>(&self, gvk: &Gvk) -> Option<CacheInformer<O>> {
        self.shared.table.lock().get(gvk)
    }

    fn make<O: Representation>(&self, kind: &ScopedKind) -> CacheInformer<O> {
        let parts = self.shared.levels.plan(kind).into_iter().map(|plan| InformerPart {
            informer: self.shared_informer(kind, &plan),
            selects: plan.selects(),
            scope: plan.scope,
            pending: Arc::new(Mutex::new(own_writes::nothing_pending())),
        });
        CacheInformer::new(kind.clone(), parts.collect())
    }

    fn shared_informer<O: Representation>(&self, kind: &ScopedKind, plan: &PartPlan) -> SharedInformer<O> {
        let options = &plan.options;
        let mut source = KubeListWatch::<O>::of(self.shared.client.clone(), kind.kind().clone());
        source = source.labels(options.labels.clone().unwrap_or_default());
        source = source.fields(options.fields.clone().unwrap_or_default());
        source = source.read_options(options.read.clone().unwrap_or_default());
        source = source.streaming_lists(options.streaming.unwrap_or_default());
        if let Some(namespace) = &plan.namespace {
            source = source.namespace(namespace);
        }
        if let Some(shares) = &options.shares {
            source = source.shares(shares.clone());
        }
        let form = if O::METADATA_ONLY { "metadata" } else { "" };
        let mut informer = SharedInformer::builder(source).name(plan.name(kind, form));
        if let Some(reflector) = &options.reflector {
            informer = informer.reflector(reflector.clone());
        }
        if let Some(period) = options.resync {
            informer = informer.resync(period);
        }
        if let Some(transform) = options.transform_of::<O>() {
            informer = informer.transform(move |object: Arc<O>| {
                let is_partial = object.is_partial();
                let transformed = transform(object)?;
                Ok(if is_partial { transformed.into_partial() } else { transformed })
            });
        }
        informer.metrics(Arc::clone(&self.shared.observers) as _).build()
    }

    /// True where the kind is held in the form `O` alone.
    pub(crate) fn is_pinned_to<O: Representation>(&self, gvk: &Gvk) -> bool {
        self.shared.pinned.get(gvk).is_some_and(|(form, _)| *form == TypeId::of::<O>())
    }

    /// Takes the informer of a kind and form out of the cache. It stops, unless somebody else holds a run of it; its handlers
    /// are told nothing more, reads that wait for it fail, and the next use makes a fresh one. Returns whether it was there.
    pub fn remove<O: Representation>(&self, gvk: &Gvk) -> bool {
        let removed = self.shared.table.lock().remove(gvk, TypeId::of::<O>());
        removed.is_some_and(|entry| {
            entry.informer.close();
            true
        })
    }

    /// As [`remove`](Self::remove), of every form of a kind. Returns how many there were.
    pub fn remove_kind(&self, gvk: &Gvk) -> usize {
        let removed = self.shared.table.lock().remove_kind(gvk);
        removed.iter().for_each(|entry| entry.informer.close());
        removed.len()
    }

    /// The states of all informers, by kind.
    pub fn states(&self) -> Vec<InformerState> {
        let informers = self.shared.table.lock().informers();
        informers.iter().flat_map(|informer| informer.states()).collect()
    }

    /// The client that the informers use.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("table", &*self.shared.table.lock()).finish_non_exhaustive()
    }
}
