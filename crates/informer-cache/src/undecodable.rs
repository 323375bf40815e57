use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use informer_core::{ObjectKey, ResourceVersion};
use parking_lot::Mutex;

/// An object that is there but could not be read: set aside with its error, while everything else flows.
///
/// It counts as seen: no relist reports it deleted, its last good state stays in the cache, marked stale, and the watch
/// moves past its version.
#[derive(Clone)]
pub struct Undecodable {
    key: Option<ObjectKey>,
    uid: Box<str>,
    version: ResourceVersion,
    error: Arc<dyn Error + Send + Sync>,
}

impl Undecodable {
    /// What is known of the object, and why it could not be read. The error must not show the object's body.
    pub fn new(key: Option<ObjectKey>, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error: Box<dyn Error + Send + Sync> = error.into();
        Self { key, uid: Box::default(), version: ResourceVersion::unset(), error: error.into() }
    }

    /// Adds uid and version, where the header could be read that far.
    pub fn with_version(mut self, uid: &str, version: ResourceVersion) -> Self {
        (self.uid, self.version) = (uid.into(), version);
        self
    }

    /// The key; `None` where not even that could be read.
    pub fn key(&self) -> Option<&ObjectKey> {
        self.key.as_ref()
    }

    /// The uid; empty where it could not be read.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The version; unset where it could not be read.
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.version
    }

    /// Why.
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

/// The undecodable objects of one informer. A cheap handle; all clones share one log.
///
/// One entry a key, the newest; objects without a key share the empty one.
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
    /// How many entries are kept: a kind whose every object is broken must not fill the memory with errors. Beyond it
    /// failures are only counted.
    pub const MAX_ENTRIES: usize = 1000;

    /// Takes an entry in. Returns false where the same version of the same object is in the log already.
    pub fn report(&self, undecodable: Undecodable) -> bool {
        let key = undecodable.key.as_ref().map_or("", ObjectKey::as_str);
        // Declared before the lock, to be dropped after it: the error may be anything.
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

    /// Takes the entry of an object out, after a good state or a delete of it.
    pub fn forget(&self, key: &str) {
        let removed = {
            let mut entries = self.entries.lock();
            // Mostly it is empty, and asked for every object.
            if entries.by_key.is_empty() { None } else { entries.by_key.remove(key) }
        };
        // Outside of the lock: the error may be anything.
        drop(removed);
    }

    /// The version of the entry of an object, if it has one.
    pub(crate) fn version_of(&self, key: &str) -> Option<ResourceVersion> {
        let entries = self.entries.lock();
        if entries.by_key.is_empty() { None } else { Some(entries.by_key.get(key)?.version.clone()) }
    }

    /// The present entries, by key.
    pub fn entries(&self) -> Vec<Undecodable> {
        self.entries.lock().by_key.values().cloned().collect()
    }

    /// How many objects are in the log now.
    pub fn len(&self) -> usize {
        self.entries.lock().by_key.len()
    }

    /// True where every object could be read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many were reported in all.
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

    /// An error that looks at the log when it goes.
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
    fn an_error_that_gives_way_to_a_newer_one_is_dropped_outside_of_the_lock() {
        let (done, is_done) = mpsc::channel();
        // A thread of its own: should it hang, the test does not.
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
