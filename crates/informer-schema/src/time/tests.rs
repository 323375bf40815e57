use super::*;

fn instant(seconds: i64, micros: Option<i64>) -> String {
    let mut out = Vec::new();
    write(&mut out, seconds, micros);
    String::from_utf8(out).unwrap()
}

#[test]
fn instants_are_written_as_go_writes_them() {
    assert_eq!(instant(0, None), "1970-01-01T00:00:00Z");
    assert_eq!(instant(ZERO, None), "0001-01-01T00:00:00Z");
    assert_eq!(instant(951_782_400, Some(42)), "2000-02-29T00:00:00.000042Z");
    assert_eq!(instant(253_402_300_799, None), "9999-12-31T23:59:59Z");
    assert_eq!(instant(-1, None), "1969-12-31T23:59:59Z");
}

#[test]
fn the_ends_of_64_bits_are_written_without_a_panic() {
    for seconds in [i64::MIN, i64::MAX] {
        assert!(instant(seconds, None).ends_with('Z'));
    }
}

#[test]
fn instants_are_read_with_offsets_and_fractions() {
    assert_eq!(read("2000-02-29T01:00:00.5+01:00", false), Ok((951_782_400, 500_000_000)));
    assert_eq!(read("2000-02-29T00:00:00.000042Z", true), Ok((951_782_400, 42_000)));
    for bad in [
        "",
        "2001-02-29T00:00:00Z",
        "2000-02-29",
        "2000-02-29T00:00:00",
        "2000-02-29T24:00:00Z",
        "2000-02-29T00:00:00.Z",
    ] {
        assert_eq!(read(bad, false), Err(INSTANT), "{bad}");
    }
    assert_eq!(read("2000-02-29T00:00:00Z", true), Err(INSTANT));
}

proptest::proptest! {
    #[test]
    fn an_instant_survives_text(seconds in ZERO..253_402_300_799_i64, micros in 0..1_000_000_i64) {
        let text = instant(seconds, Some(micros));
        proptest::prop_assert_eq!(read(&text, true), Ok((seconds, micros * 1_000)));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let _ = (read(&text, false), read(&text, true));
    }
}
