//! [`CachedClient`] is the client of a program. It reads from the cache and writes to the API server.

mod builder;
mod cached_object;
mod conflict;
mod create_or;
mod delete;
pub(crate) mod difference;
mod dynamic;
mod edit;
mod error;
mod intercept;
mod live;
mod metadata;
pub mod metrics;
mod operation;
mod own_writes;
mod pager;
mod patch;
mod read;
mod settings;
mod subresource;
mod unchanged;
mod wait;
mod write;
#[cfg(feature = "console")]
pub(crate) mod writes;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_client::ListKeys;
use informer_core::Gvk;

pub use crate::error::WriteError;
pub use builder::ClientBuilder;
#[cfg(feature = "webhook")]
pub(crate) use builder::list_keys;
pub use cached_object::{Edited, Fetched};
pub use conflict::{MAX_CONFLICT_ATTEMPTS, MaybeConflict, retry_on_conflict};
pub use create_or::OperationResult;
pub use delete::{DeleteOptions, Propagation};
pub use dynamic::{DynamicClient, DynamicSubresource};
pub use intercept::{Intercept, Next};
pub use live::{GetOptions, LiveReader, Page};
pub use metadata::MetadataClient;
pub use metrics::ClientMetrics;
pub use operation::{Operation, OperationVerb};
pub use pager::ObjectStream;
pub use patch::Patch;
pub use settings::FieldValidation;
pub(crate) use settings::field_owner_problem;
pub use subresource::Subresource;
pub use wait::WaitError;

use crate::Cache;
use crate::observers::Observers;
use settings::ClientSettings;

/// Reads from a [`Cache`] and writes to the API server.
///
/// This type is a cheap handle; clones share their state. [`dry_run`](Self::dry_run),
/// [`field_owner`](Self::field_owner), [`in_namespace`](Self::in_namespace) and similar methods return a
/// client that applies the setting to all its requests; the last setting wins.
///
/// # Reads
///
/// [`get`](Self::get) and [`list`](Self::list) read from the cache: the first read of a kind creates its
/// informer and waits for it to sync, as described at [`Cache`]. Kinds that the builder
/// [excludes](ClientBuilder::uncached) are read from the API server, and so is everything through
/// [`live`](Self::live).
///
/// A read that begins after a write of the program has returned contains that write or a later state. This
/// holds for the writes of all clients of the same cache. A read of one object waits for the writes of that
/// object; a list waits for those of its namespace or kind. The wait ends after the
/// [bound](ClientBuilder::read_your_writes), with [`ReadError::Behind`](crate::ReadError::Behind). A write
/// without a response yet delays no read.
///
/// Reads do not wait for writes of other programs, writes whose response was lost, deletions of collections,
/// writes to API servers whose resourceVersions are not numbers, and, after a restore of the server from a
/// backup, writes made before the cache has followed the restore.
///
/// # Writes
///
/// An object that was read is shared and pruned, and its type may know fewer fields than the server. To
/// change it, copy it with [`Fetched::edit`], change the copy, and pass the copy to [`update`](Self::update).
/// The request is a patch of the difference, computed on the whole object, with the uid and the
/// resourceVersion that were read as preconditions, so fields that the program does not know are kept.
/// [`edit`](Self::edit) does all of this, and repeats it after conflicts. Alternatively, declare the desired
/// fields with [`apply`](Self::apply). [`replace`](Self::replace) rejects objects that were read.
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
    shared: Arc<ClientInner>,
    settings: Arc<ClientSettings>,
}

struct ClientInner {
    api: informer_client::Client,
    cache: Cache,
    uncached: HashSet<Gvk>,
    cache_dynamic: bool,
    read_your_writes: Option<Duration>,
    metrics: Arc<Observers<dyn ClientMetrics>>,
    list_keys: HashMap<Gvk, ListKeys>,
    applied: unchanged::AppliedObjects,
}

impl CachedClient {
    /// Creates a client that reads from `cache` and writes to its API server.
    pub fn new(cache: &Cache) -> Self {
        Self::builder(cache).build()
    }

    /// Returns a builder for a client of `cache`.
    pub fn builder(cache: &Cache) -> ClientBuilder {
        ClientBuilder::new(cache.clone())
    }

    /// Returns the cache from which this client reads.
    pub fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// Reports the client's metrics also to a manager. Only the first call has an effect, since a client
    /// reports to one manager.
    #[cfg(any(feature = "console", feature = "prometheus"))]
    pub(crate) fn show_in(&self, manager: Arc<dyn ClientMetrics>) {
        let is_first = self.shared.metrics.set_manager(Arc::clone(&manager));
        if is_first {
            self.api().kinds_with_unknown_fields().iter().for_each(|kind| manager.unknown_fields(kind));
        }
    }

    /// Returns the underlying API client, for requests that this type does not offer.
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
