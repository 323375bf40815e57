mod conditions;
mod pkcs10;
mod updates;
mod validation;

use serde_json::{Value, json};
pub(crate) use validation::request_der;

use crate::model::json::Object;
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::object_meta::copy_member;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, is_missing};
use crate::model::rules::path::set;
use crate::model::rules::warnings::{list, text};
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, human_duration, or};
use crate::model::user::User;
use crate::model::write_options::WriteMode;

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "certificates.k8s.io",
    "v1",
    "CertificateSigningRequest",
    Traits::STATUS.with(Traits::OWN_FIELDS),
)
.name_format(None)
.selectable(&["spec.signerName"])
.bookmark(r#","spec":{"request":null,"signerName":""},"status":{}"#)
.reset_fields(&["spec", "status"])
.subresources(&[updates::STATUS, updates::APPROVAL])
.rules(Rules::new(&[], &[Check::Call(validation::check)]))
.carry_over(keep_spec)
.set_requester(set_requester)
.cells(cells);

/// Keeps the spec of the stored request, which is immutable.
fn keep_spec(old: &Object, object: &mut Object, mode: WriteMode) {
    if mode == WriteMode::Main {
        copy_member("spec", old, object);
    }
}

/// Records the user who creates a request, from whom the signer takes the identity.
fn set_requester(request: &mut Value, user: &User) {
    let spec = [
        ("username", json!(user.name)),
        ("uid", json!(user.uid)),
        ("groups", json!(user.groups)),
        ("extra", json!(user.extra)),
    ];
    for (name, value) in spec {
        if !is_missing(Some(&value)) {
            set(request, &format!("spec.{name}"), value);
        } else if let Some(spec) = request.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove(name);
        }
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
