//! Events of the group `events.k8s.io`. They are stored in the core group.

use crate::model::kinds::Traits;
use crate::model::kinds::core::event::conversion::from_core;
use crate::model::kinds::descriptor::KindDescriptor;

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "events.k8s.io",
    "v1",
    "Event",
    Traits::UPSERT.with(Traits::OWN_FIELDS).with(Traits::EXPIRES),
)
.selectable(&[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
])
.bookmark(BOOKMARK)
.stored_as("", "v1")
.conversion(from_core);

const BOOKMARK: &str = r#","eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null"#;
