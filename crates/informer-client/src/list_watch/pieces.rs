//! Objects that were cut out of a body and are not read yet.

use bytes::Bytes;

use crate::scan::Span;
use crate::splitter::Slice;

/// How many bytes are cut before they are read: some fifty objects of the usual size, a third of a
/// millisecond's work.
pub(super) const BATCH_BYTES: usize = 256 << 10;

/// How many objects are cut before they are read: others wait for the thread so long.
pub(super) const BATCH_OBJECTS: usize = 1000;

/// From so many bytes on another task is worth its start and its hand-over, which take some microseconds.
const MIN_TASK_BYTES: usize = 32 << 10;

/// From so many objects on: one alone, however large, would only be read later.
const MIN_TASK_OBJECTS: usize = 4;

/// Objects on their way from the cutter to the decoder: parts of network frames, which they keep alive.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pieces: Vec<Piece>,
    spans: Vec<Span>,
    bytes: usize,
}

#[derive(Debug)]
struct Piece {
    bytes: Bytes,
    /// Behind the last of its spans.
    spans_end: usize,
}

impl Pieces {
    /// Takes what was cut out of `frame`, or out of a buffer where it came in several frames; then it is
    /// copied.
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

    /// Returns true if these are to be read before more is cut.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.pieces.len() >= BATCH_OBJECTS
    }

    /// Returns true if another task may read these sooner than this one.
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
