//! Formats of figures for people.

/// Rounds a figure to three significant digits with at most six decimal places. Figures of 100 or more are
/// rounded to whole numbers and keep all digits before the decimal point.
pub fn rounded(value: f64) -> f64 {
    let magnitude = value.abs().log10().floor();
    // The lower bound 0 of the decimal places keeps all digits before the decimal point. For the figure 0 the
    // logarithm is not finite.
    let digits = if magnitude.is_finite() { (2.0 - magnitude).clamp(0.0, 6.0) } else { 0.0 };
    let scale = 10_f64.powf(digits);
    (value * scale).round() / scale
}

/// Formats a figure for people: rounded, and with commas between groups of three digits.
pub fn number(value: f64) -> String {
    let text = rounded(value).to_string();
    let (sign, text) = text.strip_prefix('-').map_or(("", &*text), |text| ("-", text));
    let (whole, rest) = text.find('.').map_or((text, ""), |point| text.split_at(point));
    if !whole.bytes().all(|digit| digit.is_ascii_digit()) {
        return format!("{sign}{text}");
    }
    let groups = whole.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    format!("{sign}{}{rest}", groups.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rounded_to_three_digits_and_whole_numbers_keep_all() {
        let figures = [0.0, 0.012_345, 0.9, 1.234_5, 12.345, 123.45, 101_080.4].map(rounded);
        assert_eq!(figures, [0.0, 0.0123, 0.9, 1.23, 12.3, 123.0, 101_080.0]);
    }

    #[test]
    fn numbers_have_commas_between_groups_of_digits() {
        let texts = [0.5, 999.0, 1234.5, -1_000_000.0, f64::NAN].map(number);
        assert_eq!(texts, ["0.5", "999", "1,235", "-1,000,000", "NaN"]);
    }
}
