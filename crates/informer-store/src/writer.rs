//! The write handle of a store, and the conversion of changes to edits of its state.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use informer_core::{KeyError, Object, ObjectKey, ResourceVersion};

use crate::Indexer;
use crate::change::{Action, StoreChange};
use crate::error::TransactionError;
use crate::keys::Keys;
use crate::ledger::Edit;
use crate::shared::Shared;

/// The write handle of a store. A store has exactly one, which cannot be cloned.
///
/// The write handle dereferences to the [`Indexer`] for reads. After it is dropped, the store can still be
/// read.
///
/// # Contract
///
/// - Each call is one transaction: readers, lists and snapshots see all of it or nothing. Every reader sees
///   the transaction when the call returns.
/// - No reader waits for a transaction. A transaction waits for a reader at most as long as a lookup, a list
///   of 4096 references, or a snapshot takes.
/// - The store's version is that of the last write, [`replace`](Self::replace) or
///   [`bookmark`](Self::bookmark), not the greatest one: if the server's version goes back, the store
///   follows. Objects without a version do not change it.
/// - Key functions, index functions and transforms run on the caller's thread under no lock. A panic of a key
///   function or transform unwinds through the call, and nothing is applied; for index functions see
///   [`IndexFn`](crate::IndexFn).
/// - The caller drops the objects that a transaction replaced; readers never wait for their `drop`.
///
/// ```
/// use std::sync::Arc;
/// use informer_core::{Header, Object};
/// use informer_store::{StoreChange, store};
///
/// let mut pods = store::<Header>();
/// let readers = pods.indexer().clone();
/// let web = Arc::new(Header::new("default/web".parse()?).with_version("7"));
/// let previous = pods.apply([StoreChange::upsert(web)])?;
/// assert!(previous[0].is_none() && readers.contains("default/web"));
/// assert_eq!(readers.resource_version(), "7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the store of a dropped writer never changes again"]
pub struct StoreWriter<O> {
    indexer: Indexer<O>,
    keys: Keys<O>,
}

impl<O: Object> StoreWriter<O> {
    pub(crate) fn new(shared: Arc<Shared<O>>, keys: Keys<O>) -> Self {
        Self { indexer: Indexer::new(shared), keys }
    }

    /// Returns the read handle of the store, which can be cloned.
    pub fn indexer(&self) -> &Indexer<O> {
        &self.indexer
    }

    /// Returns the key that the store's key function computes for an object.
    ///
    /// # Errors
    ///
    /// Returns the error of the key function, if it fails.
    pub fn key(&self, object: &O) -> Result<ObjectKey, KeyError> {
        self.keys.key_of(object)
    }

    /// Applies changes in order as one transaction. Returns one element per change: the object that the store
    /// contained under the changed key before.
    ///
    /// # Errors
    ///
    /// Returns an error if the key function fails for some changes. All other changes are applied; the error
    /// lists the applied and the failed changes.
    pub fn apply(
        &mut self,
        changes: impl IntoIterator<Item = StoreChange<O>>,
    ) -> Result<Vec<Option<Arc<O>>>, TransactionError> {
        Batch::of(&self.keys, changes).apply(&self.indexer.shared)
    }

    /// Like [`apply`](Self::apply), but also sets the store's resource version in the same transaction:
    /// readers that see the changes see the version.
    ///
    /// # Errors
    ///
    /// The same errors as [`apply`](Self::apply).
    pub fn apply_at(
        &mut self,
        changes: impl IntoIterator<Item = StoreChange<O>>,
        version: impl Into<ResourceVersion>,
    ) -> Result<Vec<Option<Arc<O>>>, TransactionError> {
        let batch = Batch { at: Some(version.into()), ..Batch::of(&self.keys, changes) };
        batch.apply(&self.indexer.shared)
    }

