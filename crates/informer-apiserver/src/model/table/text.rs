use jiff::Timestamp;
use serde_json::Value;

use crate::model::rules::warnings::text;

pub(crate) const UNKNOWN: &str = "<unknown>";
pub(crate) const NONE: &str = "<none>";
pub(crate) const UNSET: &str = "<unset>";

/// Formats the time since a timestamp, for example `22m` or `5d3h`; `<unknown>` if it is invalid.
pub(crate) fn age(time: &Value, now: Timestamp) -> String {
    match time.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
        Some(time) => human_duration(now.as_second() - time.as_second()),
        None => UNKNOWN.to_owned(),
    }
}

/// Formats a duration in seconds with at most two units, like kubectl.
pub(crate) fn human_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let pair = |whole: i64, unit: char, rest: i64, small: char| match rest {
        0 => format!("{whole}{unit}"),
        rest => format!("{whole}{unit}{rest}{small}"),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => pair(days, 'd', hours % 24, 'h'),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => pair(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

/// Returns the string in a value, or the placeholder `absent` for any other value.
pub(crate) fn or<'a>(value: &'a Value, absent: &'a str) -> &'a str {
    match text(value) {
        "" => absent,
        text => text,
    }
}

/// Returns an integer, or zero for any other value.
pub(crate) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// Returns the number of items of a list or members of an object.
pub(crate) fn size(value: &Value) -> usize {
    value.as_object().map_or_else(|| value.as_array().map_or(0, Vec::len), serde_json::Map::len)
}

/// Joins strings with commas, or returns the placeholder `absent` if there are none.
pub(crate) fn joined<'a>(texts: impl Iterator<Item = &'a str>, absent: &str) -> String {
    match texts.collect::<Vec<_>>().join(",") {
        none if none.is_empty() => absent.to_owned(),
        texts => texts,
    }
}

/// Formats an integer or a string, for example a port or a percentage.
pub(crate) fn int_or_text(value: &Value, absent: &str) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => absent.to_owned(),
    }
}
