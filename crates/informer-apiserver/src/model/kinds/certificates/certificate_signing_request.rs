//! CertificateSigningRequests.

use serde_json::{Value, json};

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::warnings::{list, text};
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, human_duration, or};

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "certificates.k8s.io",
    "v1",
    "CertificateSigningRequest",
    Traits::STATUS.with(Traits::OWN_FIELDS),
)
.selectable(&["spec.signerName"])
.bookmark(r#","spec":{"request":null,"signerName":""},"status":{}"#)
.cells(cells);

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
