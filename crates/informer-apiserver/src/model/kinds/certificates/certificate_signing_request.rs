use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, duplicate, required, unsupported};
use crate::model::rules::warnings::{list, text};
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, human_duration, or};

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

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "certificates.k8s.io",
    "v1",
    "CertificateSigningRequest",
    Traits::STATUS.with(Traits::OWN_FIELDS),
)
.selectable(&["spec.signerName"])
.bookmark(r#","spec":{"request":null,"signerName":""},"status":{}"#)
.rules(Rules::new(&[], &[Check::Call(validate)]))
.cells(cells);

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    if spec.items("usages").is_empty() {
        causes.push(required(&spec.field_path("usages"), ""));
    }
    // Updates cannot change the spec, and older servers accepted other usages.
    if at.old.is_none() {
        validate_usages(&spec, causes);
    }
    if spec.text("signerName").is_empty() {
        causes.push(required(&spec.field_path("signerName"), ""));
    }
    if let Some(seconds) =
        spec.number("expirationSeconds").filter(|seconds| *seconds < MIN_EXPIRATION_SECONDS)
    {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        causes.push(Cause::invalid(&spec.field_path("expirationSeconds"), &seconds.to_string(), why));
    }
}

fn validate_usages(spec: &FieldView<'_, '_>, causes: &mut Causes) {
    let usages: Vec<&str> = spec.items("usages").iter().map(text).collect();
    for (index, usage) in usages.iter().enumerate().filter(|(_, usage)| !USAGES.contains(usage)) {
        causes.push(unsupported(&spec.field_path("usages").index(index), usage, &USAGES));
    }
    for (index, usage) in usages.iter().enumerate().filter(|(index, usage)| usages[..*index].contains(usage))
    {
        causes.push(duplicate(&spec.field_path("usages").index(index), &format!("{usage:?}")));
    }
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let spec = row.spec();
    let duration = spec["expirationSeconds"].as_i64().map_or(NONE.to_owned(), human_duration);
    vec![
        row.name(),
        row.age(),
        json!(or(&spec["signerName"], NONE)),
        json!(text(&spec["username"])),
        json!(duration),
        json!(condition(row.status())),
    ]
}

fn condition(status: &Value) -> String {
    let has = |kind: &str| list(&status["conditions"]).any(|condition| condition["type"] == kind);
    let decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if text(&status["certificate"]).is_empty() { "" } else { ",Issued" };
    format!("{decision}{failed}{issued}")
}
