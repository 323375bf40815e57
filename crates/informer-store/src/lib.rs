//! Indexed, concurrently readable object stores with one writer.

mod builder;
mod change;
mod error;
mod expiration;
mod index;
mod indexer;
mod ledger;
mod lister;
mod mutation;
mod paged;
mod posting;
mod sharded;
mod shared;
mod snapshot;
mod state;
mod store;
mod thread_safe;
mod undelta;
mod values;
mod writer;

pub use builder::{StoreBuilder, store};
pub use change::Change;
pub use error::{AddIndexersError, IndexError, NotFound, TransactionError, UnknownIndex};
pub use expiration::{ExpirationCache, ExpirationPolicy, Ttl};
pub use index::{
    Borrowed, ByField, ByLabel, ByNamespace, ByOwnerUid, Fallible, IndexFn, IndexFnError, IndexKind,
    Indexers, NAMESPACE_INDEX, borrowed, fallible, field, label, namespace, owner_uid,
};
pub use indexer::Indexer;
pub use lister::{Lister, NamespacedLister};
pub use mutation::MutationCache;
pub use snapshot::Snapshot;
pub use store::Store;
pub use thread_safe::ThreadSafeStore;
pub use undelta::UndeltaStore;
pub use values::IndexFailure;
pub use writer::StoreWriter;
