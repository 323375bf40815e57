//! Addresses and ranges of them. Numbers may begin with zeros for some readers and not for others, so that new ones may not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::model::error::Cause;

const ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
const BITS: &str = "must not have bits set beyond the prefix length";

pub(super) fn check_address(field: &str, text: &str, causes: &mut Vec<Cause>) {
    causes.extend(address_problem(text).map(|why| Cause::invalid(field, &format!("{text:?}"), why)));
}

/// Ranges that were there before are not looked at again.
pub(super) fn check_range(field: &str, text: &str, before: &[&str], causes: &mut Vec<Cause>) {
    let wrong = range_problem(text).filter(|_| !before.contains(&text));
    causes.extend(wrong.map(|why| Cause::invalid(field, &format!("{text:?}"), why)));
}

/// Why a text cannot be an address, in upstream's words.
pub(super) fn address_problem(text: &str) -> Option<&'static str> {
    match address(text) {
        None => Some(ADDRESS),
        Some(_) if text.parse::<IpAddr>().is_err() => Some("must not have leading 0s"),
        Some(address) if is_mapped(address) => Some("must not be an IPv4-mapped IPv6 address"),
        Some(_) => None,
    }
}

/// The same, where an address must be written as everybody writes it.
pub(super) fn canonical_problem(text: &str) -> Option<String> {
    if let Some(why) = address_problem(text) {
        return Some(why.to_owned());
    }
    let canonical = address(text)?.to_string();
    (canonical != text).then(|| format!("must be in canonical form ({canonical:?})"))
}

/// Why a text cannot be a range, in upstream's words.
pub(super) fn range_problem(text: &str) -> Option<&'static str> {
    let Some((address, length)) = range(text) else { return Some(RANGE) };
    if strict(text).is_none() {
        return Some("must not have leading 0s in IP or prefix length");
    }
    if is_mapped(address) {
        return Some("must not have an IPv4-mapped IPv6 address");
    }
    (first(address, length) != address).then_some(BITS)
}

/// An address; its numbers may begin with zeros.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    match text.contains(':') {
        true => text.parse().ok(),
        false => text.split('.').map(bare).collect::<Vec<_>>().join(".").parse().ok(),
    }
}

/// An address and the length of its prefix; numbers may begin with zeros.
pub(super) fn range(text: &str) -> Option<(IpAddr, u32)> {
    let (start, length) = text.split_once('/')?;
    strict(&format!("{}/{}", address(start)?, bare(length)))
}

/// An address and the length of its prefix.
fn strict(text: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let plain =
        length.bytes().all(|byte| byte.is_ascii_digit()) && (length == "0" || !length.starts_with('0'));
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length: u32 = length.parse().ok()?;
    (plain && length <= most).then_some((address, length))
}

/// A number without the zeros that it begins with.
fn bare(number: &str) -> &str {
    match number.trim_start_matches('0') {
        "" if !number.is_empty() => "0",
        rest => rest,
    }
}

pub(super) fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// The first address of the range that so many bits begin.
pub(super) fn first(address: IpAddr, bits: u32) -> IpAddr {
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

/// Whether a range is within another one, and less than that.
pub(super) fn is_part((address, length): (IpAddr, u32), (whole, bits): (IpAddr, u32)) -> bool {
    address.is_ipv4() == whole.is_ipv4() && length > bits && first(address, bits) == first(whole, bits)
}
