use bytes::Bytes;

use super::{BATCH_BYTES, BATCH_OBJECTS, Pieces};
use crate::scan::Span;
use crate::splitter::Slice;

fn slice<'a>(bytes: &'a [u8], spans: &'a [Span]) -> Slice<'a> {
    Slice { bytes, spans }
}

#[test]
fn slices_of_the_frame_are_shared_and_other_slices_are_copied() {
    let frame = Bytes::from_static(b"{\"a\":1}{\"b\":2}");
    let buffer = b"{\"c\":3}".to_vec();
    let mut pieces = Pieces::default();
    pieces.push(&frame, slice(&frame[7..], &[]));
    pieces.push(&frame, slice(&buffer, &[]));
    let read: Vec<&[u8]> = pieces.iter().map(|piece| piece.bytes).collect();
    assert_eq!(read, [&frame[7..], &buffer[..]]);
    assert_eq!(read[0].as_ptr(), frame[7..].as_ptr());
    assert_ne!(read[1].as_ptr(), buffer.as_ptr());
}

#[test]
fn each_piece_has_its_own_spans() {
    let frame = Bytes::from_static(b"[[]][][[],[]]");
    let span = |start, end| Span { start, end };
    let mut pieces = Pieces::default();
    pieces.push(&frame, slice(&frame[..4], &[span(1, 3)]));
    pieces.push(&frame, slice(&frame[4..6], &[]));
    pieces.push(&frame, slice(&frame[6..], &[span(1, 3), span(4, 6)]));
    let spans: Vec<Vec<(usize, usize)>> =
        pieces.iter().map(|piece| piece.spans.iter().map(|span| (span.start, span.end)).collect()).collect();
    assert_eq!(spans, [vec![(1, 3)], vec![], vec![(1, 3), (4, 6)]]);
}

#[test]
fn pieces_are_full_by_bytes_or_by_count_and_empty_when_cleared() {
    let large = Bytes::from(vec![b'x'; BATCH_BYTES]);
    let mut pieces = Pieces::default();
    pieces.push(&large, slice(&large, &[]));
    assert!(pieces.is_full() && !pieces.are_worth_a_task());
    pieces.clear();
    assert!(pieces.is_empty() && !pieces.is_full());
    for _ in 0..BATCH_OBJECTS {
        assert!(!pieces.is_full());
        pieces.push(&large, slice(&large[..40], &[]));
    }
    assert!(pieces.is_full() && pieces.are_worth_a_task());
}
