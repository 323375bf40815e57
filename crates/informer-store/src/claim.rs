//! Reservation of index names before the indexes are added.
//!
//! # Lock order
//!
//! The lock order is that of [`Shared`]. No lock is held from the reservation of the names until the indexes
//! are added or the names released.

use std::fmt;
use std::sync::Arc;

use informer_core::Object;

use crate::shared::Shared;
use crate::values::Definition;

/// Index names that are reserved in one store while the indexes are not yet added.
/// [`Indexer::claim_indexers`](crate::Indexer::claim_indexers) creates this value.
///
/// # Contract
///
/// - While the claim exists, no other task can add an index with one of these names to the store.
/// - [`install`](Self::install) adds the indexes and cannot fail. Dropping the claim releases the names and
///   leaves the store unchanged.
///
/// A caller with several stores can therefore add an index to all of them or to none.
///
/// ```
/// use informer_core::Header;
/// use informer_store::{AddIndexersError, Indexers, Store, StoreBuilder, label};
///
/// let stores: [Store<Header>; 2] = [(); 2].map(|()| StoreBuilder::new().build());
/// let add = |name: &str| -> Result<(), AddIndexersError> {
///     let indexes = Indexers::new().index(name, label("app"));
///     let claims = stores.iter().map(|store| store.indexer().claim_indexers(indexes.clone()));
///     let claims: Vec<_> = claims.collect::<Result<_, _>>()?;
///     claims.into_iter().for_each(|claim| claim.install());
///     Ok(())
/// };
/// stores[1].indexer().add_index("taken", label("team"))?;
/// assert!(add("taken").is_err());
/// assert!(stores[0].indexer().by_index("taken", "web").is_err(), "it is in none of them");
/// add("app")?;
/// assert!(stores.iter().all(|store| store.indexer().by_index("app", "web").is_ok()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropped without `install`, the names are free again"]
pub struct IndexersClaim<O: Object> {
    shared: Arc<Shared<O>>,
    claimed: Vec<Arc<Definition<O>>>,
}

impl<O: Object> IndexersClaim<O> {
    pub(crate) fn new(shared: Arc<Shared<O>>, claimed: Vec<Arc<Definition<O>>>) -> Self {
        Self { shared, claimed }
    }

    /// Adds the claimed indexes to the store, like [`Indexer::add_indexers`](crate::Indexer::add_indexers):
    /// all of them are complete when this method returns.
    pub fn install(mut self) {
        self.shared.install(std::mem::take(&mut self.claimed));
    }
}

impl<O: Object> Drop for IndexersClaim<O> {
    fn drop(&mut self) {
        if !self.claimed.is_empty() {
            self.shared.release(&self.claimed);
        }
    }
}

impl<O: Object> fmt::Debug for IndexersClaim<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.claimed.iter().map(|definition| &*definition.name).collect();
        f.debug_struct("IndexersClaim").field("names", &names).finish_non_exhaustive()
    }
}
