//! How long a request may take.

use std::time::Duration;

use informer_schema::read_duration;

use crate::model::error::ApiError;
use crate::model::query::Query;
use crate::requests::Verb;

/// How long a request that is no watch may take, as upstream (`--request-timeout`).
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// How long a write may take, as upstream.
const WRITE_TIME_MAX: Duration = Duration::from_secs(34);
/// Nobody answers within so short a time.
pub(crate) const AT_ONCE: Duration = Duration::from_micros(1);

/// The time that a request may take, which the client may shorten by a duration, as `32s` or `1m30s`. No time and less mean nothing.
pub(crate) fn time_limit(query: &Query, verb: Verb) -> Result<Duration, ApiError> {
    let longest = match verb {
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => WRITE_TIME_MAX,
        Verb::Get | Verb::List | Verb::Watch | Verb::Other => REQUEST_TIME_MAX,
    };
    let text = query.text("timeout");
    if text.is_empty() {
        return Ok(longest);
    }
    let asked = read_duration(text).map_err(|why| {
        ApiError::bad_request(format!("invalid timeout specified in the request URL - {why}"))
    })?;
    match u64::try_from(asked) {
        Err(_) | Ok(0) => Ok(longest),
        Ok(nanos) => Ok(Duration::from_nanos(nanos).min(longest)),
    }
}

#[cfg(test)]
mod tests;
