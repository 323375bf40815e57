//! Resource quantities such as `500m` and `1Gi`, exact to a billionth, as in kube-apiserver.

use std::cmp::Ordering;

/// One, in billionths.
const NANO: i128 = 1_000_000_000;
/// One thousandth, in billionths.
const MICRO: i128 = 1_000_000;
/// The largest quantity. As in kube-apiserver, larger quantities are reduced to this one.
const MAX: i128 = i64::MAX as i128 * NANO;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    nanos: i128,
    form: QuantityFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuantityFormat {
    /// Decimal suffixes (`m`, `k`, `M`).
    Decimal,
    /// Binary suffixes (`Ki`, `Mi`).
    Binary,
    /// Decimal exponents (`e3`).
    Exponent,
}

impl Amount {
    pub(crate) const ZERO: Self = Self { nanos: 0, form: QuantityFormat::Decimal };

    pub(crate) fn count(number: usize) -> Self {
        Self {
            nanos: i128::try_from(number).unwrap_or(MAX).saturating_mul(NANO).min(MAX),
            form: QuantityFormat::Decimal,
        }
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let suffix = text.trim_start_matches(|sign: char| sign.is_ascii_digit() || "+-.".contains(sign));
        let form = match suffix {
            suffix if suffix.ends_with('i') => QuantityFormat::Binary,
            suffix if suffix.len() > 1 && suffix.starts_with(['e', 'E']) => QuantityFormat::Exponent,
            _ => QuantityFormat::Decimal,
        };
        Some(Self { nanos: read(text)?, form })
    }

    /// Returns the quantity as an integer, rounded up.
    pub(crate) fn whole(self) -> i64 {
        i64::try_from(rounded_up(self.nanos, NANO)).unwrap_or(i64::MAX)
    }

    /// Returns the quantity in thousandths, rounded up.
    pub(crate) fn thousandths(self) -> i64 {
        i64::try_from(rounded_up(self.nanos, MICRO)).unwrap_or(i64::MAX)
    }

    pub(crate) fn rounded(self) -> Self {
        Self { nanos: rounded_up(self.nanos, NANO) * NANO, ..self }
    }

    /// Returns the sum of two quantities in the format of the first. If the first is zero, the sum has the
    /// format of the second.
    pub(crate) fn plus(self, other: Self) -> Self {
        let form = if self.nanos == 0 { other.form } else { self.form };
        Self { nanos: (self.nanos + other.nanos).clamp(-MAX, MAX), form }
    }

    /// Returns the difference of two quantities, or zero if it would be negative.
    pub(crate) fn less(self, other: Self) -> Self {
        let form = if self.nanos == 0 { other.form } else { self.form };
        match self.nanos - other.nanos {
            nanos if nanos > 0 => Self { nanos, form },
            _ => Self::ZERO,
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        self.nanos == 0
    }

    pub(crate) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Returns the shortest canonical string.
    pub(crate) fn text(self) -> String {
        let text = match self.form {
            QuantityFormat::Binary if self.nanos.abs() >= 1024 * NANO => return binary_text(self.whole()),
            QuantityFormat::Exponent => format!("{}e-9", self.nanos),
            QuantityFormat::Binary | QuantityFormat::Decimal => format!("{}n", self.nanos),
        };
        informer_schema::canonical_quantity(&text).unwrap_or(text)
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

fn rounded_up(nanos: i128, unit: i128) -> i128 {
    nanos.div_euclid(unit) + i128::from(nanos.rem_euclid(unit) != 0)
}

fn binary_text(whole: i64) -> String {
    let (mut number, mut suffix) = (whole, "");
    for next in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
        if number % 1024 != 0 {
            break;
        }
        (number, suffix) = (number / 1024, next);
    }
    format!("{number}{suffix}")
}

/// Returns true if the quantity `left` is larger than `right`, and both are valid.
pub(crate) fn exceeds(left: &str, right: &str) -> bool {
    matches!((read(left), read(right)), (Some(left), Some(right)) if left > right)
}

/// Parses a quantity. The result is in billionths; further digits are rounded away from zero.
pub(crate) fn read(text: &str) -> Option<i128> {
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
    let tens = tens.saturating_add(9).saturating_sub(i32::try_from(fraction.len()).ok()?);
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0').collect();
    Some(sign * scaled(&digits, tens, twos))
}

/// Returns the meaning of a quantity suffix as exponents of ten and of two.
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

/// Returns `digits` times 10 to the power of `tens` times 2 to the power of `twos`, rounded up to an integer
/// and capped at `MAX`.
fn scaled(digits: &[u8], tens: i32, twos: u32) -> i128 {
    let digits = match digits.iter().position(|digit| *digit != 0) {
        Some(first) => &digits[first..],
        None => return 0,
    };
    let mut value: i128 = 0;
    // Digits below one billionth are dropped. They only decide whether the result is rounded up.
    let dropped = usize::try_from(tens.saturating_neg()).unwrap_or_default();
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

/// Computes [`scaled`] for a binary suffix. Digits are dropped only after the multiplication by the power of
/// two, because they contribute to its integer part.
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
