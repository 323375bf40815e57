//! Indexed, concurrently readable object stores with one writer.
//!
//! One task writes a cache of Kubernetes objects, and all others read it. [`store`] creates the write handle,
//! the [`StoreWriter`], which returns the read handles: [`Indexer`]s read by key and by index; [`Lister`]s
//! read by namespace, name and labels; and [`Snapshot`]s are one version of the whole store.
//!
//! | type | purpose |
//! |---|---|
//! | [`StoreWriter`], [`StoreBuilder`], [`StoreChange`] | the only write handle, its builder, and the changes that it applies |
//! | [`Indexer`], [`Snapshot`] | reads of the newest version, and of one version that is kept |
//! | [`Lister`], [`NamespacedLister`] | the read view with selectors |
//! | [`IndexFn`], [`Indexers`], [`namespace`], [`field`], [`label`], [`owner_uid`] | index functions |
//! | [`Store`], [`ThreadSafeStore`] | stores with one handle that any thread can write to |
//! | [`ExpirationCache`], [`MutationCache`], [`UndeltaStore`] | entries that expire, own writes on top of a cache, the whole state passed to a callback |
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
//! - Readers see either all of a transaction with its index updates or nothing of it, and never go back to an
//!   older version.
//! - A lookup never waits for a transaction, and delays the writer by at most one lookup. A list or snapshot
//!   copies references only. A snapshot may be kept for any time.
//! - Objects are shared as `Arc`s and never cloned. No lock is returned to a caller.
//! - User functions run under no lock. An index function that fails or panics affects only its own index; see
//!   [`IndexFn`].
//!
//! This crate does not depend on tokio or HTTP, starts no thread and reads no clock.

mod builder;
mod change;
mod claim;
mod error;
mod expiration;
mod index;
mod indexer;
mod keys;
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
