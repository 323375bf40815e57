use informer_core::ObjectKey;
use proptest::prelude::*;

use super::*;

fn header(namespace: &str, uid: &str) -> Header {
    let key = ObjectKey::new(namespace, "x").expect("a valid name");
    Header::new(key).with_uid(uid).with_version("1")
}

#[test]
fn selector_has_one_range_for_each_share_and_ranges_are_contiguous() {
    let shares = HashShares::new(4, [3, 0, 3]).expect("they exist");
    let text = "shardRange(object.metadata.uid, '0x0000000000000000', '0x4000000000000000') || \
                shardRange(object.metadata.uid, '0xc000000000000000', '0x10000000000000000')";
    assert_eq!(shares.selector(), text);
    assert_eq!(shares.to_string(), "0+3 of 4 by uid");
    let thirds = HashShares::new(3, 0..3).expect("they exist").by(HashKey::Namespace);
    let ranges: Vec<_> = thirds.ranges().collect();
    assert_eq!((ranges[0].start, ranges[2].end), (0, HASHES));
    assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start), "{ranges:?}");
    assert!(thirds.selector().starts_with("shardRange(object.metadata.namespace, '0x0000000000000000'"));
}

#[test]
fn invalid_shares_are_rejected() {
    assert_eq!(HashShares::new(3, []), Err(HashSharesError::None { of: 3 }));
    assert_eq!(HashShares::new(3, [1, 3]), Err(HashSharesError::Unknown { share: 3, of: 3 }));
    assert_eq!(HashShares::new(0, [0]), Err(HashSharesError::Unknown { share: 0, of: 0 }));
    assert_eq!(HashShares::new(1025, [0]), Err(HashSharesError::Unknown { share: 0, of: 1025 }));
}

#[test]
fn objects_of_one_namespace_are_in_one_share() {
    let holders = |object: &Header| {
        let shares =
            (0..8).map(|share| HashShares::new(8, [share]).expect("it exists").by(HashKey::Namespace));
        shares.enumerate().filter(|(_, share)| share.contains(object)).map(|(at, _)| at).collect::<Vec<_>>()
    };
    let one = holders(&header("web", "uid-1"));
    assert_eq!(one.len(), 1);
    assert_eq!(one, holders(&header("web", "uid-2")));
}

proptest! {
    #[test]
    fn every_object_is_in_exactly_one_of_all_shares(uid in ".{0,40}", of in 1..=1024_u32) {
        let object = header("default", &uid);
        let held = (0..of).filter(|share| HashShares::new(of, [*share]).is_ok_and(|each| each.contains(&object)));
        prop_assert_eq!(held.count(), 1);
    }
}
