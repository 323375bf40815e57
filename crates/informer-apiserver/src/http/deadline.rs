use std::time::Duration;

use informer_schema::read_duration;

use crate::model::error::ApiError;
use crate::model::query::Query;
use crate::requests::Verb;

/// Maximum time of a read; the same as the default of kube-apiserver's `--request-timeout`.
const MAX_READ_TIME: Duration = Duration::from_secs(60);
/// Maximum time of a write; the same as in kube-apiserver.
const MAX_WRITE_TIME: Duration = Duration::from_secs(34);
/// Minimum time limit of a request. A request with a shorter `timeout` fails without being executed.
pub(crate) const MIN_TIME_LIMIT: Duration = Duration::from_micros(1);

/// Returns the time limit of a request. The client may shorten the limit with the parameter `timeout`, a Go
/// duration such as `32s` or `1m30s`. Zero and negative durations are ignored.
pub(crate) fn time_limit(query: &Query, verb: Verb) -> Result<Duration, ApiError> {
    let longest = match verb {
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => MAX_WRITE_TIME,
        Verb::Get | Verb::List | Verb::Watch | Verb::Other => MAX_READ_TIME,
    };
    let text = query.text("timeout");
    if text.is_empty() {
        return Ok(longest);
    }
    let requested = read_duration(text).map_err(|why| {
        ApiError::bad_request(format!("invalid timeout specified in the request URL - {why}"))
    })?;
    match u64::try_from(requested) {
        Err(_) | Ok(0) => Ok(longest),
        Ok(nanos) => Ok(Duration::from_nanos(nanos).min(longest)),
    }
}

#[cfg(test)]
mod tests;
