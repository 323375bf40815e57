use std::time::Duration;

use super::time_limit;
use crate::model::query::Query;
use crate::requests::Verb;

#[test]
fn timeout_parameter_shortens_but_does_not_extend_the_limit() {
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

#[test]
fn invalid_timeout_reports_go_error() {
    let error = time_limit(&Query::parse("timeout=1.2.3s"), Verb::List).unwrap_err();
    let why = "time: missing unit in duration \"1.2.3s\"";
    assert_eq!(error.message, format!("invalid timeout specified in the request URL - {why}"));
}
