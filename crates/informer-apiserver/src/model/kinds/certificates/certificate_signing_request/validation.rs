//! Validation of certificate requests.

use std::collections::HashSet;
use std::fmt::Display;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::pem::pem_blocks;
use crate::model::rules::checks::{
    FieldView, duplicate, label_problems, required, subdomain_problems, unsupported,
};
use crate::model::rules::warnings::text;

use super::pkcs10;

const MIN_EXPIRATION_SECONDS: i64 = 600;
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The name of the signer of requests of the API version v1beta1, which version v1 rejects in new objects.
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
/// The maximum lengths of the parts of the name of a signer, in bytes.
const MAX_DOMAIN_BYTES: usize = 253;
const MAX_SIGNER_BYTES: usize = 571;

/// Returns the reasons why a label is invalid.
type LabelProblems = fn(&str) -> Vec<&'static str>;

pub(super) fn check(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    if let Err(why) = check_request(spec.text("request")) {
        let shown = spec.value.get("request").filter(|request| !request.is_null());
        let shown = shown.map_or_else(|| "null".to_owned(), Value::to_string);
        causes.push(Cause::invalid(&spec.field_path("request"), &shown, &why));
    }
    if spec.items("usages").is_empty() {
        causes.push(required(&spec.field_path("usages"), ""));
    }
    // Updates cannot change the spec, and older servers accepted other usages.
    if at.old.is_none() {
        validate_usages(&spec, causes);
    }
    let was_legacy = at.old.is_some_and(|old| old["spec"]["signerName"] == LEGACY_SIGNER);
    if !was_legacy && spec.text("signerName") == LEGACY_SIGNER {
        let why = "the legacy signerName is not allowed via this API version";
        causes.push(Cause::invalid(&spec.field_path("signerName"), &format!("{LEGACY_SIGNER:?}"), why));
    } else {
        check_signer_name(&spec.field_path("signerName"), spec.text("signerName"), causes);
    }
    if let Some(seconds) =
        spec.number("expirationSeconds").filter(|seconds| *seconds < MIN_EXPIRATION_SECONDS)
    {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        causes.push(Cause::invalid(&spec.field_path("expirationSeconds"), &seconds.to_string(), why));
    }
}

/// Validates the certificate request, in base64: one in PEM with a valid signature. Returns the reason why it
/// is invalid.
fn check_request(encoded: &str) -> Result<(), String> {
    pkcs10::check_request(&request_der(encoded).ok_or("PEM block type must be CERTIFICATE REQUEST")?)
}

/// Returns the DER of a certificate request, which is PEM in base64. Returns `None` if its first PEM block is
/// not a certificate request.
pub(crate) fn request_der(encoded: &str) -> Option<Vec<u8>> {
    let pem = STANDARD.decode(encoded).unwrap_or_default();
    let pem = String::from_utf8_lossy(&pem);
    let first = pem_blocks(&pem).into_iter().next();
    first.filter(|block| block.label == "CERTIFICATE REQUEST").map(|block| block.der)
}

fn validate_usages(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let usages: Vec<&str> = spec.items("usages").iter().map(text).collect();
    for (index, usage) in usages.iter().enumerate().filter(|(_, usage)| !USAGES.contains(usage)) {
        causes.push(unsupported(&spec.field_path("usages").index(index), usage, &USAGES));
    }
    let mut seen = HashSet::new();
    for (index, usage) in usages.iter().enumerate().filter(|(_, usage)| !seen.insert(**usage)) {
        causes.push(duplicate(&spec.field_path("usages").index(index), &format!("{usage:?}")));
    }
}

/// Validates the name of a signer, such as `example.com/signer`.
fn check_signer_name(field: &dyn Display, signer: &str, causes: &mut Causes) {
    if signer.is_empty() {
        return causes.push(required(field, ""));
    }
    let invalid = |shown: &str, why: &str| Cause::invalid(field, &format!("{shown:?}"), why);
    let Some((domain, path)) = signer.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return causes.push(invalid(signer, why));
    };
    if domain.len() > MAX_DOMAIN_BYTES {
        causes.push(Cause::too_long(field, MAX_DOMAIN_BYTES));
    }
    check_labels(field, (domain, label_problems), causes);
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        causes.push(invalid(domain, why));
    }
    check_labels(field, (path, subdomain_problems), causes);
    if signer.len() > MAX_SIGNER_BYTES {
        causes.push(Cause::too_long(field, MAX_SIGNER_BYTES));
    }
}

/// Validates the labels of a part of the name of a signer. As in kube-apiserver, only the first invalid label
/// is reported.
fn check_labels(field: &dyn Display, (part, problems): (&str, LabelProblems), causes: &mut Causes) {
    let Some(label) = part.split('.').find(|label| !problems(label).is_empty()) else { return };
    let shown = |why: &&str| {
        Cause::invalid(field, &format!("{part:?}"), &format!("validating label {label:?}: {why}"))
    };
    causes.extend(problems(label).iter().map(shown));
}
