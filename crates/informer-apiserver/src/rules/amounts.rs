//! Amounts compared, as `500m` and `1Gi`: exactly, in billionths, as upstream keeps them.

/// Billionths of one.
const NANO: i128 = 1_000_000_000;
/// The largest amount; larger ones are taken for it, as upstream does.
const MAX: i128 = i64::MAX as i128 * NANO;

/// Whether one amount is more than another. What cannot be read is not.
pub(super) fn exceeds(left: &str, right: &str) -> bool {
    matches!((read(left), read(right)), (Some(left), Some(right)) if left > right)
}

/// An amount in billionths; what is finer is rounded away from zero.
pub(super) fn read(text: &str) -> Option<i128> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (tens, twos) = scale(suffix)?;
    let tens = tens + 9 - i32::try_from(fraction.len()).ok()?;
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0').collect();
    Some(sign * scaled(&digits, tens, twos))
}

/// The powers of ten and of two that a suffix stands for.
fn scale(suffix: &str) -> Option<(i32, u32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        exponent => (exponent.strip_prefix(['e', 'E'])?.parse().ok()?, 0),
    })
}

/// Digits times powers, capped and rounded up.
fn scaled(digits: &[u8], tens: i32, twos: u32) -> i128 {
    let digits = match digits.iter().position(|digit| *digit != 0) {
        Some(first) => &digits[first..],
        None => return 0,
    };
    let mut value: i128 = 0;
    // What is divided away is not read, but counts if it is anything.
    let dropped = usize::try_from(-tens).unwrap_or_default();
    let kept = digits.len().saturating_sub(dropped);
    if twos > 0 {
        return binary(digits, dropped, tens, twos);
    }
    for digit in &digits[..kept] {
        value = value.saturating_mul(10).saturating_add(i128::from(*digit)).min(MAX);
    }
    if digits[kept..].iter().any(|digit| *digit != 0) {
        value += 1;
    }
    for _ in 0..tens.max(0) {
        value = value.saturating_mul(10).min(MAX);
        if value == MAX {
            break;
        }
    }
    value.min(MAX)
}

/// The same with powers of two, which finer digits have a part in.
fn binary(digits: &[u8], dropped: usize, tens: i32, twos: u32) -> i128 {
    let mut value: i128 = 0;
    for digit in digits {
        value = value.saturating_mul(10).saturating_add(i128::from(*digit));
    }
    for _ in 0..tens.max(0) {
        value = value.saturating_mul(10);
    }
    value = value.saturating_mul(1 << twos);
    for step in 0..dropped {
        let last = step + 1 == dropped;
        value = if last { value / 10 + i128::from(value % 10 != 0) } else { value / 10 };
    }
    value.min(MAX)
}

#[cfg(test)]
mod tests;
