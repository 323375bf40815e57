//! The string formats (`format`) of CRD schemas.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::keywords::{additional, items, list, members, text};
use crate::model::net;

/// The supported formats without dashes, as kube-apiserver compares them.
const STRING_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Returns true if the format applies to values of this type. Other formats have no effect.
pub(crate) fn is_supported(format: &str, kind: &str) -> bool {
    match kind {
        "" | "string" => STRING_FORMATS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Returns true if a string has a format.
pub(crate) fn has_format(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "byte" => is_base64(text),
        "cidr" => is_cidr(text),
        "creditcard" => is_credit_card(text),
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "email" => is_email(text),
        "hexcolor" => is_hex_color(text),
        "hostname" => is_hostname(text),
        "ipv4" => sloppy_ipv4(text).is_some() || text.contains('.') && text.parse::<Ipv6Addr>().is_ok(),
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(is_name_part),
        "k8sshortname" => text.len() <= 63 && is_name_part(text),
        "mac" => is_mac(text),
        "rgbcolor" => is_rgb_color(text),
        "ssn" => is_ssn(text),
        "uri" => net::is_request_uri(text),
        "uuid" => is_uuid(text, |_| true),
        "uuid3" => is_uuid(text, |digits| digits[12] == b'3'),
        "uuid4" => is_uuid(text, |digits| digits[12] == b'4' && b"89abAB".contains(&digits[16])),
        "uuid5" => is_uuid(text, |digits| digits[12] == b'5' && b"89abAB".contains(&digits[16])),
        _ => true,
    }
}

fn is_name_part(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.iter().all(|&byte| inner(byte) || byte == b'-')
        && bytes.first().is_some_and(|&byte| inner(byte))
        && bytes.last().is_some_and(|&byte| inner(byte))
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty() && text.len().is_multiple_of(4) && padding <= 2 && digits.bytes().all(is_digit)
}

/// Parses an IPv4 address. Like kube-apiserver, it accepts leading zeros.
fn sloppy_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut parts = text.split('.').map(|part| {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit()) && !part.is_empty();
        let significant = part.trim_start_matches('0');
        digits.then(|| if significant.is_empty() { Ok(0) } else { significant.parse::<u8>() })?.ok()
    });
    let mut next = || parts.next().flatten();
    let address = Ipv4Addr::new(next()?, next()?, next()?, next()?);
    parts.next().is_none().then_some(address)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let Some(length) = is_number.then(|| length.parse::<u32>().ok()).flatten() else { return false };
    match sloppy_ipv4(address) {
        Some(_) => length <= 32,
        None => address.contains(':') && address.parse::<Ipv6Addr>().is_ok() && length <= 128,
    }
}

fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|sign| sign.to_digit(10)).collect();
    let number = |count: usize| digits.iter().take(count).fold(0, |number, digit| number * 10 + digit);
    let is_known = match digits.len() {
        13 => number(1) == 4,
        14 => matches!(number(3), 300..=305) || matches!(number(2), 36 | 38),
        15 => matches!(number(2), 34 | 37) || matches!(number(4), 2131 | 1800),
        16 => number(1) == 4 || matches!(number(2), 51..=55 | 65) || number(4) == 6011 || number(2) == 35,
        _ => false,
    };
    let doubled = |(index, digit): (usize, &u32)| match index % 2 {
        1 => digit * 2 % 10 + digit * 2 / 10,
        _ => *digit,
    };
    is_known && digits.iter().rev().enumerate().map(doubled).sum::<u32>() % 10 == 0
}

fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.is_ascii()
        && text.as_bytes()[4] == b'-'
        && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

