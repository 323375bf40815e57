use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use informer_client::ReadOptions;

use super::Target;
use crate::input::Body;
use crate::probe::{read_gzip, read_list};

pub(super) const TARGET: Target = Target { name: "gzip", run, words: &["\u{1f}\u{8b}\u{8}"] };

/// Reads the bytes as a compressed body, and after compression as a list.
fn run(input: &[u8]) {
    let body = Body::read(input);
    let options = ReadOptions::default;
    // The result, a response or an error, is the same for every division into frames.
    let (one, other) = (read_gzip(body.one_frame(), options()), read_gzip(body.frames(), options()));
    if one.end.is_ok() || other.end.is_ok() {
        assert_eq!(one, other, "the result for a compressed list depends on frame boundaries");
        let mut plain = Vec::new();
        MultiGzDecoder::new(body.whole)
            .read_to_end(&mut plain)
            .expect("a body that was read to its end is complete");
    }

    // The same list, compressed with one gzip member per frame, reads as without compression.
    let packed: Vec<_> = body.frames().iter().map(|frame| compress(frame).into()).collect();
    let (packed, plain) = (read_gzip(packed, options()), read_list(body.frames(), options()));
    match (&packed.end, &plain.end) {
        (Err(_), Err(_)) => {}
        _ => assert_eq!(packed, plain, "the result for a list depends on compression"),
    }
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("writing to memory does not fail")
}
