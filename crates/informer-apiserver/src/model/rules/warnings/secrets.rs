//! Warnings about TLS Secrets with an unusable certificate or key.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::text;

/// The start of a PEM header.
const BEGIN: &str = "-----BEGIN ";

/// Returns the crypto/tls error for missing PEM blocks. It is not checked that the key belongs to the
/// certificate.
pub(super) fn of(secret: &Value) -> Vec<String> {
    if secret["type"] != "kubernetes.io/tls" {
        return Vec::new();
    }
    let data = |name: &str| STANDARD.decode(text(&secret["data"][name])).unwrap_or_default();
    let [certificate, key] =
        [data("tls.crt"), data("tls.key")].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let warnings = certificate_problem(&certificate).or_else(|| key_problem(&key));
    warnings.map(str::to_owned).into_iter().collect()
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

/// Returns the types of the PEM blocks, for example `CERTIFICATE`.
fn kinds(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim_end);
    lines.filter_map(|line| line.strip_prefix(BEGIN)?.strip_suffix("-----")).collect()
}
