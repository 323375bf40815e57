//! Objects that were split from a body and are not decoded yet.

use bytes::Bytes;

use crate::scan::Span;
use crate::splitter::Slice;

/// The number of bytes to split before decoding: about fifty objects of the usual size, a third of a
/// millisecond's work.
pub(super) const BATCH_BYTES: usize = 256 << 10;

/// The maximum number of objects to split before decoding. Splitting them blocks the other tasks of the
/// thread.
pub(super) const BATCH_OBJECTS: usize = 1000;

/// The minimum number of bytes for which another task is worth spawning, which takes some microseconds.
const MIN_TASK_BYTES: usize = 32 << 10;

/// The minimum number of objects for which another task is worth spawning. With a single object,
/// however large, a task would only add the delay of its start.
const MIN_TASK_OBJECTS: usize = 4;

/// Objects on their way from the splitter to the decoder: slices of network frames, which they keep alive.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pieces: Vec<Piece>,
    spans: Vec<Span>,
    bytes: usize,
}

#[derive(Debug)]
struct Piece {
    bytes: Bytes,
    spans_end: usize,
}

impl Pieces {
    /// A slice of `frame` is shared; a slice of a buffer, for an object that spans several frames, is copied.
    pub(super) fn push(&mut self, frame: &Bytes, slice: Slice<'_>) {
        let bytes = match lies_in(slice.bytes, frame) {
            true => frame.slice_ref(slice.bytes),
            false => Bytes::copy_from_slice(slice.bytes),
        };
        self.bytes += bytes.len();
        self.spans.extend_from_slice(slice.spans);
        self.pieces.push(Piece { bytes, spans_end: self.spans.len() });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Slice<'_>> {
        let mut spans_start = 0;
        self.pieces.iter().map(move |piece| {
            let spans = &self.spans[std::mem::replace(&mut spans_start, piece.spans_end)..piece.spans_end];
            Slice { bytes: &piece.bytes, spans }
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns true if these objects must be decoded before more are split.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.pieces.len() >= BATCH_OBJECTS
    }

    /// Returns true if spawning a task for these objects is faster than decoding them here.
    pub(super) fn are_worth_a_task(&self) -> bool {
        self.bytes >= MIN_TASK_BYTES && self.pieces.len() >= MIN_TASK_OBJECTS
    }

    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.spans.clear();
        self.bytes = 0;
    }
}

fn lies_in(part: &[u8], whole: &[u8]) -> bool {
    let (part, whole) = (part.as_ptr_range(), whole.as_ptr_range());
    whole.start <= part.start && part.end <= whole.end
}

#[cfg(test)]
mod tests;
