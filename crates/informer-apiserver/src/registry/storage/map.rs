//! The objects of one kind, sorted by key. Cloning creates a snapshot in constant time.

use std::sync::Arc;

use super::Stored;

/// Maximum number of objects per chunk. A write to a shared map copies one chunk of references, so this
/// bounds its cost.
const MAX_CHUNK_LEN: usize = 256;

type Chunk = Arc<Vec<Arc<Stored>>>;

/// A sorted map of chunks. Chunks that are shared with a snapshot are copied on write.
#[derive(Debug, Clone, Default)]
pub(crate) struct OrderedMap {
    /// Non-empty chunks in ascending key order.
    chunks: Arc<Vec<Chunk>>,
    len: usize,
}

impl OrderedMap {
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        let chunk = self.chunks.get(self.chunk_of(key))?;
        chunk.binary_search_by(|stored| stored.key.as_str().cmp(key)).ok().map(|at| &chunk[at])
    }

    /// Returns the index of the first chunk whose last key is not before `key`.
    fn chunk_of(&self, key: &str) -> usize {
        self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| last.key.as_str() < key))
    }

    pub(crate) fn insert(&mut self, stored: Arc<Stored>) -> Option<Arc<Stored>> {
        let mut index = self.chunk_of(stored.key.as_str());
        let chunks = Arc::make_mut(&mut self.chunks);
        if index == chunks.len() {
            // After the last key: append to the last chunk, or create the first one.
            match index.checked_sub(1) {
                Some(last) => index = last,
                None => chunks.push(Arc::default()),
            }
        }
        let last = index + 1 == chunks.len();
        let chunk = Arc::make_mut(&mut chunks[index]);
        match chunk.binary_search_by(|other| other.key.cmp(&stored.key)) {
            Ok(at) => return Some(std::mem::replace(&mut chunk[at], stored)),
            Err(at) => chunk.insert(at, stored),
        }
        if chunk.len() > MAX_CHUNK_LEN {
            // Sequential inserts append: keep the chunks before the last one full.
            let right = chunk.split_off(if last { MAX_CHUNK_LEN } else { MAX_CHUNK_LEN / 2 });
            chunks.insert(index + 1, Arc::new(right));
        }
        self.len += 1;
        None
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Arc<Stored>> {
        self.get(key)?;
        let index = self.chunk_of(key);
        let chunks = Arc::make_mut(&mut self.chunks);
        let chunk = Arc::make_mut(&mut chunks[index]);
        let at = chunk.binary_search_by(|stored| stored.key.as_str().cmp(key)).ok()?;
        let removed = chunk.remove(at);
        if chunk.is_empty() {
            chunks.remove(index);
        }
        self.len -= 1;
        Some(removed)
    }

    /// Returns the objects with keys from `start` on, in order.
    pub(crate) fn from(&self, start: &str) -> impl Iterator<Item = &Arc<Stored>> {
        let index = self.chunk_of(start);
        let at = self
            .chunks
            .get(index)
            .map_or(0, |chunk| chunk.partition_point(|stored| stored.key.as_str() < start));
        self.chunks.iter().skip(index).flat_map(|chunk| chunk.iter()).skip(at)
    }

    /// Returns the number of keys with this prefix after `last`.
    pub(crate) fn count_between(&self, last: &str, prefix: &str) -> usize {
        let end = match prefix.is_empty() {
            true => self.len,
            // The prefix ends in a slash, and `0` is the byte after it.
            false => self.rank(&format!("{}0", &prefix[..prefix.len() - 1])),
        };
        end.saturating_sub(self.rank(last) + 1)
    }

    /// Returns the number of keys before this one.
    fn rank(&self, key: &str) -> usize {
        let index = self.chunk_of(key);
        let before: usize = self.chunks[..index].iter().map(|chunk| chunk.len()).sum();
        let within = |chunk: &Chunk| chunk.partition_point(|stored| stored.key.as_str() < key);
        before + self.chunks.get(index).map_or(0, within)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.from("")
    }
}