/// Returns true for `hh:mm:ss`, an optional fraction, and `z` or an offset.
fn is_time(text: &str) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else { return false };
    let mut numbers = clock.split(':');
    let mut below = |limit: u8| {
        let number = numbers.next().unwrap_or_default();
        number.len() == 2 && number.parse::<u8>().is_ok_and(|number| number < limit)
    };
    if !(below(24) && below(60) && below(60)) || numbers.next().is_some() {
        return false;
    }
    // The separator before the fraction may be any character.
    let mut signs = rest.chars();
    let fraction =
        signs.next().map(|_| signs.as_str()).filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let zone = match fraction {
        Some(digits) if !rest.starts_with(['+', '-']) => {
            digits.trim_start_matches(|c: char| c.is_ascii_digit())
        }
        _ => rest,
    };
    let is_offset = |offset: &str| {
        let bytes = offset.as_bytes();
        let digits = |range: std::ops::Range<usize>| bytes[range].iter().all(u8::is_ascii_digit);
        bytes.len() == 6
            && matches!(bytes[0], b'+' | b'-')
            && bytes[3] == b':'
            && digits(1..3)
            && digits(4..6)
    };
    zone == "z" || is_offset(zone)
}

fn is_duration(text: &str) -> bool {
    is_go_duration(text) || has_scala_duration(text)
}

/// Returns true if Go's `time.ParseDuration` accepts a text, except for durations above 292 years.
pub(crate) fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|sign: char| sign.is_ascii_digit() || sign == '.');
        let digits = &rest[..rest.len() - number.len()];
        if digits.matches('.').count() > 1 || !digits.contains(|sign: char| sign.is_ascii_digit()) {
            return false;
        }
        let after = number.trim_start_matches(|sign: char| !sign.is_ascii_digit() && sign != '.');
        let unit = &number[..number.len() - after.len()];
        if !matches!(unit, "ns" | "us" | "\u{b5}s" | "\u{3bc}s" | "ms" | "s" | "m" | "h") {
            return false;
        }
        rest = after;
    }
    true
}

/// Returns true if a text contains a number with a unit such as `2 days`.
fn has_scala_duration(text: &str) -> bool {
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "\u{b5}s", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    let is_unit = |unit: &str| {
        let unit = unit.to_lowercase();
        UNITS.iter().any(|names| {
            names.contains(&unit.as_str()) || names.last().is_some_and(|name| unit.starts_with(name))
        })
    };
    // Only the ends of numbers are tried, so that the time is linear for hostile texts.
    let ends = text.match_indices(|sign: char| sign.is_ascii_digit()).map(|(at, _)| &text[at + 1..]);
    ends.filter(|rest| !rest.starts_with(|sign: char| sign.is_ascii_digit())).any(|rest| {
        let rest = rest.trim_start();
        let end =
            rest.find(|sign: char| !sign.is_ascii_alphabetic() && sign != '\u{b5}').unwrap_or(rest.len());
        end > 0 && is_unit(&rest[..end])
    })
}

/// Returns true for an address of RFC 5322 with an optional display name, in the usual forms.
fn is_email(text: &str) -> bool {
    let address = match text.trim().strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((name, address)) if !name.contains(['<', '>', '@', ',']) || name.trim().starts_with('"') => {
            address
        }
        Some(_) => return false,
        None => text.trim(),
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_atom_sign =
        |sign: char| sign.is_ascii_alphanumeric() || "!#$%&'*+/=?^_`{|}~-".contains(sign) || !sign.is_ascii();
    let is_dot_atom =
        |text: &str| text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_sign));
    let is_quoted = |text: &str| text.len() > 1 && text.starts_with('"') && text.ends_with('"');
    let is_literal = |text: &str| {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        inner.is_some_and(|text| text.parse::<Ipv4Addr>().is_ok())
    };
    (is_dot_atom(local) || is_quoted(local)) && (is_dot_atom(domain) || is_literal(domain))
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_hostname(text: &str) -> bool {
    // As in kube-apiserver, letters and symbols of all scripts are allowed; the last label consists of
    // letters. A dash is neither the first nor the last character of a label.
    let is_symbol = |sign: char| !sign.is_ascii() && !sign.is_control() && !sign.is_whitespace();
    let is_outer = |sign: char| sign.is_ascii_alphanumeric() || "$+<=>^`|~".contains(sign) || is_symbol(sign);
    let is_label = |label: &str| {
        label.chars().next().is_some_and(is_outer)
            && label.chars().next_back().is_some_and(is_outer)
            && label.chars().all(|sign| is_outer(sign) || sign == '-')
            && label.len() <= 63
    };
    let is_letter = |sign: char| sign.is_alphabetic();
    let labels: Vec<&str> = text.split('.').collect();
    text.len() <= 255
        && match labels.as_slice() {
            [only] => is_single_label(only, is_outer),
            [labels @ .., last] => {
                labels.iter().all(|label| is_label(label)) && last.len() >= 2 && last.chars().all(is_letter)
            }
            [] => false,
        }
}

