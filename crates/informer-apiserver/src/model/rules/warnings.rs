//! API warnings that several kinds share. They concern valid objects, and kube-apiserver sends them in
//! `Warning` headers.

use std::fmt::Display;
use std::net::IpAddr;

use serde_json::Value;

use crate::model::quantity::Amount;
use crate::model::rules::ranges::{address, first_address, is_mapped, range};

pub(crate) fn load_balancer_warnings(object: &Value) -> Vec<String> {
    let points =
        list(&object["status"]["loadBalancer"]["ingress"]).map(|point| text(&point["ip"])).enumerate();
    let warnings = points.filter(|(_, address)| !address.is_empty());
    warnings
        .flat_map(|(index, address)| {
            address_warnings(&format!("status.loadBalancer.ingress[{index}]"), address)
        })
        .collect()
}

pub(crate) fn value_warnings(values: &Value, at: &str, of: fn(&str, &str) -> Vec<String>) -> Vec<String> {
    let values = list(values).map(text).enumerate();
    values.flat_map(|(index, value)| of(&format!("{at}[{index}]"), value)).collect()
}

pub(crate) fn item_address_warnings(values: &Value, member: &str, at: &str) -> Vec<String> {
    let values = list(values).map(|value| text(&value[member])).enumerate();
    values.flat_map(|(index, value)| address_warnings(&format!("{at}[{index}].{member}"), value)).collect()
}

/// Returns a warning for an IP address with ambiguous notation. Invalid addresses are errors, which
/// validation reports.
pub(crate) fn address_warnings(at: &str, value: &str) -> Vec<String> {
    let strict = value.parse::<IpAddr>().is_ok();
    let warnings = address(value).and_then(|address| match address {
        _ if !strict || is_mapped(address) => {
            let plain = address.to_canonical();
            Some(format!("{at}: non-standard IP address {value:?} is invalid: use \"{plain}\""))
        }
        IpAddr::V6(address) if address.to_string() != value => Some(format!(
            "{at}: IPv6 address {value:?} should be in RFC 5952 canonical format (\"{address}\")"
        )),
        _ => None,
    });
    warnings.into_iter().collect()
}

pub(crate) fn range_warnings(at: &str, value: &str) -> Vec<String> {
    let Some((address, bits)) = range(value) else { return Vec::new() };
    let canonical = format!("{address}/{bits}");
    let mut warnings = Vec::new();
    let (first_address, width) = (first_address(address, bits), if address.is_ipv4() { 32 } else { 128 });
    let network = format!("{first_address}/{bits}");
    if first_address != address {
        warnings.push(format!(
            "{at}: CIDR value {value:?} is ambiguous in this context (should be {network:?} or \"{address}/{width}\"?)"
        ));
    }
    if is_mapped(address) || address.is_ipv4() && canonical != value {
        warnings.push(format!("{at}: non-standard CIDR value {value:?} is invalid: use {network:?}"));
    }
    if warnings.is_empty() && address.is_ipv6() && canonical != value {
        warnings.push(format!(
            "{at}: IPv6 CIDR value {value:?} should be in RFC 5952 canonical format ({canonical:?})"
        ));
    }
    warnings
}

/// Returns the warnings for fractional byte quantities in requests and limits. As in kube-apiserver, storage
/// requests come before storage limits, and memory limits before memory requests.
pub(crate) fn fractions(spec: &Value, at: &(impl Display + ?Sized), names: &[&str]) -> Vec<String> {
    let lists = if names == ["storage"] { ["requests", "limits"] } else { ["limits", "requests"] };
    let resources = &spec["resources"];
    if !resources.is_object() {
        return Vec::new();
    }
    let each = names.iter().flat_map(|name| lists.map(|list| (list, *name)));
    let warnings = each.filter_map(|(list, name)| {
        fraction(&resources[list][name], || format!("{at}.resources.{list}[{name}]"))
    });
    warnings.collect()
}

/// Returns a warning for a fractional byte quantity. `at` creates the path only if there is a warning, which
/// is rare.
pub(crate) fn fraction(amount: &Value, at: impl FnOnce() -> String) -> Option<String> {
    let amount = Amount::read(amount.as_str()?)?;
    (amount.thousandths() % 1000 != 0).then(|| {
        format!("{}: fractional byte value {:?} is invalid, must be an integer", at(), amount.text())
    })
}

pub(crate) fn has_annotation(object: &Value, name: &str) -> bool {
    object["metadata"]["annotations"].get(name).is_some()
}

/// Returns the items of a list; no items if the value is not a list.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns a string, or the empty string for any other value.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
