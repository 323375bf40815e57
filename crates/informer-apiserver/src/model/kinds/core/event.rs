pub(crate) mod conversion;

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, NameFormat};
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;
use crate::model::table::text::{age, or};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("", "v1", "Event", Traits::UPSERT.with(Traits::OWN_FIELDS).with(Traits::EXPIRES))
        .with_traits(Traits::UNQUALIFIED_FINALIZERS)
        .name_format(Some(NameFormat::PathSegment))
        .selectable(&[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ])
        .bookmark(BOOKMARK)
        .rules(Rules::new(&[], &[Check::Call(validate)]))
        .conversion(conversion::to_core)
        .before_store(conversion::complete)
        .cells(cells);

const BOOKMARK: &str = r#","involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":"""#;

/// Requires the namespace of an Event to be that of its involved object, or `default` if the involved object
/// is cluster-scoped.
fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let (own, about) = (at.text("metadata.namespace"), at.text("involvedObject.namespace"));
    let fits = own == about || (about.is_empty() && own == "default");
    if !fits {
        let why = "does not match event.namespace";
        causes.push(Cause::invalid("involvedObject.namespace", &format!("{about:?}"), why));
    }
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    event_cells(row.object, row.now)
}

/// Returns the table cells of an Event that has the field names of the core group.
pub(crate) fn event_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let first =
        if object["firstTimestamp"].is_string() { &object["firstTimestamp"] } else { &object["eventTime"] };
    let last = match (&object["series"]["lastObservedTime"], &object["lastTimestamp"]) {
        (Value::String(_), _) => &object["series"]["lastObservedTime"],
        (_, Value::String(_)) => &object["lastTimestamp"],
        _ => first,
    };
    let about = &object["involvedObject"];
    let kind = text(&about["kind"]).to_lowercase();
    let target = match text(&about["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = &object["source"];
    let component = or(&source["component"], text(&object["reportingComponent"]));
    let host = or(&source["host"], text(&object["reportingInstance"]));
    let source = [component, host].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let count = object["series"]["count"].as_i64().or(object["count"].as_i64()).filter(|count| *count > 0);
    vec![
        json!(age(last, now)),
        json!(text(&object["type"])),
        json!(text(&object["reason"])),
        json!(target),
        json!(text(&about["fieldPath"])),
        json!(source),
        json!(text(&object["message"]).trim()),
        json!(age(first, now)),
        json!(count.unwrap_or(1)),
        json!(text(&object["metadata"]["name"])),
    ]
}
