//! Validation of the conditions and the certificate of a certificate request.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::AnyRef;

use crate::model::cause::{Cause, Causes};
use crate::model::pem::{PemBlock, pem_blocks};
use crate::model::rules::checks::{FieldView, duplicate, required, unsupported};
use crate::model::rules::warnings::{list, text};

pub(super) const APPROVED: &str = "Approved";
pub(super) const DENIED: &str = "Denied";
const FAILED: &str = "Failed";
const CONDITIONS: &str = "status.conditions";
const CERTIFICATE: &str = "status.certificate";

/// Validates an update of `/status`, which may set the certificate, but not the conditions of an approval.
pub(super) fn check_status_update(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let Some(old) = at.old else { return };
    check(at, old, causes);
    for kind in [APPROVED, DENIED] {
        if count(at.value, kind) > count(old, kind) {
            let why = format!("updates may not add a condition of type {kind:?}");
            causes.push(Cause::forbidden(CONDITIONS, &why));
        }
    }
    if certificate(at.value) != certificate(old) && !certificate(old).is_empty() {
        causes.push(Cause::forbidden(CERTIFICATE, "updates may not modify existing certificate content"));
    }
}

/// Validates an update of `/approval`.
pub(super) fn check_approval_update(at: &FieldView<'_, '_>, causes: &mut Causes) {
    if let Some(old) = at.old {
        check(at, old, causes);
    }
}

/// Applies the rules that both subresources share.
fn check(at: &FieldView<'_, '_>, old: &Value, causes: &mut Causes) {
    check_conditions(at, old, causes);
    let (new, before) = (certificate(at.value), certificate(old));
    // An update may keep or replace a certificate that was stored without validation.
    if new != before
        && certificate_problem(before).is_none()
        && let Some(why) = certificate_problem(new)
    {
        causes.push(Cause::invalid(CERTIFICATE, "\"<certificate data>\"", &why));
    }
    for kind in [APPROVED, DENIED, FAILED] {
        if count(at.value, kind) < count(old, kind) {
            let why = format!("updates may not remove a condition of type {kind:?}");
            causes.push(Cause::forbidden(CONDITIONS, &why));
        }
    }
}

/// Validates the conditions. An update may repeat the mistakes of stored conditions.
fn check_conditions(at: &FieldView<'_, '_>, old: &Value, causes: &mut Causes) {
    let old = &old["status"]["conditions"];
    let known: HashSet<&str> = list(old).map(|old| text(&old["type"])).collect();
    let had_both = known.contains(APPROVED) && known.contains(DENIED);
    let had_empty = known.contains("");
    let had_duplicate = known.len() < list(old).count();
    let mut seen: HashSet<&str> = HashSet::new();
    for condition in at.elements(CONDITIONS) {
        let kind = condition.text("type");
        if kind.is_empty() && !had_empty {
            causes.push(required(&condition.field_path("type"), ""));
        }
        let statuses: &[&str] = match kind {
            APPROVED | DENIED | FAILED => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        match condition.text("status") {
            "" => causes.push(required(&condition.field_path("status"), "")),
            status if statuses.contains(&status) => {}
            status => causes.push(unsupported(&condition.field_path("status"), status, statuses)),
        }
        let opposite = match kind {
            APPROVED => Some(DENIED),
            DENIED => Some(APPROVED),
            _ => None,
        };
        if !had_both && opposite.is_some_and(|opposite| seen.contains(opposite)) {
            let why = "Approved and Denied conditions are mutually exclusive";
            causes.push(Cause::invalid(CONDITIONS, &format!("{kind:?}"), why));
        }
        if !seen.insert(kind) && !had_duplicate {
            causes.push(duplicate(&condition.field_path("type"), &format!("{kind:?}")));
        }
    }
}

fn count(request: &Value, kind: &str) -> usize {
    list(&request["status"]["conditions"]).filter(|condition| condition["type"] == kind).count()
}

fn certificate(request: &Value) -> &str {
    text(&request["status"]["certificate"])
}

/// Returns the reason why a certificate chain, in base64, is invalid. An empty one is valid.
fn certificate_problem(encoded: &str) -> Option<String> {
    if encoded.is_empty() {
        return None;
    }
    let pem = STANDARD.decode(encoded).unwrap_or_default();
    let pem = String::from_utf8_lossy(&pem);
    let blocks = pem_blocks(&pem);
    if blocks.is_empty() {
        return Some("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    blocks.iter().find_map(|block| match block {
        PemBlock { label, .. } if *label != "CERTIFICATE" => {
            Some(format!("only CERTIFICATE PEM blocks are allowed, found {label:?}"))
        }
        PemBlock { has_headers: true, .. } => Some("no PEM block headers are permitted".to_owned()),
        PemBlock { der, .. } if der.is_empty() => {
            Some("found CERTIFICATE PEM block containing 0 certificates".to_owned())
        }
        PemBlock { der, .. } => malformed_certificate(der),
    })
}

/// Returns the reason why a certificate in DER is malformed. kube-apiserver names the malformed part.
fn malformed_certificate(der: &[u8]) -> Option<String> {
    const SEQUENCE: u8 = 0x30;
    Certificate::from_der(der).err()?;
    let contents = AnyRef::from_der(der).ok().filter(|_| der.starts_with(&[SEQUENCE]));
    let part = match contents {
        Some(contents) if !contents.value().starts_with(&[SEQUENCE]) => "tbs certificate",
        _ => "certificate",
    };
    Some(format!("x509: malformed {part}"))
}
