use std::sync::Arc;

use informer_core::KeyError;

/// An index was asked for that the store does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store of {resource} has no index {index:?}; it has {known:?}")]
pub struct UnknownIndex {
    pub(crate) resource: Arc<str>,
    pub(crate) index: String,
    pub(crate) known: Vec<Arc<str>>,
}

/// A lookup by index that could not be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// There is no such index.
    #[error(transparent)]
    Unknown(#[from] UnknownIndex),
    /// The index function failed for the object of the query.
    #[error("index {index:?} has no answer for {resource} {key:?}")]
    Failed {
        /// What the store holds.
        resource: Arc<str>,
        /// The index.
        index: Arc<str>,
        /// Key of the object that was asked for.
        key: String,
        /// What the function said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Indexes could not be added, and none was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no index was added: {names:?} exist already; choose other names")]
pub struct AddIndexersError {
    names: Vec<Arc<str>>,
}

impl AddIndexersError {
    pub(crate) fn new(names: Vec<Arc<str>>) -> Self {
        Self { names }
    }

    /// The names that were taken.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }
}

/// An object is not in the cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{resource} {key:?} not found in the cache")]
pub struct NotFound {
    pub(crate) resource: Arc<str>,
    pub(crate) key: String,
}

impl NotFound {
    /// What was looked for, as `pods`.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The key that was looked for.
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// Some changes of a transaction had no key. All others were applied.
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
    /// Positions of the changes that were applied, ascending.
    pub fn successful(&self) -> &[usize] {
        &self.successful
    }

    /// How many changes the transaction had.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Positions of the changes that were not applied, and why.
    pub fn errors(&self) -> &[(usize, KeyError)] {
        &self.errors
    }
}
