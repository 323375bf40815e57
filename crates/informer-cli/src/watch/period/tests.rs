use super::*;

#[test]
fn lengths_of_time_are_read_as_they_are_written() {
    for (text, millis) in
        [("500ms", 500), ("30s", 30_000), ("1.5s", 1500), ("10m", 600_000), ("1h30m", 5_400_000)]
    {
        assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
    }
}

#[test]
fn what_is_no_length_of_time_is_refused_by_its_name() {
    for text in ["", "0s", "10", "s", "1d", "-1s", "1..2s", "1e400s", "99999999999999999999h", "1s x"] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(&format!("{text:?}")), "{error}");
    }
}

#[test]
fn resync_period_below_a_second_is_refused() {
    for text in ["1ms", "999ms", "0.5s"] {
        let error = parse_resync(text).unwrap_err();
        assert_eq!(error, format!("{text:?} is too short; write a period of at least 1s, such as 10m"));
    }
    assert_eq!(parse_resync("1s"), Ok(Duration::from_secs(1)));
    assert!(parse_resync("soon").is_err());
}
