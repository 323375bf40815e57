use proptest::prelude::*;

use super::{PackedStrings, length_size, push_length};

#[test]
fn buffer_is_allocated_with_the_size_of_its_lengths() {
    for length in [0, 1, 63, 64, 4_095, 4_096, 262_143, 262_144] {
        let mut written = String::new();
        push_length(&mut written, length);
        assert_eq!(length_size(length), written.len(), "{length}");
    }
}

#[test]
fn long_strings_have_multi_byte_length_prefixes() {
    for length in [0, 1, 63, 64, 4_095, 4_096, 262_143, 262_144] {
        let (long, after) = ("\u{e9}".repeat(length), "after".to_owned());
        let strings = PackedStrings::new([long.as_str(), after.as_str()].into_iter());
        assert_eq!(strings.iter().collect::<Vec<_>>(), [long.as_str(), after.as_str()]);
        let prefix = strings.held_bytes() - long.len() - after.len();
        assert!(prefix <= 5, "{prefix} bytes of lengths for {} bytes", long.len());
    }
}

proptest! {
    #[test]
    fn packed_strings_round_trip(given in proptest::collection::vec("\\PC{0,80}", 0..8)) {
        let strings = PackedStrings::new(given.iter().map(String::as_str));
        prop_assert_eq!(strings.iter().collect::<Vec<_>>(), given.iter().map(String::as_str).collect::<Vec<_>>());
        prop_assert_eq!(strings.is_empty(), given.is_empty());
    }
}