    /// Replaces the whole content with `items` at `version` as one transaction. If two items have the same
    /// key, the later one is stored.
    pub fn replace(&mut self, items: Vec<(ObjectKey, Arc<O>)>, version: impl Into<ResourceVersion>) {
        let items = items.into_iter().map(|(key, object)| (key, self.keys.transformed(object))).collect();
        self.indexer.shared.replace(items, &version.into());
    }

    /// Sets the resource version of the store without changing its content.
    pub fn bookmark(&mut self, version: impl Into<ResourceVersion>) {
        self.indexer.shared.bookmark(&version.into());
    }
}

impl<O> Deref for StoreWriter<O> {
    type Target = Indexer<O>;

    fn deref(&self) -> &Indexer<O> {
        &self.indexer
    }
}

impl<O: Object> fmt::Debug for StoreWriter<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreWriter").field(&self.indexer).finish()
    }
}

/// The changes of one transaction with the keys of their objects. Key functions are user code, so the keys
/// were computed before a lock was taken.
pub(crate) struct Batch<O> {
    edits: Vec<Edit<O>>,
    /// The resourceVersion of the last object in the batch that has one. It becomes that of the store unless
    /// `at` is set.
    version: ResourceVersion,
    /// The resourceVersion that the caller passed for the whole batch, such as that of a list, if any.
    at: Option<ResourceVersion>,
    /// The changes for which the key function failed: their positions in the transaction, counted from 0,
    /// with the errors.
    errors: Vec<(usize, KeyError)>,
    total: usize,
}

impl<O: Object> Batch<O> {
    pub(crate) fn of(keys: &Keys<O>, changes: impl IntoIterator<Item = StoreChange<O>>) -> Self {
        let changes = changes.into_iter();
        let mut batch = Self {
            edits: Vec::with_capacity(changes.size_hint().0),
            version: ResourceVersion::unset(),
            at: None,
            errors: Vec::new(),
            total: 0,
        };
        for change in changes {
            if let Err(error) = batch.add(keys, change) {
                batch.errors.push((batch.total, error));
            }
            batch.total += 1;
        }
        batch
    }

    pub(crate) fn apply(self, shared: &Shared<O>) -> Result<Vec<Option<Arc<O>>>, TransactionError> {
        let version = self.at.as_ref().or((!self.version.is_empty()).then_some(&self.version));
        let previous = shared.apply(self.edits, version);
        if self.errors.is_empty() {
            return Ok(previous);
        }
        // The positions of failed changes in `errors` are ascending, so one pass over all positions of the
        // transaction finds the changes that succeeded.
        let mut failed = self.errors.iter().map(|(position, _)| *position).peekable();
        let successful = (0..self.total).filter(|position| failed.next_if_eq(position).is_none()).collect();
        Err(TransactionError { total: self.total, successful, errors: self.errors })
    }

    /// Applies the transaction, or returns an error and applies no change if the key function failed for one
    /// of them.
    pub(crate) fn apply_all(mut self, shared: &Shared<O>) -> Result<Vec<Option<Arc<O>>>, KeyError> {
        match self.errors.pop() {
            Some((_, error)) => Err(error),
            None => {
                let version = (!self.version.is_empty()).then_some(&self.version);
                Ok(shared.apply(self.edits, version))
            }
        }
    }

    fn add(&mut self, keys: &Keys<O>, change: StoreChange<O>) -> Result<(), KeyError> {
        let find_key = |object: &O| change.key.clone().map_or_else(|| keys.key_of(object), Ok);
        match change.action {
            Action::Upsert(object) => {
                let object = keys.transformed(object);
                let key = find_key(&object)?;
                self.move_version(&object);
                self.edits.push(Edit::Put(key, object));
            }
            Action::Delete(last) => {
                let key = find_key(&last)?;
                self.move_version(&last);
                self.edits.push(Edit::Remove(key));
            }
            Action::Forget => self.edits.extend(change.key.map(Edit::Remove)),
        }
        Ok(())
    }

    fn move_version(&mut self, object: &O) {
        let version = object.resource_version();
        if !version.is_empty() {
            self.version = version.clone();
        }
    }
}
