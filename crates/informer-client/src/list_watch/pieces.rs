//! A batch of objects that were split from a response body and are not decoded yet.

use bytes::Bytes;

use crate::scan::Span;
use crate::splitter::Slice;

/// The number of bytes of objects after which a batch is full and is decoded. This is about fifty objects of
/// the usual size, which take a third of a millisecond to decode.
pub(super) const BATCH_BYTES: usize = 256 << 10;

/// The maximum number of objects in a batch. Splitting more objects without a pause would block the other
/// tasks of the thread for too long.
pub(super) const BATCH_OBJECTS: usize = 1000;

/// The minimum number of bytes in a batch for decoding it in a separate task. Spawning a task takes some
/// microseconds, which decoding a smaller batch does not outweigh.
const MIN_TASK_BYTES: usize = 32 << 10;

/// The minimum number of objects in a batch for decoding it in a separate task. A smaller batch is decoded
/// immediately in the task that reads the body, because a separate task would only start later. If other
/// tasks are still decoding earlier batches, a batch of any size goes to a separate task.
const MIN_TASK_OBJECTS: usize = 4;

/// A batch of objects that the splitter has found in a response and that are not decoded yet. Each is a slice
/// of the received network frames, which stay in memory as long as the batch.
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
    /// Adds an object to the batch. A slice of `frame` is kept without copying its bytes. The slice of an
    /// object that spans several frames is copied, because the buffer that contains it is reused.
    pub(super) fn push(&mut self, frame: &Bytes, slice: Slice<'_>) {
        let bytes = if lies_in(slice.bytes, frame) {
            frame.slice_ref(slice.bytes)
        } else {
            Bytes::copy_from_slice(slice.bytes)
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

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.pieces.len() >= BATCH_OBJECTS
    }

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
