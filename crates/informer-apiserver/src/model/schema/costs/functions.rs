//! The costs of CEL functions whose result may be larger than their arguments, or that traverse an argument
//! more than once.
//!
//! The cost of any other function is the size of its arguments, and its result is not larger than them.

use std::rc::Rc;

use super::shape::{CHARS_PER_UNIT, Shape};

/// The largest exponent of a quantity (`1e1000`) in a CEL expression. A larger one is too expensive, because
/// the interpreter writes out every digit.
const MAX_EXPONENT: u64 = 1_000;
/// The largest precision in a format string (`%.3f`). For a larger one the CEL interpreter panics.
const MAX_PRECISION: u64 = 10_000;

/// Returns the cost of a CEL function or operator without its arguments, and the shape of its result. Returns
/// `None` for functions with the default cost.
pub(super) fn cost<'a>(name: &str, all: &[(u64, Shape<'a>)]) -> Option<(u64, Shape<'a>)> {
    // The first argument is the receiver of the call. The name of a function library also counts as a
    // receiver.
    let shapes: Vec<&Shape<'a>> = all.iter().map(|(_, shape)| shape).collect();
    let letters = |count: u64| (count / CHARS_PER_UNIT, Shape::Length(count));
    Some(match (name.rsplit('.').next().unwrap_or(name), shapes.as_slice()) {
        ("_+_" | "_-_", [Shape::Number(one), Shape::Number(other)]) => {
            (0, Shape::Number(one.saturating_add(*other)))
        }
        ("_*_", [Shape::Number(one), Shape::Number(other)]) => (0, Shape::Number(one.saturating_mul(*other))),
        ("_/_" | "_%_", [Shape::Number(one), Shape::Number(_)]) => (0, Shape::Number(*one)),
        ("-_", [Shape::Number(one)]) => (0, Shape::Number(*one)),
        ("int" | "uint", [one]) if one.number().is_some() => (0, Shape::Number(one.number()?)),
        ("size", [one]) => (0, Shape::Number(one.len())),
        ("range", [.., count]) => {
            let count = count.number().unwrap_or(u64::MAX);
            (count, Shape::Items(count, Rc::new(Shape::Number(count))))
        }
        ("flatten", [list]) => {
            let flat = list.flattened();
            (flat.len(), flat)
        }
        ("join", [list, separator @ ..]) => {
            let separator = separator.first().map_or(0, |text| text.len());
            let (cost, text) =
                letters(list.len().saturating_mul(list.items().len().saturating_add(separator)));
            (cost.saturating_add(list.len()), text)
        }
        // `replace` with an empty search string inserts the replacement before and after each character, so
        // the number of insertions exceeds the number of characters by one.
        ("replace", [text, _, to, ..]) => {
            letters(text.len().saturating_add(1).saturating_mul(to.len()).saturating_add(text.len()))
        }
        ("format", [text, arguments]) => {
            let precision = precision(text);
            let (cost, made) =
                letters(text.len().saturating_add(arguments.total()).saturating_add(precision));
            if precision == u64::MAX { (u64::MAX, made) } else { (cost, made) }
        }
        ("quantity", [text]) => quantity(text),
        ("add" | "sub", [Shape::Quantity(one), other]) => {
            (0, Shape::Quantity(one.saturating_add(other.total())))
        }
        ("string", [Shape::Quantity(count)]) => letters(*count),
        ("matches" | "find" | "findAll", [text, pattern, ..]) => {
            let product = (text.len() / CHARS_PER_UNIT + 1).saturating_mul(pattern.len() / 4 + 1);
            (product, Shape::Length(text.len()))
        }
        // Each element of the list may be compared with all others, so the cost is quadratic.
        ("distinct" | "sort" | "sortBy" | "isSorted", [list, ..]) => {
            let count = list.len();
            let each = list.items().compared().saturating_add(1);
            (count.saturating_mul(count).saturating_mul(each), (*list).clone())
        }
        ("contains" | "equivalent" | "intersects", [_, one, other]) => {
            let each = one.items().compared().saturating_add(other.items().compared()).saturating_add(1);
            (one.len().saturating_mul(other.len()).saturating_mul(each), Shape::Length(0))
        }
        _ => return None,
    })
}

/// Returns the sum of the precisions in a format string. Returns `u64::MAX` if a precision is too large, or
/// if the string is not known before the evaluation.
fn precision(format: &Shape<'_>) -> u64 {
    let Some(texts) = format.texts() else { return u64::MAX };
    let of = |text: &str| {
        text.split("%.").skip(1).fold(0, |sum: u64, rest| {
            let digits = rest.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(rest.len());
            let asked = rest[..digits].parse::<u64>().unwrap_or(u64::MAX);
            sum.saturating_add(if asked > MAX_PRECISION { u64::MAX } else { asked })
        })
    };
    texts.into_iter().map(of).max().unwrap_or_default()
}

/// Returns the cost of parsing a quantity and its length when all digits are written out. The exponent is the
/// number of zeros.
fn quantity<'a>(text: &Shape<'a>) -> (u64, Shape<'a>) {
    let Some(texts) = text.texts() else { return (text.weight(), Shape::Quantity(u64::MAX)) };
    let exponent = |text: &str| {
        let digits = text.rsplit(['e', 'E']).next().filter(|digits| digits.len() < text.len());
        let digits = digits.map(|digits| digits.trim_start_matches(['-', '+']));
        digits.map_or(0, |digits| digits.parse::<u64>().unwrap_or(if digits == "i" { 0 } else { u64::MAX }))
    };
    match texts.into_iter().map(exponent).max().unwrap_or_default() {
        zeros if zeros > MAX_EXPONENT => (u64::MAX, Shape::Quantity(0)),
        zeros => (text.weight(), Shape::Quantity(text.len().saturating_add(zeros))),
    }
}
