use std::collections::HashSet;

use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::core::pod::warnings::deprecated_label;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::checks::{
    Check, FieldView, IMMUTABLE, NameFormat, check_labels, duplicate, required,
};
use crate::model::rules::field_path::FieldPath;
use crate::model::rules::resources::{check_container_resource_name, check_resource_quantity, each_quantity};
use crate::model::rules::scheduling::check_toleration;
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("node.k8s.io", "v1", "RuntimeClass", Traits::NONE)
        .with_traits(Traits::REVALIDATES_METADATA.with(Traits::UNQUALIFIED_FINALIZERS))
        .bookmark(r#","handler":"""#)
        .rules(Rules::new(&[], &[Check::Call(validate)]))
        .warnings(|class, _| warn(class))
        .cells(cells);

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let handler = at.text("handler");
    if handler.is_empty() {
        causes.push(required(&"handler", ""));
    } else {
        NameFormat::Label.check(&"handler", handler, causes);
    }
    let overhead = at.part("overhead");
    each_quantity(&overhead, "podFixed", &mut |_, name, quantity| {
        // kube-apiserver validates the overhead as the limits of a container.
        let field = FieldPath::new("overhead.limits").key(name);
        check_container_resource_name(&field, name, causes);
        check_resource_quantity(&field, name, quantity, causes);
    });
    let scheduling = at.part("scheduling");
    check_labels(&"scheduling.nodeSelector", scheduling.get("nodeSelector"), causes);
    let tolerations = scheduling.items("tolerations");
    let mut known = HashSet::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        let path = scheduling.field_path("tolerations").index(index);
        check_toleration(&FieldView { value: toleration, old: None, path }, causes);
        let shown = toleration.to_string();
        if !known.insert(shown.clone()) {
            causes.push(duplicate(&path, &shown));
        }
    }
    if at.old.is_some_and(|old| text(&old["handler"]) != handler) {
        causes.push(Cause::invalid("handler", &format!("{handler:?}"), IMMUTABLE));
    }
}

fn warn(class: &Value) -> Vec<String> {
    let selected = class["scheduling"]["nodeSelector"].as_object().into_iter().flatten();
    selected
        .filter_map(|(label, _)| Some(format!("scheduling.nodeSelector: {}", deprecated_label(label)?)))
        .collect()
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    vec![row.name(), json!(text(&row.object["handler"])), row.age()]
}