/// Returns true for a host name without dots. As in kube-apiserver, only its second character may be a dash.
fn is_single_label(label: &str, is_outer: impl Fn(char) -> bool) -> bool {
    let mut signs = label.chars();
    let first = signs.next();
    let rest = signs.as_str();
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    first.is_some_and(&is_outer) && rest.chars().all(is_outer) && label.len() <= 63
}

fn isbn_digits(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'-').collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    let [first @ .., last] = digits.as_slice() else { return false };
    if first.len() != 9 || !first.iter().all(u8::is_ascii_digit) || !(last.is_ascii_digit() || *last == b'X')
    {
        return false;
    }
    let value = |byte: u8| if byte == b'X' { 10 } else { u32::from(byte - b'0') };
    let sum: u32 = (1..).zip(&digits).map(|(weight, byte)| weight * value(*byte)).sum();
    sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    let weighted = |(index, byte): (usize, &u8)| u32::from(byte - b'0') * if index % 2 == 0 { 1 } else { 3 };
    digits.len() == 13
        && digits.iter().all(u8::is_ascii_digit)
        && digits.iter().enumerate().map(weighted).sum::<u32>() % 10 == 0
}

/// Returns true for 6, 8 or 20 bytes as hexadecimal numbers, separated by colons, dashes or dots.
fn is_mac(text: &str) -> bool {
    let (separator, digits) = match text.as_bytes().get(2) {
        Some(b':') => (':', 2),
        Some(b'-') => ('-', 2),
        _ => ('.', 4),
    };
    let groups: Vec<&str> = text.split(separator).collect();
    let is_group = |group: &&str| group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(groups.len() * digits / 2, 6 | 8 | 20) && groups.iter().all(is_group)
}

fn is_rgb_color(text: &str) -> bool {
    let inner = text.strip_prefix("rgb(").and_then(|text| text.strip_suffix(')'));
    let parts: Vec<&str> = inner.into_iter().flat_map(|inner| inner.split(',')).map(str::trim).collect();
    let is_level = |part: &&str| {
        part.bytes().all(|byte| byte.is_ascii_digit())
            && (*part == "0" || !part.starts_with('0'))
            && part.parse::<u8>().is_ok()
    };
    parts.len() == 3 && parts.iter().all(is_level)
}

fn is_ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |index: usize| bytes[index].is_ascii_digit();
    bytes.len() == 11
        && [3, 6].iter().all(|&index| matches!(bytes[index], b'-' | b' '))
        && (0..11).filter(|index| !matches!(index, 3 | 6)).all(is_digit)
}

/// Returns true for a UUID whose digits are valid. Its dashes may be missing.
fn is_uuid(text: &str, are_valid: impl Fn(&[u8]) -> bool) -> bool {
    let mut digits = Vec::with_capacity(32);
    for byte in text.bytes() {
        match byte {
            byte if byte.is_ascii_hexdigit() => digits.push(byte),
            b'-' if matches!(digits.len(), 8 | 12 | 16 | 20) => {}
            _ => return false,
        }
    }
    digits.len() == 32 && !text.contains("--") && are_valid(&digits)
}

/// Returns the formats in a schema that have no effect, in the order in which kube-apiserver finds them.
pub(crate) fn unrecognized_formats(schema: &Value) -> Vec<&str> {
    let format = text(schema, "format");
    let own = (!format.is_empty() && !is_supported(format, text(schema, "type"))).then_some(format);
    let nested = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|name| list(schema, name));
    let not = schema.get("not").filter(|not| not.is_object());
    let fields = members(schema, "properties").map(|(_, field)| field);
    let below = items(schema).into_iter().chain(nested).chain(not).chain(fields).chain(additional(schema));
    own.into_iter().chain(below.flat_map(unrecognized_formats)).collect()
}

#[cfg(test)]
mod tests;
