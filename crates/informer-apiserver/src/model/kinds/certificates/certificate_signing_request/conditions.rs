//! Validation of the conditions and the certificate of a certificate request.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use x509_cert::Certificate;
use x509_cert::der::Decode;

use crate::model::cause::{Cause, Causes};
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
        // kube-apiserver reports the error of Go's parser.
        PemBlock { der, .. } => {
            Certificate::from_der(der).err().map(|_| "x509: malformed certificate".to_owned())
        }
    })
}

struct PemBlock<'a> {
    label: &'a str,
    has_headers: bool,
    der: Vec<u8>,
}

impl<'a> PemBlock<'a> {
    /// Returns `None` if the content is not in base64.
    fn read(label: &'a str, content: &[&str]) -> Option<Self> {
        let is_header = |line: &str| line.contains(':');
        let encoded: String = content.iter().copied().filter(|line| !is_header(line)).collect();
        let has_headers = content.iter().any(|line| is_header(line));
        Some(Self { label, has_headers, der: STANDARD.decode(encoded).ok()? })
    }
}

/// Returns the PEM blocks in a text. As in Go, blocks that are incomplete or not in base64 are left out.
fn pem_blocks(pem: &str) -> Vec<PemBlock<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<(&str, Vec<&str>)> = None;
    for line in pem.lines().map(str::trim_end) {
        if let Some(label) = boundary(line, "-----BEGIN ") {
            open = Some((label, Vec::new()));
        } else if let Some(label) = boundary(line, "-----END ") {
            let closed = open.take().filter(|(begin, _)| *begin == label);
            blocks.extend(closed.and_then(|(label, content)| PemBlock::read(label, &content)));
        } else if let Some((_, content)) = &mut open {
            content.push(line);
        }
    }
    blocks
}

/// Returns the label in the first or last line of a PEM block.
fn boundary<'a>(line: &'a str, prefix: &str) -> Option<&'a str> {
    line.strip_prefix(prefix)?.strip_suffix("-----")
}
