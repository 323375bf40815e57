use super::*;

fn instant(seconds: i64, micros: Option<i64>) -> String {
    let mut out = Vec::new();
    write(&mut out, seconds, micros);
    String::from_utf8(out).unwrap()
}

#[test]
fn timestamps_are_formatted_as_by_go() {
    assert_eq!(instant(0, None), "1970-01-01T00:00:00Z");
    assert_eq!(instant(ZERO, None), "0001-01-01T00:00:00Z");
    assert_eq!(instant(951_782_400, Some(42)), "2000-02-29T00:00:00.000042Z");
    assert_eq!(instant(253_402_300_799, None), "9999-12-31T23:59:59Z");
    assert_eq!(instant(-1, None), "1969-12-31T23:59:59Z");
}

#[test]
fn extreme_timestamps_do_not_panic() {
    for seconds in [i64::MIN, i64::MAX] {
        assert!(instant(seconds, None).ends_with('Z'));
    }
}

#[test]
fn timestamps_with_offsets_and_fractions_are_parsed() {
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

#[test]
fn timestamps_beyond_rfc_3339_are_parsed_as_by_go() {
    assert_eq!(read("2000-02-29T1:00:00,5+24:60", false), Ok((951_782_400 + 3600 - 25 * 3600, 500_000_000)));
    assert_eq!(read("2000-02-29T00:00:00.+00042Z", true), Ok((951_782_400, 42_000)));
    assert_eq!(read("2000-02-29T00:00:00.-00000Z", true), Ok((951_782_400, 0)));
}

#[test]
fn canonical_time_matches_go() {
    let time = |text: &str| canonical_time(text).unwrap();
    assert_eq!(time("2000-02-29T01:00:00.999+01:00").as_deref(), Some("2000-02-29T00:00:00Z"));
    assert_eq!(time("9999-12-31T23:59:59-01:00").as_deref(), Some("10000-01-01T00:59:59Z"));
    assert_eq!(time("0001-01-01T01:00:00+01:00"), None);
    let micro = |text: &str| canonical_micro_time(text).unwrap();
    assert_eq!(micro("2000-02-29T00:00:00.000001-01:00").as_deref(), Some("2000-02-29T01:00:00.000001Z"));
    assert_eq!(micro("0001-01-01T00:00:00.000000Z"), None);
    assert_eq!(micro("0001-01-01T00:00:00.000001Z").as_deref(), Some("0001-01-01T00:00:00.000001Z"));
}

#[test]
fn invalid_timestamp_reports_go_error() {
    let error_of = |text: &str| canonical_time(text).unwrap_err().to_string();
    let cannot = |text: &str, rest: &str, element: &str| {
        format!(
            "parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{rest}\" as \"{element}\""
        )
    };
    for (text, rest, element) in [
        ("", "", "2006"),
        ("200", "200", "2006"),
        ("20x1-01-01T00:00:00Z", "20x1-01-01T00:00:00Z", "2006"),
        ("2001/01/01", "/01/01", "-"),
        ("2001-1-01", "1-01", "01"),
        ("2001-01-01", "", "T"),
        ("2001-01-01Tx", "x", "15"),
        ("2001-01-01T00:00:00", "", "Z07:00"),
        ("2001-01-01T00:00:00.Z", ".Z", "Z07:00"),
        ("2001-01-01T00:00:00*00:00", "*00:00", "Z07:00"),
    ] {
        assert_eq!(error_of(text), cannot(text, rest, element));
    }
    for (text, why) in [
        ("2001-13-01T00:00:00Z", "month out of range"),
        ("2001-02-29T00:00:00Z", "day out of range"),
        ("2001-01-01T24:00:00Z", "hour out of range"),
        ("2001-01-01T00:00:00*25:00", "time zone offset hour out of range"),
        ("2001-02-30T00:00:00Zx", "extra text: \"x\""),
    ] {
        assert_eq!(error_of(text), format!("parsing time {text:?}: {why}"));
    }
    assert_eq!(
        error_of("2001-01-01T00:00:00Z\u{e9}\""),
        r#"parsing time "2001-01-01T00:00:00Z\xc3\xa9\"": extra text: "\xc3\xa9\"""#
    );
    let micro = |text: &str| canonical_micro_time(text).unwrap_err().to_string();
    assert_eq!(
        micro("2001-01-01T00:00:00.-00001Z"),
        "parsing time \"2001-01-01T00:00:00.-00001Z\": fractional second out of range"
    );
    assert!(micro("2001-01-01T00:00:00.1234567Z").ends_with("cannot parse \"7Z\" as \"Z07:00\""));
    assert!(micro("2001-01-01T00:00:00.5Z").ends_with("cannot parse \".5Z\" as \".000000\""));
}

proptest::proptest! {
    #[test]
    fn timestamp_round_trips(seconds in ZERO..253_402_300_799_i64, micros in 0..1_000_000_i64) {
        let text = instant(seconds, Some(micros));
        proptest::prop_assert_eq!(read(&text, true), Ok((seconds, micros * 1_000)));
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in "\\PC{0,40}") {
        let _ = (read(&text, false), read(&text, true), canonical_time(&text), canonical_micro_time(&text));
    }

    #[test]
    fn mutated_timestamps_do_not_panic(text in "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.,+Z\u{e9}-]{0,24}") {
        let _ = (canonical_time(&text), canonical_micro_time(&text));
    }

    #[test]
    fn canonical_timestamp_is_unchanged(seconds in ZERO + 1..253_402_300_799_i64) {
        let text = instant(seconds, None);
        proptest::prop_assert_eq!(canonical_time(&text), Ok(Some(text)));
    }
}
