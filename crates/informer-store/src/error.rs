use std::sync::Arc;

use informer_core::KeyError;

/// The store has no index with the requested name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("look up {resource}: index {index:?} does not exist; the store has {known:?}")]
pub struct UnknownIndex {
    pub(crate) resource: Arc<str>,
    pub(crate) index: String,
    pub(crate) known: Vec<Arc<str>>,
}

/// A lookup by index failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The store has no index with the requested name.
    #[error(transparent)]
    Unknown(#[from] UnknownIndex),
    /// The index function failed for the object passed to the lookup.
    #[error("look up {resource} {key:?} in index {index:?}: the index function failed")]
    Failed {
        /// The resource name of the stored objects, such as `pods`.
        resource: Arc<str>,
        /// Name of the index.
        index: Arc<str>,
        /// The key of the object passed to the lookup.
        key: String,
        /// Error of the index function.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Some of the index names are already in use, so no index was added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("add indexes: {names:?} already exist; choose other names")]
pub struct AddIndexersError {
    names: Vec<Arc<str>>,
}

impl AddIndexersError {
    pub(crate) fn new(names: Vec<Arc<str>>) -> Self {
        Self { names }
    }

    /// Returns the names that are already in use.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }
}

/// The cache does not contain the object.
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

    /// Returns the requested key.
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// The key function failed for some changes of a transaction. All other changes were applied.
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
    /// Returns the positions of the changes that were applied, in ascending order.
    pub fn successful(&self) -> &[usize] {
        &self.successful
    }

    /// Returns the number of changes in the transaction.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns the positions of the changes that were not applied, with their errors.
    pub fn errors(&self) -> &[(usize, KeyError)] {
        &self.errors
    }
}
