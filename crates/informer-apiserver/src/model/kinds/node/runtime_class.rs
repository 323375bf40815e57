//! RuntimeClasses.

use serde_json::Value;

use crate::model::kinds::Traits;
use crate::model::kinds::core::pod::warnings::deprecated_label;
use crate::model::kinds::descriptor::KindDescriptor;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("node.k8s.io", "v1", "RuntimeClass", Traits::NONE)
        .bookmark(r#","handler":"""#)
        .warnings(|class, _| warn(class));

pub(crate) fn warn(class: &Value) -> Vec<String> {
    let selected = class["scheduling"]["nodeSelector"].as_object().into_iter().flatten();
    selected
        .filter_map(|(label, _)| Some(format!("scheduling.nodeSelector: {}", deprecated_label(label)?)))
        .collect()
}
