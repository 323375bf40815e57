//! Indexed, concurrently readable object stores with one writer.
//!
//! A cache of Kubernetes objects is written by one loop and read by everyone. [`store`] makes its write handle, the
//! [`StoreWriter`]; that gives out [`Indexer`]s, which read by key and by index, [`Lister`]s, which read by namespace,
//! name and labels, and [`Snapshot`]s, which keep one version of everything.
//!
//! | type | is |
//! |---|---|
//! | [`StoreWriter`], [`StoreBuilder`], [`StoreChange`] | the one write handle, how it is made, and what it applies |
//! | [`Indexer`], [`Snapshot`] | the newest version, and one version to keep |
//! | [`Lister`], [`NamespacedLister`] | the read view with selectors |
//! | [`IndexFn`], [`Indexers`], [`namespace`], [`field`], [`label`], [`owner_uid`] | what objects are found by |
//! | [`Store`], [`ThreadSafeStore`] | stores behind one handle that everyone may write to |
//! | [`ExpirationCache`], [`MutationCache`], [`UndeltaStore`] | entries that grow old, own writes laid over a cache, whole states to a callback |
//!
//! ```
//! use informer_core::{Header, ObjectKey};
//! use informer_store::{StoreBuilder, StoreChange, label, namespace};
//!
//! let mut writer = StoreBuilder::new().index("namespace", namespace()).writer();
//! let pods = writer.indexer().clone();
//!
//! let web = Header::new(ObjectKey::new("default", "web-0")?).with_version("7").with_labels([("app", "web")]);
//! writer.apply([StoreChange::upsert(web.into())])?;
//!
//! assert!(pods.get("default/web-0").is_some());
//! assert_eq!(pods.by_index("namespace", "default")?.len(), 1);
//! pods.add_index("app", label("app"))?;                    // while the writer is at work, too
//! assert_eq!(pods.lister().namespace("default").list(&"app in (web, api)".parse()?).len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! - A transaction is seen as a whole or not at all, its indexes included, and versions never go back for a reader.
//! - A lookup never waits for a transaction, and delays the writer by at most one lookup. A list or snapshot copies
//!   references only; snapshots may be held for ever.
//! - Objects are shared as `Arc`s and never cloned, and no lock is ever handed out.
//! - Functions of the user run under no lock, and an index function that fails or panics harms nothing but its own
//!   answer; see [`IndexFn`].
//!
//! This crate knows neither tokio nor HTTP, starts no thread and reads no clock.

mod builder;
mod change;
mod claim;
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
pub use change::StoreChange;
pub use claim::IndexersClaim;
pub use error::{AddIndexersError, IndexError, NotFound, TransactionError, UnknownIndex};
pub use expiration::{ExpirationCache, ExpirationPolicy, Ttl};
pub use index::{
    Borrowed, ByField, ByLabel, ByNamespace, ByOwnerUid, Fallible, IndexFn, IndexFnError, IndexKind,
    Indexers, NAMESPACE_INDEX, borrowed, fallible, field, key_by, label, namespace, owner_uid,
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
