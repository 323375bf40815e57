//! Numbers, sizes and times as they are shown.

pub(crate) const NONE: &str = "-";

pub(crate) fn count(value: u64) -> String {
    match value {
        0..=99_999 => value.to_string(),
        100_000..=9_999_999 => format!("{:.1}k", value as f64 / 1e3),
        _ => format!("{:.1}M", value as f64 / 1e6),
    }
}

pub(crate) fn rate(value: Option<f64>) -> String {
    match value {
        None => NONE.to_owned(),
        Some(value) if value < 100.0 => format!("{value:.1}/s"),
        Some(value) => format!("{value:.0}/s"),
    }
}

pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (value as f64, "B");
    for larger in UNITS {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if unit == "B" { format!("{value:.0} B") } else { format!("{value:.1} {unit}") }
}

pub(crate) fn seconds(value: f64) -> String {
    let whole = value as u64;
    match value {
        _ if value <= 0.0 => "0 s".to_owned(),
        _ if value < 0.001 => format!("{:.0} µs", (value * 1e6).max(1.0)),
        _ if value < 0.01 => format!("{:.1} ms", value * 1e3),
        _ if value < 1.0 => format!("{:.0} ms", value * 1e3),
        _ if value < 60.0 => format!("{value:.1} s"),
        _ if value < 3_600.0 => format!("{} min {} s", whole / 60, whole % 60),
        _ if value < 86_400.0 => format!("{} h {} min", whole / 3_600, whole % 3_600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3_600),
    }
}

pub(crate) fn optional_seconds(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), seconds)
}

/// Returns a number of things, such as `1 queue` and `2 queues`.
pub(crate) fn plural(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
