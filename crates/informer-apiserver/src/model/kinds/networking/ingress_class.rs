use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::defaults::Default::{Fill, In};
use crate::model::rules::warnings::text;
use crate::model::table::TableRow;
use crate::model::table::text::NONE;
use serde_json::{Value, json};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("networking.k8s.io", "v1", "IngressClass", Traits::GENERATION)
        .bookmark(r#","spec":{}"#)
        .rules(Rules::new(&[In("spec.parameters", &[Fill("scope", "\"Cluster\"")])], &[]))
        .cells(cells);

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let (class, spec) = (row.object, row.spec());
    let is_default =
        class["metadata"]["annotations"]["ingressclass.kubernetes.io/is-default-class"] == "true";
    let name = text(&class["metadata"]["name"]);
    let parameters = &spec["parameters"];
    let group = parameters["apiGroup"].as_str().map(|group| format!(".{group}")).unwrap_or_default();
    let target = if parameters.is_object() {
        format!("{}{group}/{}", text(&parameters["kind"]), text(&parameters["name"]))
    } else {
        NONE.to_owned()
    };
    vec![
        json!(if is_default { format!("{name} (default)") } else { name.to_owned() }),
        json!(text(&spec["controller"])),
        json!(target),
        row.age(),
    ]
}
