use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::checks::{
    Check, FieldView, IMMUTABLE, NameFormat, check_domain_prefixed_path, required, unsupported,
};
use crate::model::rules::defaults::Default::{Fill, In};
use crate::model::rules::warnings::text;
use crate::model::rules::{Rules, path_segment_problems};
use crate::model::table::TableRow;
use crate::model::table::text::NONE;
use serde_json::{Value, json};

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("networking.k8s.io", "v1", "IngressClass", Traits::GENERATION)
        .with_traits(Traits::REVALIDATES_METADATA)
        .bookmark(r#","spec":{}"#)
        .rules(Rules::new(
            &[In("spec.parameters", &[Fill("scope", "\"Cluster\"")])],
            &[Check::Call(validate)],
        ))
        .cells(cells);

/// The maximum length of a controller name, in bytes.
const MAX_CONTROLLER_BYTES: usize = 250;

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    let controller = spec.text("controller");
    if spec.old.is_some_and(|old| text(&old["controller"]) != controller) {
        causes.push(Cause::invalid("spec.controller", &format!("{controller:?}"), IMMUTABLE));
    }
    if controller.is_empty() {
        causes.push(required(&"spec.controller", ""));
    } else {
        if controller.len() > MAX_CONTROLLER_BYTES {
            causes.push(Cause::too_long("spec.controller", MAX_CONTROLLER_BYTES));
        }
        check_domain_prefixed_path(&"spec.controller", controller, causes);
    }
    if spec.get("parameters").is_some() {
        check_parameters(&spec.part("parameters"), causes);
    }
}

fn check_parameters(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let (group, scope) = (at.text("apiGroup"), at.text("scope"));
    if at.get("apiGroup").is_some() {
        NameFormat::Subdomain.check(&at.field_path("apiGroup"), group, causes);
    }
    for name in ["kind", "name"] {
        match at.text(name) {
            "" => causes.push(required(&at.field_path(name), "")),
            value => {
                let invalid = |why: &&str| Cause::invalid(&at.field_path(name), &format!("{value:?}"), why);
                causes.extend(path_segment_problems(value).iter().map(invalid));
            }
        }
    }
    let namespace = at.field_path("namespace");
    match scope {
        "Cluster" if at.get("namespace").is_some() => {
            causes.push(Cause::forbidden(&namespace, "`parameters.scope` is set to 'Cluster'"));
        }
        "Namespace" if at.get("namespace").is_none() => {
            causes.push(required(&namespace, "`parameters.scope` is set to 'Namespace'"));
        }
        "Namespace" => NameFormat::Label.check(&namespace, at.text("namespace"), causes),
        "Cluster" => {}
        "" => causes.push(required(&at.field_path("scope"), "")),
        other => causes.push(unsupported(&at.field_path("scope"), other, &["Cluster", "Namespace"])),
    }
}

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
