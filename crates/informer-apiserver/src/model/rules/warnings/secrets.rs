//! Secrets whose certificate cannot be used.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::text;

/// What begins each part of a file of certificates and keys.
const BEGIN: &str = "-----BEGIN ";

/// What Go says of a pair of certificate and key that are not there. Whether they belong together is not looked at.
pub(super) fn of(secret: &Value) -> Vec<String> {
    if secret["type"] != "kubernetes.io/tls" {
        return Vec::new();
    }
    let data = |name: &str| STANDARD.decode(text(&secret["data"][name])).unwrap_or_default();
    let [certificate, key] =
        [data("tls.crt"), data("tls.key")].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let told = certificate_problem(&certificate).or_else(|| key_problem(&key));
    told.map(str::to_owned).into_iter().collect()
}

fn certificate_problem(text: &str) -> Option<&'static str> {
    let kinds = kinds(text);
    if kinds.is_empty() {
        return Some("tls: failed to find any PEM data in certificate input");
    }
    if kinds.contains(&"CERTIFICATE") {
        return None;
    }
    match kinds.len() == 1 && kinds[0].ends_with("PRIVATE KEY") {
        true => Some(
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may \
             have been switched",
        ),
        false => None,
    }
}

fn key_problem(text: &str) -> Option<&'static str> {
    let kinds = kinds(text);
    if kinds.is_empty() {
        return Some("tls: failed to find any PEM data in key input");
    }
    if kinds.iter().any(|kind| *kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY")) {
        return None;
    }
    match kinds == ["CERTIFICATE"] {
        true => Some("tls: found a certificate rather than a key in the PEM for the private key"),
        false => None,
    }
}

/// The kinds of the parts, as `CERTIFICATE`.
fn kinds(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim_end);
    lines.filter_map(|line| line.strip_prefix(BEGIN)?.strip_suffix("-----")).collect()
}
