//! The canonical form of Kubernetes quantities such as `1024Ki`, `0.5` or `1e3`.
//!
//! JSON and protobuf both contain the string that the server's `Quantity` type writes, so every quantity is
//! converted to the canonical form when it is read.

use std::borrow::Cow;

use crate::error::Problem;

const INVALID: Problem = Problem::Value { expected: "a quantity such as 250Mi or 100m" };

/// The maximum number of digits after the decimal point; smaller fractions are rounded up.
const NANO: i64 = 9;

/// The maximum number of digits of a quantity whose string apimachinery may keep unchanged; 18 digits always
/// fit into 64 bits. A quantity with more digits is always converted to the canonical form.
const SAFE_DIGITS: usize = 18;

/// The notation of a quantity, which determines its canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    DecimalExponent,
    BinarySi,
    DecimalSi,
}

struct QuantityParts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: i32,
    format: Format,
}

/// The magnitude of a quantity: the integer with these decimal `digits`, times ten to the power of
/// `exponent`.
struct Amount {
    digits: Vec<u8>,
    exponent: i64,
}

pub(crate) fn canonical(text: &str) -> Result<Cow<'_, str>, Problem> {
    if text == "0" {
        return Ok(Cow::Borrowed(text));
    }
    let parts = parse(text)?;
    if keeps_its_text(&parts) { Ok(Cow::Borrowed(text)) } else { amount(&parts).map(Cow::Owned) }
}

/// Returns the canonical form of a quantity, as a server writes it: `1Gi` for `1024Mi`.
///
/// ```
/// assert_eq!(informer_schema::canonical_quantity("1024Mi")?, "1Gi");
/// # Ok::<(), informer_schema::Problem>(())
/// ```
///
/// # Errors
///
/// Returns an error if the string is not a quantity.
pub fn canonical_quantity(text: &str) -> Result<String, Problem> {
    canonical(text).map(Cow::into_owned)
}

fn parse(text: &str) -> Result<QuantityParts<'_>, Problem> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if text.is_empty() {
        return Err(INVALID);
    }
    let rest = unsigned.trim_start_matches('0');
    if rest.is_empty() {
        return Ok(QuantityParts {
            negative,
            whole: "0",
            fraction: "",
            exponent: 0,
            format: Format::DecimalSi,
        });
    }
    let (whole, rest) = digits(rest);
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
    let (exponent, format) = interpret(suffix).ok_or(INVALID)?;
    Ok(QuantityParts {
        negative,
        whole: if whole.is_empty() { "0" } else { whole },
        fraction,
        exponent,
        format,
    })
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn interpret(suffix: &str) -> Option<(i32, Format)> {
    let (exponent, format) = match suffix {
        "n" => (-9, Format::DecimalSi),
        "u" => (-6, Format::DecimalSi),
        "m" => (-3, Format::DecimalSi),
        "" => (0, Format::DecimalSi),
        "k" => (3, Format::DecimalSi),
        "M" => (6, Format::DecimalSi),
        "G" => (9, Format::DecimalSi),
        "T" => (12, Format::DecimalSi),
        "P" => (15, Format::DecimalSi),
        "E" => (18, Format::DecimalSi),
        "Ki" => (10, Format::BinarySi),
        "Mi" => (20, Format::BinarySi),
        "Gi" => (30, Format::BinarySi),
        "Ti" => (40, Format::BinarySi),
        "Pi" => (50, Format::BinarySi),
        "Ei" => (60, Format::BinarySi),
        // Exponents beyond 32 bits are truncated to their lower 32 bits, as in apimachinery.
        other => (other.strip_prefix(['e', 'E'])?.parse::<i64>().ok()? as i32, Format::DecimalExponent),
    };
    Some((exponent, format))
}

/// Returns true if apimachinery keeps the string of a quantity unchanged. It does so for short numbers that
/// look canonical, including `+5` and `007`.
fn keeps_its_text(parts: &QuantityParts<'_>) -> bool {
    let length = parts.whole.len() + parts.fraction.len();
    if parts.format == Format::BinarySi {
        let precision = 15 - parts.whole.len().cast_signed() - parts.exponent as isize * 3 / 10 - 1;
        let odd = parts.whole.parse::<u64>().is_ok_and(|value| value & 7 != 0);
        return parts.fraction.is_empty() && precision >= 0 && odd;
    }
    let scale = i64::from(parts.exponent) - parts.fraction.len().cast_signed() as i64;
    let ends_in_zeros = parts.whole.len() + parts.fraction.len() >= 3
        && parts.whole.bytes().chain(parts.fraction.bytes()).rev().take(3).all(|digit| digit == b'0');
    length <= SAFE_DIGITS
        && scale >= -NANO
        && scale % 3 == 0
        && !ends_in_zeros
        && !parts.whole.starts_with('0')
}

