//! A cache of discovery that maps names, kinds and resources to each other.
//!
//! # Lock order
//!
//! The only lock is held while discovery runs, so that concurrent callers share one discovery.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_cache::source::SourceError;
use informer_core::{Gvk, Gvr};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{DiscoveredKind, Discovery, no_such_kind};
use crate::Client;

/// The minimum time between two discoveries of a [`RestMapper`]. A program that asks for a missing kind in a
/// loop thus sends at most one discovery per second. A kind that is installed within this time after a
/// discovery may be reported as missing until it has passed.
pub const MIN_MAPPER_REFRESH: Duration = Duration::from_secs(1);

/// The age at which a [`RestMapper`] discovers again even if it knows the kind, so that removed kinds and
/// changed preferred versions are noticed.
pub const MAX_MAPPER_AGE: Duration = Duration::from_secs(600);

/// Maps kinds, resources and names to each other, with the scope of each. Clones are cheap and share the
/// cached discovery.
///
/// The first call discovers the kinds of the server. A kind that is not known, for example because its CRD
/// was installed meanwhile, is looked up in a new discovery, at most one per [`MIN_MAPPER_REFRESH`].
///
/// Upstream: [`apiutil.NewDynamicRESTMapper`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/client/apiutil#NewDynamicRESTMapper).
///
/// ```no_run
/// # async fn example(client: informer_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mapper = client.rest_mapper();
/// let deployments = mapper.resolve("deploy").await?;
/// println!("{}, namespaced: {}", deployments.kind.gvr(), deployments.namespaced);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RestMapper {
    client: Client,
    cached: Arc<Mutex<Option<CachedDiscovery>>>,
}

/// The time of a discovery, and its result.
type CachedDiscovery = (Instant, Arc<Discovery>);

impl Client {
    /// Returns a mapper of the kinds of this server. Its cache is not shared with other mappers.
    pub fn rest_mapper(&self) -> RestMapper {
        RestMapper { client: self.clone(), cached: Arc::default() }
    }
}

impl RestMapper {
    /// Returns the kind with this group, version and kind.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`NotFound`](informer_cache::source::SourceErrorKind::NotFound) if the server
    /// has no such kind, or the error of [`Client::discover`].
    pub async fn kind(&self, gvk: &Gvk) -> Result<DiscoveredKind, SourceError> {
        self.find(|discovery| discovery.kind(gvk).cloned(), || gvk.to_string()).await
    }

    /// Returns the kind with this group, version and plural resource name.
    ///
    /// # Errors
    ///
    /// The same errors as [`kind`](Self::kind).
    pub async fn resource(&self, gvr: &Gvr) -> Result<DiscoveredKind, SourceError> {
        self.find(|discovery| discovery.resource(gvr).cloned(), || gvr.to_string()).await
    }

    /// Returns the kind of a group in its preferred version.
    ///
    /// # Errors
    ///
    /// The same errors as [`kind`](Self::kind).
    pub async fn preferred(&self, group: &str, kind: &str) -> Result<DiscoveredKind, SourceError> {
        let is_wanted = |found: &&DiscoveredKind| {
            let gvk = found.kind.gvk();
            gvk.group == group && gvk.kind == kind
        };
        let name = || if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        self.find(|discovery| discovery.kinds().find(is_wanted).cloned(), name).await
    }

    /// Resolves the name of a kind like [`Client::resolve`].
    ///
    /// # Errors
    ///
    /// The same errors as [`kind`](Self::kind).
    pub async fn resolve(&self, name: &str) -> Result<DiscoveredKind, SourceError> {
        self.find(|discovery| discovery.resolve(name).cloned(), || name.to_owned()).await
    }

    /// Returns the cached discovery, which is at most [`MAX_MAPPER_AGE`] old.
    ///
    /// # Errors
    ///
    /// Returns the error of [`Client::discover`].
    pub async fn discovery(&self) -> Result<Arc<Discovery>, SourceError> {
        self.newer_than(MAX_MAPPER_AGE).await
    }

    /// Discovers the kinds of the server again, unless the cached discovery is newer than
    /// [`MIN_MAPPER_REFRESH`].
    ///
    /// # Errors
    ///
    /// Returns the error of [`Client::discover`]. The cached discovery stays in use.
    pub async fn refresh(&self) -> Result<Arc<Discovery>, SourceError> {
        self.newer_than(MIN_MAPPER_REFRESH).await
    }

    async fn find(
        &self,
        find: impl Fn(&Discovery) -> Option<DiscoveredKind>,
        name: impl Fn() -> String,
    ) -> Result<DiscoveredKind, SourceError> {
        if let Some(found) = find(&*self.discovery().await?) {
            return Ok(found);
        }
        find(&*self.refresh().await?).ok_or_else(|| no_such_kind(&name()))
    }

    async fn newer_than(&self, age: Duration) -> Result<Arc<Discovery>, SourceError> {
        let mut cached = self.cached.lock().await;
        if let Some((_, discovery)) = cached.as_ref().filter(|(at, _)| at.elapsed() < age) {
            return Ok(Arc::clone(discovery));
        }
        let discovery = Arc::new(self.client.discover().await?);
        *cached = Some((Instant::now(), Arc::clone(&discovery)));
        Ok(discovery)
    }
}

impl fmt::Debug for RestMapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestMapper").field("client", &self.client).finish_non_exhaustive()
    }
}
