use proptest::prelude::*;

use super::block::{BLOCK, Masks, masks, parity};
use super::{Cursor, Structure, StructureError};
use crate::arbitrary;

fn naive_masks(block: &[u8; BLOCK]) -> Masks {
    let mask =
        |wanted: &[u8]| block.iter().rev().fold(0, |mask, byte| mask << 1 | u64::from(wanted.contains(byte)));
    let curly = block.iter().rev().fold(0, |mask, byte| mask << 1 | u64::from(byte & 0x20 != 0));
    Masks { quotes: mask(b"\""), backslashes: mask(b"\\"), opens: mask(b"{["), closes: mask(b"}]"), curly }
}

/// Finds the end of a JSON value with a simple stack, to check `Structure`. Returns `Ok(None)` if the value
/// does not end in `bytes`.
fn naive_end(bytes: &[u8], depth_max: usize) -> Result<Option<usize>, StructureError> {
    let mut open = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'{' | b'[' if open.len() == depth_max => return Err(StructureError::Deep),
            b'{' | b'[' => open.push(byte + 2),
            b'}' | b']' if open.pop() != Some(*byte) => return Err(StructureError::Mismatch(at)),
            b'}' | b']' if open.is_empty() => return Ok(Some(at + 1)),
            _ => {}
        }
    }
    Ok(None)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn masks_and_a_byte_loop_find_the_same(bytes in prop::collection::vec(any::<u8>(), BLOCK)) {
        let block: [u8; BLOCK] = bytes.try_into().unwrap();
        prop_assert_eq!(masks(&block), naive_masks(&block));
    }

    #[test]
    fn parity_counts_the_bits_up_to_each_bit(bits: u64) {
        for at in 0..64 {
            let so_far = bits << (63 - at);
            prop_assert_eq!(parity(bits) >> at & 1, u64::from(so_far.count_ones() % 2));
        }
    }

    #[test]
    fn end_of_a_value_is_found_at_every_boundary(
        value in arbitrary::value(),
        choices in arbitrary::choices(),
        pad in 0usize..70,
    ) {
        let value = serde_json::json!([value]);
        let text = arbitrary::write(&value, &mut choices.into_iter().cycle());
        let whole = format!("{text}{}", "]".repeat(pad));
        for border in 0..=text.len() {
            let (left, right) = whole.as_bytes().split_at(border);
            let mut structure = Structure::new(100);
            let end = match structure.find_end(left).unwrap() {
                Some(end) => end,
                None => border + structure.find_end(right).unwrap().unwrap(),
            };
            prop_assert_eq!(end, text.len());
        }
    }

    #[test]
    fn structure_and_a_stack_match_the_same_brackets(
        outer in prop::collection::vec(prop::sample::select(&b"{["[..]), 1..70),
        inner in prop::collection::vec(prop::sample::select(vec!["{}", "[]", "{", "[", "}", "]", " ", "x", "[{}]"]), 0..90),
        levels in 0usize..4,
        depth_max in 60usize..70,
    ) {
        let mut bytes = outer.clone();
        inner.iter().for_each(|part| bytes.extend_from_slice(part.as_bytes()));
        bytes.extend(outer.iter().rev().map(|byte| byte + 2));
        let found = Structure::new(depth_max).recording(levels).find_end(&bytes);
        prop_assert_eq!(found, naive_end(&bytes, depth_max));
    }

    #[test]
    fn any_bytes_are_scanned_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Structure::new(5).find_end(&bytes);
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let _ = Cursor::new(text).skip();
        }
    }

    #[test]
    fn cursor_and_serde_read_the_same_string(text in arbitrary::string(), choices in arbitrary::choices()) {
        let written = arbitrary::write(&text.clone().into(), &mut choices.into_iter().cycle());
        let read = Cursor::new(&written).string().unwrap();
        prop_assert_eq!(read.decode().unwrap(), text.as_str());
        prop_assert!(read.is(&text));
    }
}

#[test]
fn brackets_of_the_wrong_kind_are_rejected() {
    assert_eq!(Structure::new(9).find_end(b"{\"a\":[1}"), Err(StructureError::Mismatch(7)));
}

#[test]
fn depth_is_limited() {
    let deep = "[".repeat(1000);
    assert_eq!(Structure::new(999).find_end(deep.as_bytes()), Err(StructureError::Deep));
    assert_eq!(Structure::new(1000).find_end(deep.as_bytes()), Ok(None));
}

#[test]
fn invalid_words_are_rejected() {
    for word in ["nul", "truee", "01", "1.", "-", "1e", "+1", ".5", "NaN", "0x10"] {
        assert!(Cursor::new(word).skip().is_err(), "{word}");
    }
    for word in ["null", "true", "false", "0", "-0", "10", "1.50", "1e5", "1E+5", "-2.5e-3"] {
        assert_eq!(Cursor::new(word).skip(), Ok(0..word.len()), "{word}");
    }
}

#[test]
fn error_of_a_skipped_value_names_the_position_of_the_wrong_bracket() {
    let text = r#"{"a":[1,2},"b":0}"#;
    let mut cursor = Cursor::new(text);
    cursor.at = 5;
    cursor.skip().unwrap_err();
    assert_eq!(&text[cursor.at..=cursor.at], "}");
    assert_eq!(cursor.at, 9);
}
