//! Amounts compared, as `500m` and `1Gi`.

/// Whether one amount is more than another. What cannot be read is not.
pub(super) fn exceeds(left: &str, right: &str) -> bool {
    matches!((read(left), read(right)), (Some(left), Some(right)) if left > right)
}

/// An amount as a number. Only amounts near to each other suffer from its precision.
pub(super) fn read(text: &str) -> Option<f64> {
    let end = text.find(|char: char| char.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let scale = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024_f64,
        "Mi" => 1024_f64.powi(2),
        "Gi" => 1024_f64.powi(3),
        "Ti" => 1024_f64.powi(4),
        "Pi" => 1024_f64.powi(5),
        "Ei" => 1024_f64.powi(6),
        exponent => return format!("{number}{exponent}").parse().ok(),
    };
    Some(number.parse::<f64>().ok()? * scale)
}