fn amount(parts: &QuantityParts<'_>) -> Result<String, Problem> {
    let mut format = parts.format;
    let mut amount = Amount {
        digits: parts.whole.bytes().chain(parts.fraction.bytes()).map(|digit| digit - b'0').collect(),
        exponent: -(parts.fraction.len().cast_signed() as i64),
    };
    match format {
        Format::BinarySi => amount.double(parts.exponent),
        _ => amount.exponent += i64::from(parts.exponent),
    }
    amount.round_up();
    amount.trim();
    if amount.digits.is_empty() {
        return Ok("0".to_owned());
    }
    if format == Format::BinarySi {
        match amount.as_integer() {
            Some(value) if value >= 1024 => return Ok(binary(parts.negative, value)),
            _ => format = Format::DecimalSi,
        }
    }
    Ok(amount.decimal(parts.negative, format))
}

/// Formats an integer of at least 1024 with a binary suffix.
fn binary(negative: bool, value: u128) -> String {
    let mut value = value.min(i64::MAX as u128);
    let mut power = 0;
    while value.is_multiple_of(1024) {
        (value, power) = (value / 1024, power + 1);
    }
    let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power];
    format!("{}{value}{suffix}", if negative { "-" } else { "" })
}

impl Amount {
    fn double(&mut self, power: i32) {
        for _ in 0..power / 10 {
            let mut carry = 0_u32;
            for digit in self.digits.iter_mut().rev() {
                let value = u32::from(*digit) * 1024 + carry;
                *digit = (value % 10) as u8;
                carry = value / 10;
            }
            let head: Vec<u8> = carry.to_string().bytes().map(|digit| digit - b'0').collect();
            self.digits.splice(0..0, head);
        }
    }

    /// Rounds the magnitude up to a multiple of a billionth, the smallest fraction of a quantity.
    fn round_up(&mut self) {
        self.trim();
        let Some(excess) = usize::try_from(-NANO - self.exponent).ok().filter(|excess| *excess > 0) else {
            return;
        };
        if self.digits.is_empty() {
            return;
        }
        let kept = self.digits.len().saturating_sub(excess);
        let inexact = self.digits[kept..].iter().any(|digit| *digit != 0);
        self.digits.truncate(kept);
        self.exponent = -NANO;
        if inexact {
            self.increment();
        }
    }

    fn increment(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
    }

    /// Removes leading and trailing zeros from the digits; `exponent` increases by the number of trailing
    /// zeros.
    fn trim(&mut self) {
        let leading = self.digits.iter().take_while(|digit| **digit == 0).count();
        self.digits.drain(..leading);
        while self.digits.last() == Some(&0) {
            self.digits.pop();
            self.exponent += 1;
        }
    }

    /// Returns the value, or `None` if it is not an integer. For an integer that does not fit into 128 bits,
    /// the result is `u128::MAX`, because callers limit the value to `i64::MAX`.
    fn as_integer(&self) -> Option<u128> {
        let zeros = u32::try_from(self.exponent).ok()?;
        let digits = self
            .digits
            .iter()
            .try_fold(0_u128, |value, digit| value.checked_mul(10)?.checked_add(u128::from(*digit)));
        Some(digits.zip(10_u128.checked_pow(zeros)).and_then(|(a, b)| a.checked_mul(b)).unwrap_or(u128::MAX))
    }

    fn decimal(mut self, negative: bool, format: Format) -> String {
        while self.exponent % 3 != 0 {
            self.digits.push(0);
            self.exponent -= 1;
        }
        let mut text = String::with_capacity(self.digits.len() + 4);
        if negative {
            text.push('-');
        }
        text.extend(self.digits.iter().map(|digit| char::from(digit + b'0')));
        match (format, self.exponent) {
            (_, 0) => {}
            (Format::DecimalExponent, exponent) => text.push_str(&format!("e{exponent}")),
            (_, exponent) => text.push_str(suffix(exponent)),
        }
        text
    }
}

/// Returns the suffix for a power of ten, such as `k` for 3. For exponents above 18 (`E`) there is no suffix:
/// apimachinery then writes the digits alone, which changes the value, and this crate does the same.
fn suffix(exponent: i64) -> &'static str {
    match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
