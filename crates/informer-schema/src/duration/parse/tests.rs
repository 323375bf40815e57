use super::super::write;
use super::*;

#[test]
fn durations_round_trip_as_in_go() {
    let cases = [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5\u{b5}s"),
        (2_000_000, "2ms"),
        (1_000_000_000, "1s"),
        (90_500_000_000, "1m30.5s"),
        (3_600_000_000_000, "1h0m0s"),
        (-5, "-5ns"),
        (i64::MIN, "-2562047h47m16.854775808s"),
        (i64::MAX, "2562047h47m16.854775807s"),
    ];
    for (nanos, text) in cases {
        let mut out = Vec::new();
        write(&mut out, nanos);
        assert_eq!(String::from_utf8(out).unwrap(), text);
        assert_eq!(read_duration(text), Ok(nanos), "{text}");
    }
}

#[test]
fn durations_with_several_units_are_parsed() {
    for (text, nanos) in [
        ("0", 0),
        ("-0", 0),
        ("1.5h", 5_400_000_000_000),
        ("1.5h.5m", 5_430_000_000_000),
        ("1m30s", 90_000_000_000),
        ("+1h15m30.918273645s", 4_530_918_273_645),
        ("-1s", -1_000_000_000),
        ("1.us", 1_000),
        ("1\u{3bc}s", 1_000),
        (".5ms", 500_000),
        ("0.0000000001s", 0),
        ("0.1234567890123456789s", 123_456_789),
        ("9223372036.854775807s", i64::MAX),
        ("-9223372036854775808ns", i64::MIN),
    ] {
        assert_eq!(read_duration(text), Ok(nanos), "{text}");
    }
}

#[test]
fn invalid_duration_reports_go_error() {
    for (text, why) in [
        ("", r#"invalid duration """#),
        ("-", r#"invalid duration "-""#),
        ("s", r#"invalid duration "s""#),
        (".s", r#"invalid duration ".s""#),
        ("1.2.3s", r#"missing unit in duration "1.2.3s""#),
        ("9223372037s", r#"invalid duration "9223372037s""#),
        ("9999999999h", r#"invalid duration "9999999999h""#),
        ("2562047h47m16.854775808s", r#"invalid duration "2562047h47m16.854775808s""#),
        ("99999999999999999999999x", r#"invalid duration "99999999999999999999999x""#),
        ("9999999999999999999x", r#"invalid duration "9999999999999999999x""#),
        ("5", r#"missing unit in duration "5""#),
        ("5x", r#"unknown unit "x" in duration "5x""#),
        ("1s x", r#"unknown unit "s x" in duration "1s x""#),
        ("5\"\\", r#"unknown unit "\"\\" in duration "5\"\\""#),
        ("5\t\u{b5}", r#"unknown unit "\x09\xc2\xb5" in duration "5\x09\xc2\xb5""#),
    ] {
        assert_eq!(read_duration(text).unwrap_err().to_string(), format!("time: {why}"));
    }
}

proptest::proptest! {
    #[test]
    fn duration_round_trips(nanos: i64) {
        let mut out = Vec::new();
        write(&mut out, nanos);
        proptest::prop_assert_eq!(read_duration(&String::from_utf8(out).unwrap()), Ok(nanos));
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in "\\PC{0,40}", number in "[-+]?[0-9.]{0,25}[hmnsu]{0,2}") {
        let _ = (read_duration(&text), read_duration(&number));
    }
}
