use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use informer_core::{ObjectKey, ResourceVersion};
use parking_lot::Mutex;

/// An object that exists but could not be decoded. The object is quarantined with its error, and all other
/// objects are processed.
///
/// An undecodable object counts as present: no relist reports it as deleted, its last decoded state stays in
/// the cache, and the watch continues after its version. The [`UndecodableLog`] shows that the cached state
/// is out of date.
#[derive(Clone)]
pub struct Undecodable {
    key: Option<ObjectKey>,
    uid: Box<str>,
    version: ResourceVersion,
    error: Arc<dyn Error + Send + Sync>,
}

impl Undecodable {
    /// Returns an entry with the object's key and the decode error. The error's message must not contain the
    /// content of the object.
    pub fn new(key: Option<ObjectKey>, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error: Box<dyn Error + Send + Sync> = error.into();
        Self { key, uid: Box::default(), version: ResourceVersion::unset(), error: error.into() }
    }

    /// Adds the uid and the resourceVersion of the object, if they could be read from its metadata.
    pub fn with_version(mut self, uid: &str, version: ResourceVersion) -> Self {
        (self.uid, self.version) = (uid.into(), version);
        self
    }

    /// Returns the key of the object; `None` if the key could not be read.
    pub fn key(&self) -> Option<&ObjectKey> {
        self.key.as_ref()
    }

    /// Returns the uid of the object; empty if the uid could not be read.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Returns the resourceVersion of the object; unset if it could not be read.
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.version
    }

    /// Returns the error with which the object could not be decoded.
    pub fn error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.error
    }
}

impl fmt::Debug for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undecodable")
            .field("key", &self.key)
            .field("version", &self.version)
            .field("error", &format_args!("{}", self.error))
            .finish()
    }
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{key} at version {}: {}", self.version, self.error),
            None => write!(f, "an object without a readable name: {}", self.error),
        }
    }
}

/// The log of the undecodable objects of one informer. The value is a cheap handle; all clones share one log.
///
/// The log contains the newest entry per key. Objects without a key share the empty key.
#[derive(Clone, Default)]
pub struct UndecodableLog {
    entries: Arc<Mutex<Entries>>,
}

#[derive(Default)]
struct Entries {
    by_key: BTreeMap<Box<str>, Undecodable>,
    total: u64,
}

impl UndecodableLog {
    /// The maximum number of entries in the log, which limits its memory if every object of a kind is
    /// undecodable. Further failures are only counted.
    pub const MAX_ENTRIES: usize = 1000;

    /// Adds an entry to the log. Returns false if the log already has an entry for the same object at the
    /// same resourceVersion.
    pub fn report(&self, undecodable: Undecodable) -> bool {
        let key = undecodable.key.as_ref().map_or("", ObjectKey::as_str);
        // `_replaced` is declared before the lock guard, so it is dropped after the lock was released. The
        // `drop` of the replaced entry's error is user code, which must not run under the lock.
        let _replaced: Undecodable;
        let mut entries = self.entries.lock();
        let full = entries.by_key.len() >= Self::MAX_ENTRIES;
        match entries.by_key.get_mut(key) {
            Some(entry)
                if entry.version == undecodable.version
                    && entry.uid == undecodable.uid
                    && !key.is_empty() =>
            {
                return false;
            }
            Some(entry) => _replaced = std::mem::replace(entry, undecodable),
            None if full => {}
            None => {
                let key = key.into();
                entries.by_key.insert(key, undecodable);
            }
        }
        entries.total += 1;
        true
    }

    /// Removes the entry of an object, after the object was deleted or its current state could be decoded.
    pub fn forget(&self, key: &str) {
        let removed = {
            let mut entries = self.entries.lock();
            // Checks first whether the log is empty, which is the usual case, because this function runs for
            // every object.
            if entries.by_key.is_empty() { None } else { entries.by_key.remove(key) }
        };
        // The removed entry is dropped after the lock was released, because the `drop` of its error is user
        // code.
        drop(removed);
    }

    /// Returns the current entries of the log, sorted by key.
    pub fn entries(&self) -> Vec<Undecodable> {
        self.entries.lock().by_key.values().cloned().collect()
    }

    /// Returns the number of objects that are in the log now.
    pub fn len(&self) -> usize {
        self.entries.lock().by_key.len()
    }

    /// Returns true if the log is empty: every object could be decoded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many failures were reported since the log was created. A failure that is reported again
    /// for the same state of an object is counted once, unless the object has no readable key.
    pub fn total(&self) -> u64 {
        self.entries.lock().total
    }
}

impl fmt::Debug for UndecodableLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UndecodableLog").field("len", &self.len()).field("total", &self.total()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// An error whose `Drop` locks the log. If the log dropped the error while it holds its own lock, this
    /// would deadlock.
    struct Looks(UndecodableLog);

    impl Drop for Looks {
        fn drop(&mut self) {
            self.0.len();
        }
    }

    impl fmt::Debug for Looks {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Looks")
        }
    }

    impl fmt::Display for Looks {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("broken")
        }
    }

    impl Error for Looks {}

    #[test]
    fn an_error_replaced_by_a_newer_one_is_dropped_outside_of_the_lock() {
        let (done, is_done) = mpsc::channel();
        // The code that may deadlock runs on its own thread, so that a deadlock does not hang the test.
        std::thread::spawn(move || {
            let log = UndecodableLog::default();
            for version in ["1", "2"] {
                let key = ObjectKey::explicit("ns/a");
                let broken = Undecodable::new(Some(key), Looks(log.clone()));
                log.report(broken.with_version("u", ResourceVersion::from(version)));
            }
            log.forget("ns/a");
            done.send(()).unwrap();
        });
        is_done.recv_timeout(Duration::from_secs(10)).unwrap();
    }
}
