//! The client of a program: reads from the cache, writes to the server.

mod builder;
mod create_or;
mod delete;
pub(crate) mod difference;
mod dynamic;
mod error;
mod fetched;
mod intercept;
mod live;
pub mod metrics;
mod operation;
mod own_writes;
mod patch;
mod read;
mod settings;
mod subresource;
mod write;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_client::ListKeys;
use informer_core::Gvk;

pub use builder::ClientBuilder;
#[cfg(feature = "webhook")]
pub(crate) use builder::list_keys;
pub use create_or::OperationResult;
pub use delete::{DeleteOptions, Propagation};
pub use dynamic::DynamicClient;
pub use error::WriteError;
pub use fetched::{Edited, Fetched};
pub use intercept::{Intercept, Next};
pub use live::{LiveReader, Page};
pub use metrics::ClientMetrics;
pub use operation::{Operation, OperationVerb};
pub use patch::Patch;
pub use settings::FieldValidation;
pub(crate) use settings::field_owner_problem;
pub use subresource::Subresource;

use crate::Cache;
use crate::observed::Observers;
use settings::Settings;

/// Reads from a [`Cache`] and writes to the server.
///
/// A cheap handle; clones share everything. [`dry_run`](Self::dry_run), [`field_owner`](Self::field_owner),
/// [`in_namespace`](Self::in_namespace) and the like return a client that does so with everything it sends; the last one that
/// says something counts.
///
/// # Reads
///
/// [`get`](Self::get) and [`list`](Self::list) ask the cache: the first read of a kind makes its informer and waits for it,
/// as [`Cache`] says. Kinds that the builder [excludes](ClientBuilder::uncached) are asked of the server, and so is everything
/// by [`live`](Self::live).
///
/// A read that begins after a write has returned shows that write, or a later state. This holds for the writes of all clients of
/// the same cache. A read of one object waits for the writes of that object; a list waits for those of its namespace or kind. The
/// wait ends after the [bound](ClientBuilder::read_your_writes), with [`ReadError::Behind`](crate::ReadError::Behind). A write that
/// has no answer yet delays no read.
///
/// Not covered: writes of other programs, writes whose answer was lost, deletions of collections, servers whose versions are not
/// numbers, and, after a restore of the server from a backup, writes made before the cache has followed the server.
///
/// # Writes
///
/// An object that was read is shared, pruned, and seen through a type that may know fewer fields than the server. To change it,
/// take a copy with [`Fetched::edit`], change that, and hand it to [`update`](Self::update): what is sent is a patch of the
/// difference, computed on the whole object and bound to the uid and the version that was read. Nothing that the program does not
/// know is lost. Or state what is wanted with [`apply`](Self::apply). [`replace`](Self::replace) refuses objects that were read.
///
/// Upstream: [`client.Client`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/client#Client).
///
/// ```no_run
/// # async fn example(client: informer_runtime::CachedClient) -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// if let Some(web) = client.get::<Deployment>("default/web").await? {
///     let mut edited = web.edit();
///     edited.spec.replicas = Some(3);
///     client.update(&edited).await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct CachedClient {
    shared: Arc<Shared>,
    settings: Arc<Settings>,
}

/// What all handles of a client share.
struct Shared {
    api: informer_client::Client,
    cache: Cache,
    uncached: HashSet<Gvk>,
    /// Whether objects without a type are read from the cache.
    cache_dynamic: bool,
    /// How long a read waits for own writes at most; `None`: not at all.
    read_your_writes: Option<Duration>,
    metrics: Arc<Observers<dyn ClientMetrics>>,
    /// The list map keys of custom kinds.
    list_keys: HashMap<Gvk, ListKeys>,
}

impl CachedClient {
    /// A client that reads from a cache and writes to its server.
    pub fn new(cache: &Cache) -> Self {
        Self::builder(cache).build()
    }

    /// A client to be configured.
    pub fn builder(cache: &Cache) -> ClientBuilder {
        ClientBuilder::new(cache.clone())
    }

    /// The cache that reads are answered from.
    pub fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// Shows the client in the metrics of a manager. Of several managers the first one counts.
    #[cfg(feature = "prometheus")]
    pub(crate) fn show_in(&self, manager: Arc<dyn ClientMetrics>) {
        let is_first = self.shared.metrics.join(Arc::clone(&manager));
        if is_first {
            self.api().kinds_with_unknown_fields().iter().for_each(|kind| manager.unknown_fields(kind));
        }
    }

    /// The client of the server, for requests of your own.
    pub fn api(&self) -> &informer_client::Client {
        &self.shared.api
    }
}

impl fmt::Debug for CachedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedClient")
            .field("api", &self.shared.api)
            .field("settings", &self.settings)
            .finish()
    }
}
