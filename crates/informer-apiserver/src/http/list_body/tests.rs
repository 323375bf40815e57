use bytes::{Buf, Bytes};
use proptest::prelude::*;

use super::Batch;

const FIXED: [&[u8]; 3] = [b"", b",", b"],"];

#[derive(Debug, Clone)]
enum Part {
    Fixed(usize),
    Made(Vec<u8>),
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![
        (0..FIXED.len()).prop_map(Part::Fixed),
        proptest::collection::vec(any::<u8>(), 0..6).prop_map(Part::Made),
    ];
    proptest::collection::vec(part, 0..8)
}

fn batch(parts: &[Part]) -> (Batch, Vec<u8>) {
    let (mut batch, mut all) = (Batch::default(), Vec::new());
    for part in parts {
        match part {
            Part::Fixed(at) => {
                batch.put_fixed(FIXED[*at]);
                all.extend_from_slice(FIXED[*at]);
            }
            Part::Made(bytes) => {
                batch.put(Bytes::from(bytes.clone()));
                all.extend_from_slice(bytes);
            }
        }
    }
    (batch, all)
}

proptest! {
    #[test]
    fn batch_yields_its_segments_for_any_read_sizes(parts in parts(), steps in proptest::collection::vec(1..5_usize, 40)) {
        let (mut taken, all) = batch(&parts);
        prop_assert_eq!(taken.len(), all.len());
        prop_assert_eq!(&batch(&parts).0.into_bytes()[..], &all[..]);
        let mut at = 0;
        for step in steps {
            prop_assert_eq!(taken.remaining(), all.len() - at);
            prop_assert_eq!(taken.chunk().is_empty(), at == all.len(), "the chunk is empty only at the end");
            let mut slices = [std::io::IoSlice::new(&[]); 4];
            let filled = taken.chunks_vectored(&mut slices);
            let shown: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.to_vec()).collect();
            prop_assert!(all[at..].starts_with(&shown));
            let step = step.min(taken.remaining());
            taken.advance(step);
            at += step;
        }
        prop_assert_eq!(&taken.into_bytes()[..], &all[at..]);
    }
}
