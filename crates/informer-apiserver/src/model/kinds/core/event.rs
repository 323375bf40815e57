//! Events of the core group.

pub(crate) mod conversion;

use crate::model::error::Cause;
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("", "v1", "Event", Traits::UPSERT.with(Traits::OWN_FIELDS).with(Traits::EXPIRES))
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
        .before_store(conversion::complete);

const BOOKMARK: &str = r#","involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":"""#;

/// Requires an Event to be in the namespace of its involved object, or in `default` if that is
/// cluster-scoped.
fn validate(at: &FieldView<'_>, causes: &mut Vec<Cause>) {
    let (own, about) = (at.text("metadata.namespace"), at.text("involvedObject.namespace"));
    let fits = own == about || (about.is_empty() && own == "default");
    if !fits {
        let why = "does not match event.namespace";
        causes.push(Cause::invalid("involvedObject.namespace", &format!("{about:?}"), why));
    }
}
