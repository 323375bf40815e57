//! ReplicationControllers.

use crate::model::kinds::Traits;
use crate::model::kinds::core::pod::defaults::TEMPLATE;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::kinds::workload::{SPEC_TEMPLATE, default_labels, template_warnings};
use crate::model::rules::Rules;
use crate::model::rules::defaults::Default::{self, Call, Fill, In};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("", "v1", "ReplicationController", Traits::SPEC_STATUS.with(Traits::OWN_FIELDS))
        .selectable(&["status.replicas"])
        .bookmark(r#","spec":{},"status":{"replicas":0}"#)
        .initial_status(r#"{"replicas":0}"#)
        .pod_template(SPEC_TEMPLATE)
        .rules(Rules::new(DEFAULTS, &[]))
        .warnings(template_warnings);

const DEFAULTS: &[Default] =
    &[In("spec", &[Fill("replicas", "1"), In("template", TEMPLATE)]), Call(default_labels)];
