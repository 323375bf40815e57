//! Parsing and validation of IP addresses and CIDRs.
//!
//! Numbers with leading zeros are ambiguous: some parsers read them as octal. Addresses with leading zeros
//! can be parsed, but validation rejects them in new objects.

use std::collections::HashSet;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::model::cause::{Cause, Causes};

const ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
const BITS: &str = "must not have bits set beyond the prefix length";

pub(crate) fn check_address(field: &dyn Display, text: &str, causes: &mut Causes) {
    causes.extend(address_problem(text).map(|why| Cause::invalid(field, &format!("{text:?}"), why)));
}

/// Validates a CIDR, unless it is one of those in the stored object (`before`).
pub(crate) fn check_range(field: &dyn Display, text: &str, before: &HashSet<&str>, causes: &mut Causes) {
    let wrong = range_problem(text).filter(|_| !before.contains(text));
    causes.extend(wrong.map(|why| Cause::invalid(field, &format!("{text:?}"), why)));
}

/// Returns kube-apiserver's error message for an invalid IP address; `None` if it is valid.
pub(crate) fn address_problem(text: &str) -> Option<&'static str> {
    match address(text) {
        None => Some(ADDRESS),
        Some(_) if text.parse::<IpAddr>().is_err() => Some("must not have leading 0s"),
        Some(address) if is_mapped(address) => Some("must not be an IPv4-mapped IPv6 address"),
        Some(_) => None,
    }
}

/// Returns the error for an IP address like [`address_problem`], but also requires the canonical notation.
pub(crate) fn canonical_problem(text: &str) -> Option<String> {
    if let Some(why) = address_problem(text) {
        return Some(why.to_owned());
    }
    let canonical = address(text)?.to_string();
    (canonical != text).then(|| format!("must be in canonical form ({canonical:?})"))
}

/// Returns kube-apiserver's error message for an invalid CIDR; `None` if it is valid.
pub(crate) fn range_problem(text: &str) -> Option<&'static str> {
    let Some((address, length)) = range(text) else { return Some(RANGE) };
    if parse_strict(text).is_none() {
        return Some("must not have leading 0s in IP or prefix length");
    }
    if is_mapped(address) {
        return Some("must not have an IPv4-mapped IPv6 address");
    }
    (first_address(address, length) != address).then_some(BITS)
}

/// Parses an IP address whose numbers may have leading zeros.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        text.parse().ok()
    } else {
        text.split('.').map(strip_zeros).collect::<Vec<_>>().join(".").parse().ok()
    }
}

/// Parses a CIDR whose numbers may have leading zeros. Returns its address and prefix length.
pub(crate) fn range(text: &str) -> Option<(IpAddr, u32)> {
    let (start, length) = text.split_once('/')?;
    parse_strict(&format!("{}/{}", address(start)?, strip_zeros(length)))
}

/// Parses a CIDR without leading zeros. Returns its address and prefix length.
fn parse_strict(text: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let plain =
        length.bytes().all(|byte| byte.is_ascii_digit()) && (length == "0" || !length.starts_with('0'));
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length: u32 = length.parse().ok()?;
    (plain && length <= most).then_some((address, length))
}

fn strip_zeros(number: &str) -> &str {
    match number.trim_start_matches('0') {
        "" if !number.is_empty() => "0",
        rest => rest,
    }
}

pub(crate) fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

pub(crate) fn first_address(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let rest = u32::MAX.checked_shr(bits).unwrap_or_default();
            Ipv4Addr::from(address.to_bits() & !rest).into()
        }
        IpAddr::V6(address) => {
            let rest = u128::MAX.checked_shr(bits).unwrap_or_default();
            Ipv6Addr::from(address.to_bits() & !rest).into()
        }
    }
}

/// Returns true if the first CIDR is a strict subset of the second.
pub(crate) fn is_strict_subset((address, length): (IpAddr, u32), (whole, bits): (IpAddr, u32)) -> bool {
    address.is_ipv4() == whole.is_ipv4()
        && length > bits
        && first_address(address, bits) == first_address(whole, bits)
}
