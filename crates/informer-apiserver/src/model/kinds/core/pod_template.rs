//! PodTemplates.

use serde_json::Value;

use crate::model::kinds::Traits;
use crate::model::kinds::core::pod::defaults::TEMPLATE;
use crate::model::kinds::core::pod::warnings::of_template;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::defaults::Default::In;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("", "v1", "PodTemplate", Traits::GENERATION.with(Traits::RETURNS_DELETED))
        .bookmark(r#","template":{"metadata":{},"spec":{"containers":null}}"#)
        .pod_template(&["template"])
        .rules(Rules::new(&[In("template", TEMPLATE)], &[]))
        .warnings(warn);

fn warn(template: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_none() { of_template(template, "template") } else { Vec::new() }
}
