//! A sorted map with the objects of one kind. Cloning the map creates a snapshot in constant time.

use std::sync::Arc;

use super::Stored;

/// Maximum number of objects in a chunk. It bounds the cost of a write to a map that is shared with a
/// snapshot, because such a write copies one chunk of references.
const MAX_CHUNK_LEN: usize = 256;

type Chunk = Arc<Vec<Arc<Stored>>>;

/// A sorted map that consists of chunks. A chunk that is shared with a snapshot is copied on write.
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

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the index of the first chunk whose last key is not before `key`.
    fn chunk_of(&self, key: &str) -> usize {
        self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| last.key.as_str() < key))
    }

    pub(crate) fn insert(&mut self, stored: Arc<Stored>) -> Option<Arc<Stored>> {
        let mut index = self.chunk_of(stored.key.as_str());
        let chunks = Arc::make_mut(&mut self.chunks);
        if index == chunks.len() {
            // The key is after the last one: append it to the last chunk, or create the first chunk.
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
            // If the last chunk is full, it is not halved, so that chunks stay full when keys are inserted in
            // ascending order.
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

    /// Returns the objects in key order, from the key `start` on.
    pub(crate) fn from(&self, start: &str) -> impl Iterator<Item = &Arc<Stored>> {
        let index = self.chunk_of(start);
        let at = self
            .chunks
            .get(index)
            .map_or(0, |chunk| chunk.partition_point(|stored| stored.key.as_str() < start));
        self.chunks.iter().skip(index).flat_map(|chunk| chunk.iter()).skip(at)
    }

    /// Returns the number of keys that have this prefix and are after `last`.
    pub(crate) fn count_between(&self, last: &str, prefix: &str) -> usize {
        let end = if prefix.is_empty() {
            self.len
        } else {
            // The prefix ends with a slash. Replacing the slash by `0`, the next byte, gives the first key
            // after the prefix.
            self.rank(&format!("{}0", &prefix[..prefix.len() - 1]))
        };
        end.saturating_sub(self.rank(last) + 1)
    }

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
