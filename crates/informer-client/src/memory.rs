//! The memory budget of the objects in caches.
//!
//! # Invariants
//!
//! 1. `used` of a budget is the sum of `used` of its sources: the bytes of all objects that exist.
//! 2. A source never returns from compressed to uncompressed objects, so that objects near the limit do not
//!    change their storage all the time.
//!
//! # Lock order
//!
//! `sources` is the only lock. Counters are read and changed without it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// A memory budget for the objects in the caches of a program. Clones share one budget, so several caches can
/// share it, for example those of several clusters.
///
/// The objects of each source are counted as they are decoded and dropped. While they take less than half of
/// the limit, [`Lazy`](crate::Lazy) and [`Dynamic`](crate::Dynamic) objects are stored as received. After
/// that, each source stores the objects that it receives in compressed form, as [`Packed`](crate::Packed)
/// does. Reads return the same in both forms; reads of compressed objects take one or two microseconds more.
/// An object that was cached before is compressed when it changes.
///
/// No object is dropped, and no part of one. If the objects take more than the limit nevertheless, a warning
/// names the sources with the most memory. Without the feature `packed` nothing is compressed, and only the
/// warning remains.
///
/// The sizes are those of [`Object::held_bytes`](informer_core::Object::held_bytes). Indexes, allocator
/// overhead, typed views and objects that the program itself creates in transforms are not counted.
#[derive(Clone)]
pub struct MemoryBudget {
    shared: Arc<Budget>,
}

struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// True after a warning, until the objects take less than nine tenths of the limit.
    is_over: AtomicBool,
    sources: Mutex<Vec<Weak<SourceMemory>>>,
}

/// The memory of the objects of one source, which is part of a budget.
pub(crate) struct SourceMemory {
    budget: Arc<Budget>,
    source: String,
    used: AtomicUsize,
    objects: AtomicUsize,
    compresses: AtomicBool,
}

/// The state of a [`MemoryBudget`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryState {
    /// The limit in bytes.
    pub limit: usize,
    /// The bytes of all objects.
    pub used: usize,
    /// The sources, those with the most memory first.
    pub sources: Vec<SourceMemoryState>,
}

/// The memory of the objects of one source in a [`MemoryState`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceMemoryState {
    /// The description of the source: resource, representation, namespace and selectors.
    pub source: String,
    /// The number of objects.
    pub objects: usize,
    /// The bytes of these objects.
    pub used: usize,
    /// True if the source stores the objects that it receives in compressed form.
    pub is_compressed: bool,
}

/// The number of sources that a warning about an exceeded limit names.
const MAX_NAMED: usize = 3;

impl MemoryBudget {
    /// Creates a budget with a limit in bytes.
    pub fn new(limit: usize) -> Self {
        let (used, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { shared: Arc::new(Budget { limit, used, is_over, sources: Mutex::default() }) }
    }

    /// Returns the limit, the memory in use, and the sources.
    pub fn state(&self) -> MemoryState {
        self.shared.state()
    }

    pub(crate) fn source(&self, source: String) -> Arc<SourceMemory> {
        let memory = Arc::new(SourceMemory {
            budget: Arc::clone(&self.shared),
            source,
            used: AtomicUsize::new(0),
            objects: AtomicUsize::new(0),
            compresses: AtomicBool::new(false),
        });
        let mut sources = self.shared.sources.lock();
        sources.retain(|source| source.strong_count() > 0);
        sources.push(Arc::downgrade(&memory));
        memory
    }
}

impl Budget {
    fn state(&self) -> MemoryState {
        let sources: Vec<_> = self.sources.lock().iter().filter_map(Weak::upgrade).collect();
        let mut sources: Vec<_> = sources.iter().map(|source| source.state()).collect();
        sources.sort_by(|a, b| b.used.cmp(&a.used).then_with(|| a.source.cmp(&b.source)));
        MemoryState { limit: self.limit, used: self.used.load(Ordering::Relaxed), sources }
    }

    #[cold]
    fn warn(&self) {
        let state = self.state();
        let name = |source: &SourceMemoryState| {
            format!("{} ({} objects, {} bytes)", source.source, source.objects, source.used)
        };
        let largest: Vec<String> = state.sources.iter().take(MAX_NAMED).map(name).collect();
        tracing::warn!(
            limit = state.limit,
            used = state.used,
            largest = largest.join(", "),
            "the cached objects take more memory than the limit; restrict the caches by selectors or \
             namespaces, cache metadata only, or raise the limit"
        );
    }
}

impl SourceMemory {
    /// Returns true if the next object is to be compressed.
    #[cfg(feature = "packed")]
    pub(crate) fn compresses(&self) -> bool {
        if self.compresses.load(Ordering::Relaxed) {
            return true;
        }
        let (used, limit) = (self.budget.used.load(Ordering::Relaxed), self.budget.limit);
        if used < limit / 2 {
            return false;
        }
        if !self.compresses.swap(true, Ordering::Relaxed) {
            tracing::info!(
                source = self.source,
                limit,
                used,
                "the cached objects take half of the memory limit; from now on this source compresses objects"
            );
        }
        true
    }

    /// Counts a new object.
    pub(crate) fn charge(&self, bytes: usize) {
        self.objects.fetch_add(1, Ordering::Relaxed);
        self.used.fetch_add(bytes, Ordering::Relaxed);
        let used = self.budget.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if used > self.budget.limit && !self.budget.is_over.swap(true, Ordering::Relaxed) {
            self.budget.warn();
        }
    }

    /// Subtracts a dropped object.
    pub(crate) fn release(&self, bytes: usize) {
        self.objects.fetch_sub(1, Ordering::Relaxed);
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        let used = self.budget.used.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        if used < self.budget.limit / 10 * 9 {
            self.budget.is_over.store(false, Ordering::Relaxed);
        }
    }

    fn state(&self) -> SourceMemoryState {
        SourceMemoryState {
            source: self.source.clone(),
            objects: self.objects.load(Ordering::Relaxed),
            used: self.used.load(Ordering::Relaxed),
            is_compressed: self.compresses.load(Ordering::Relaxed),
        }
    }
}

/// The bytes of one object, which its source counts until this value is dropped.
pub(crate) struct Charge {
    memory: Arc<SourceMemory>,
    bytes: usize,
}

impl Charge {
    pub(crate) fn new(memory: &Arc<SourceMemory>, bytes: usize) -> Self {
        memory.charge(bytes);
        Self { memory: Arc::clone(memory), bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.release(self.bytes);
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limit, used) = (self.shared.limit, self.shared.used.load(Ordering::Relaxed));
        f.debug_struct("MemoryBudget").field("limit", &limit).field("used", &used).finish_non_exhaustive()
    }
}

impl fmt::Debug for SourceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceMemory").field(&self.state()).finish()
    }
}
