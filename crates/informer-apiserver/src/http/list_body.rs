//! List bodies that reference the stored objects, so that their bytes go from the storage to the socket
//! without a copy.

use std::io::IoSlice;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::registry::storage::{ObjectForm, Stored};

#[derive(Debug)]
enum BodySegment {
    Fixed(&'static [u8]),
    Made(Bytes),
    Object(Arc<Stored>, ObjectForm),
    Item(Arc<Stored>),
}

impl BodySegment {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Made(bytes) => bytes,
            Self::Object(stored, form) => stored.part(*form),
            // The caller of `put_item` has encoded the object before, so the encoding is cached.
            Self::Item(stored) => stored.wired().map_or(&[], |wire| wire.item()),
        }
    }
}

/// A part of a list body: a sequence of segments, which a [`Buf`] reads without joining them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The segments of the batch, none of which is empty.
    segments: Vec<BodySegment>,
    current: usize,
    /// Number of bytes of the first segment that were already consumed.
    taken: usize,
    /// Number of bytes in all segments that were not yet consumed.
    left: usize,
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.left
    }

    fn push(&mut self, segment: BodySegment) {
        let length = segment.bytes().len();
        if length > 0 {
            self.left += length;
            self.segments.push(segment);
        }
    }

    pub(crate) fn put(&mut self, bytes: impl Into<Bytes>) {
        self.push(BodySegment::Made(bytes.into()));
    }

    pub(crate) fn put_fixed(&mut self, bytes: &'static [u8]) {
        self.push(BodySegment::Fixed(bytes));
    }

    pub(crate) fn put_object(&mut self, stored: Arc<Stored>, form: ObjectForm) {
        self.put_fixed(form.head());
        self.push(BodySegment::Object(stored, form));
        self.put_fixed(form.tail());
    }

    /// Appends a protobuf list item. The protobuf encoding of the object must be cached.
    pub(crate) fn put_item(&mut self, stored: Arc<Stored>) {
        self.push(BodySegment::Item(stored));
    }

    pub(crate) fn into_bytes(mut self) -> Bytes {
        if let [BodySegment::Made(whole)] = &self.segments[..]
            && whole.len() == self.left
        {
            return whole.clone();
        }
        let mut whole = BytesMut::with_capacity(self.left);
        while self.has_remaining() {
            let chunk = self.chunk();
            whole.put_slice(chunk);
            let length = chunk.len();
            self.advance(length);
        }
        whole.freeze()
    }
}

impl From<Bytes> for Batch {
    fn from(bytes: Bytes) -> Self {
        let mut batch = Self::default();
        batch.put(bytes);
        batch
    }
}

impl Buf for Batch {
    fn remaining(&self) -> usize {
        self.left
    }

    fn chunk(&self) -> &[u8] {
        self.segments.get(self.current).map_or(&[], |segment| &segment.bytes()[self.taken..])
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let (mut taken, mut filled) = (self.taken, 0);
        for (slice, segment) in slices.iter_mut().zip(&self.segments[self.current..]) {
            *slice = IoSlice::new(&segment.bytes()[taken..]);
            (taken, filled) = (0, filled + 1);
        }
        filled
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.left, "cannot take {count} bytes of {}", self.left);
        self.left -= count;
        self.taken += count;
        while let Some(segment) = self.segments.get(self.current) {
            let length = segment.bytes().len();
            if self.taken < length {
                return;
            }
            self.taken -= length;
            self.current += 1;
        }
    }
}

pub(crate) type Batches = Box<dyn Iterator<Item = Batch> + Send>;

#[cfg(test)]
mod tests;
