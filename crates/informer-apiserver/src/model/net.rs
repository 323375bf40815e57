//! The syntax of URIs, as Go's `net/url` parses them.

/// Returns true if Go's `url.ParseRequestURI` accepts a text: an absolute URI or an absolute path.
pub(crate) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    if text == "*" || text.starts_with('/') {
        return is_escaped(text);
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let starts_with_letter = scheme.starts_with(|sign: char| sign.is_ascii_alphabetic());
    let is_scheme_sign = |sign: char| sign.is_ascii_alphanumeric() || "+-.".contains(sign);
    if !starts_with_letter || !scheme.chars().all(is_scheme_sign) {
        return false;
    }
    let Some(rest) = rest.strip_prefix("//") else {
        // Only a hierarchical URI is a request URI of a path; an opaque one is accepted as it is.
        return !rest.is_empty() || rest.starts_with('/');
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    is_authority(&rest[..end]) && is_escaped(&rest[end..])
}

/// Returns the scheme and the host of an absolute URI; both are empty if it has none.
pub(crate) fn scheme_and_host(text: &str) -> (&str, &str) {
    let Some((scheme, rest)) = text.split_once("://") else { return ("", "") };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    (scheme, authority.rsplit_once('@').map_or(authority, |(_, host)| host))
}

fn is_authority(text: &str) -> bool {
    let host = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let port = match host.rsplit_once(']') {
        Some((address, rest)) if address.starts_with('[') => rest.strip_prefix(':'),
        Some(_) => return false,
        None => host.split_once(':').map(|(_, port)| port),
    };
    let is_port = port.is_none_or(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    is_port && !host.contains([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}']) && is_escaped(host)
}

/// Returns true if two hexadecimal digits follow each percent sign.
fn is_escaped(text: &str) -> bool {
    let path = text.split('?').next().unwrap_or_default();
    path.match_indices('%').all(|(at, _)| {
        path.get(at + 1..at + 3).is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
    })
}
