use std::sync::Arc;

use informer_core::KeyError;

/// The lookup names an index that the store does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("look up {resource}: index {index:?} does not exist; the store has {known:?}")]
pub struct UnknownIndex {
    pub(crate) resource: Arc<str>,
    pub(crate) index: String,
    pub(crate) known: Vec<Arc<str>>,
}

/// The error of a lookup by index: the store has no such index, or the index function failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The lookup names an index that the store does not have.
    #[error(transparent)]
    Unknown(#[from] UnknownIndex),
    /// The index function failed or panicked for an object whose index values the lookup had to compute.
    #[error("look up {resource} {key:?} in index {index:?}: the index function failed")]
    Failed {
        /// The resource name of the stored objects, such as `pods`.
        resource: Arc<str>,
        /// The name of the index whose function failed.
        index: Arc<str>,
        /// The key of the object for which the index function failed.
        key: String,
        /// The error of the index function, or a message that the index function panicked.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The error of adding indexes to a store, or of reserving their names: some of the names are already in use.
/// No index was added and no name was reserved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("add indexes: {names:?} already exist; choose other names")]
pub struct AddIndexersError {
    names: Vec<Arc<str>>,
}

impl AddIndexersError {
    pub(crate) fn new(names: Vec<Arc<str>>) -> Self {
        Self { names }
    }

    /// Returns those of the requested index names that are already in use.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }
}

/// The error of a [`Lister`](crate::Lister) whose store does not contain the requested object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{resource} {key:?} not found in the cache")]
pub struct NotFound {
    pub(crate) resource: Arc<str>,
    pub(crate) key: String,
}

impl NotFound {
    /// Returns the resource name of the requested objects, such as `pods`.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the key of the requested object.
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// The error of a transaction in which the key function failed for some changes. Those changes were not
/// applied; all other changes were applied.
#[derive(Debug, thiserror::Error)]
#[error("{} of {total} changes were not applied, the first one at position {}", errors.len(), first_position(errors))]
pub struct TransactionError {
    pub(crate) total: usize,
    pub(crate) successful: Vec<usize>,
    pub(crate) errors: Vec<(usize, KeyError)>,
}

fn first_position(errors: &[(usize, KeyError)]) -> usize {
    errors.first().map_or(0, |(position, _)| *position)
}

impl TransactionError {
    /// Returns the changes that were applied, by their positions in the list of changes that the caller
    /// passed to the transaction. The first change has position 0. The positions are in ascending order.
    pub fn successful(&self) -> &[usize] {
        &self.successful
    }

    /// Returns the number of changes in the transaction.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns the changes that were not applied, by their positions in the list of changes that the caller
    /// passed to the transaction, each with the error of the key function. The first change has position 0.
    /// The positions are in ascending order.
    pub fn errors(&self) -> &[(usize, KeyError)] {
        &self.errors
    }
}
