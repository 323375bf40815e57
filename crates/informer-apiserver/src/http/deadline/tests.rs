use std::time::Duration;

use super::{duration, time_limit};
use crate::http::query::Query;
use crate::requests::Verb;

#[test]
fn durations_are_read_as_go_reads_them() {
    for (text, nanoseconds) in [
        ("0", 0),
        ("1ns", 1),
        ("1.5h", 5_400_000_000_000),
        ("1m30s", 90_000_000_000),
        ("+1h15m30.918273645s", 4_530_918_273_645),
        ("-1s", 0),
        ("1.us", 1_000),
        (".5ms", 500_000),
        ("0.0000000001s", 0),
        ("0.1234567890123456789s", 123_456_789),
        ("9223372036.854775807s", i64::MAX as u64),
    ] {
        assert_eq!(duration(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
    }
    for (text, why) in [
        ("", "invalid duration"),
        ("-", "invalid duration"),
        (".s", "invalid duration"),
        ("1.2.3s", "invalid duration"),
        ("9223372037s", "invalid duration"),
        ("99999999999999999999999s", "invalid duration"),
        ("5", "missing unit in duration"),
        ("5x", "unknown unit \"x\" in duration"),
    ] {
        assert_eq!(duration(text), Err(format!("{why} {text:?}")));
    }
}

#[test]
fn a_client_may_have_less_time_but_not_more() {
    let limit = |query: &str, verb| time_limit(&Query::parse(query), verb).map_err(|error| error.code);
    let seconds = Duration::from_secs;
    assert_eq!(limit("", Verb::List), Ok(seconds(60)));
    assert_eq!(limit("", Verb::Create), Ok(seconds(34)));
    assert_eq!(limit("timeout=5s", Verb::Create), Ok(seconds(5)));
    assert_eq!(limit("timeout=40s", Verb::Create), Ok(seconds(34)));
    assert_eq!(limit("timeout=40s", Verb::Get), Ok(seconds(40)));
    assert_eq!(limit("timeout=90s", Verb::Get), Ok(seconds(60)));
    assert_eq!(limit("timeout=0s", Verb::Get), Ok(seconds(60)));
    assert_eq!(limit("timeout=-1s", Verb::Get), Ok(seconds(60)));
    assert_eq!(limit("timeout=x", Verb::Get), Err(400));
}
