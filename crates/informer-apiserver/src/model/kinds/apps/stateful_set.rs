use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::model::cause::{Cause, Causes};
use crate::model::kinds::Traits;
use crate::model::kinds::core::persistent_volume_claim::check_claim_spec;
use crate::model::kinds::core::pod::defaults::TEMPLATE;
use crate::model::kinds::core::pod::warnings::of_template;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::kinds::workload::{
    SPEC_TEMPLATE, changed, check_selected_template, check_selector_of, check_status, container_cells,
};
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, FieldView, NameFormat, not_negative, run};
use crate::model::rules::defaults::Default::{self, Call, Fill, In, When};
use crate::model::rules::defaults::is_empty;
use crate::model::rules::path::{get, set};
use crate::model::rules::warnings::{fractions, list, text};
use crate::model::table::TableRow;
use crate::model::table::text::number;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("apps", "v1", "StatefulSet", Traits::SPEC_STATUS_METADATA)
        .name_format(Some(NameFormat::Label))
        .initial_status(r#"{"replicas":0,"availableReplicas":0}"#)
        .pod_template(SPEC_TEMPLATE)
        .rules(
            Rules::new(DEFAULTS, &[Check::Call(validate)])
                .changes(&[Check::Call(validate_change)])
                .status(STATUS_CHECKS),
        )
        .warnings(warn)
        .cells(cells);

const DEFAULTS: &[Default] = &[In(
    "spec",
    &[
        Fill("podManagementPolicy", "\"OrderedReady\""),
        Call(default_update_strategy),
        In(
            "updateStrategy",
            &[When("type", "RollingUpdate", &[In("rollingUpdate", &[Fill("partition", "0")])])],
        ),
        Fill("persistentVolumeClaimRetentionPolicy.whenDeleted", "\"Retain\""),
        Fill("persistentVolumeClaimRetentionPolicy.whenScaled", "\"Retain\""),
        Fill("replicas", "1"),
        Fill("revisionHistoryLimit", "10"),
        In("template", TEMPLATE),
        In(
            "volumeClaimTemplates[]",
            &[
                Fill("kind", "\"PersistentVolumeClaim\""),
                Fill("apiVersion", "\"v1\""),
                Fill("spec.volumeMode", "\"Filesystem\""),
                Fill("status.phase", "\"Pending\""),
            ],
        ),
    ],
)];

fn default_update_strategy(spec: &mut Value) {
    if is_empty(get(spec, "updateStrategy.type")) {
        set(spec, "updateStrategy.type", "RollingUpdate".into());
        if get(spec, "updateStrategy.rollingUpdate").is_none() {
            set(spec, "updateStrategy.rollingUpdate", json!({}));
        }
    }
}

const STATUS_CHECKS: &[Check] = &[Check::Call(|at, causes| {
    let counts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    check_status(at, &["replicas", "observedGeneration"], &counts, causes);
})];

fn validate(at: &FieldView<'_, '_>, causes: &mut Causes) {
    let spec = at.part("spec");
    let management = spec.text("podManagementPolicy");
    if !matches!(management, "OrderedReady" | "Parallel" | "") {
        let why = "must be 'OrderedReady' or 'Parallel'";
        causes.push(Cause::invalid(&spec.field_path("podManagementPolicy"), &format!("{management:?}"), why));
    }
    let update = spec.text("updateStrategy.type");
    if !matches!(update, "RollingUpdate" | "OnDelete" | "") {
        let value = format!("{{\"Type\":{update:?},\"RollingUpdate\":null}}");
        causes.push(Cause::invalid(
            &spec.field_path("updateStrategy"),
            &value,
            "must be 'RollingUpdate' or 'OnDelete'",
        ));
    }
    // Claim templates are immutable, so an update does not validate them.
    if at.old.is_none() {
        for claim in spec.elements("volumeClaimTemplates") {
            check_claim_spec(&claim.part("spec"), causes);
        }
    }
    not_negative(&spec, &["replicas", "minReadySeconds"], causes);
    check_selector_of(&spec, "statefulset", causes);
    let with_claims = with_claim_volumes(spec.value);
    let spec = FieldView { value: &with_claims, ..spec };
    check_selected_template(&spec, "StatefulSet", "", causes);
    let policy = spec.part("persistentVolumeClaimRetentionPolicy");
    for event in ["whenDeleted", "whenScaled"] {
        run(&policy, &[Check::OneOf(event, &["Delete", "Retain"])], causes);
    }
}

/// Returns a spec whose pod template has the volumes of the claim templates. They replace the volumes of the
/// template with the same names, as in the pods that the StatefulSet controller creates.
fn with_claim_volumes(spec: &Value) -> Value {
    let mut spec = spec.clone();
    // The controller sets the names of the host of each pod.
    if let Some(pod) = spec["template"]["spec"].as_object_mut() {
        pod.remove("hostname");
        pod.remove("subdomain");
    }
    let claims: BTreeSet<&str> =
        list(&spec["volumeClaimTemplates"]).map(|claim| text(&claim["metadata"]["name"])).collect();
    if claims.is_empty() {
        return spec;
    }
    let of_claims =
        claims.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    let others = list(&spec["template"]["spec"]["volumes"])
        .filter(|volume| !claims.contains(text(&volume["name"])))
        .cloned();
    let volumes: Vec<Value> = of_claims.chain(others).collect();
    set(&mut spec, "template.spec.volumes", volumes.into());
    spec
}

fn validate_change(at: &FieldView<'_, '_>, causes: &mut Causes) {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let rest = |object: &Value| {
        let mut spec = object["spec"].as_object().cloned().unwrap_or_default();
        spec.retain(|name, _| !MUTABLE.contains(&name.as_str()));
        spec
    };
    if at.old.is_some_and(|old| rest(old) != rest(at.value)) {
        let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                   'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        causes.replace_all(Cause::forbidden("spec", why));
    }
}

fn warn(object: &Value, old: Option<&Value>) -> Vec<String> {
    let template = changed(object, old).then(|| of_template(object, "spec.template"));
    let mut all = template.unwrap_or_default();
    for (index, claim) in list(&object["spec"]["volumeClaimTemplates"]).enumerate() {
        // In errors of an update, kube-apiserver adds `.Spec` to the path of a volume claim template.
        let end = if old.is_some() { ".Spec" } else { "" };
        all.extend(fractions(
            &claim["spec"],
            &format!("spec.volumeClaimTemplates[{index}]{end}"),
            &["storage"],
        ));
    }
    if object["spec"]["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) {
        let why = "a negative value retains all historical revisions; a value >= 0 is recommended";
        all.push(format!("spec.revisionHistoryLimit: {why}"));
    }
    all
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let (spec, status) = (row.spec(), row.status());
    let replicas = spec["replicas"].as_i64().unwrap_or(1);
    let ready = format!("{}/{replicas}", number(&status["readyReplicas"]));
    let mut cells = vec![row.name(), json!(ready), row.age()];
    cells.extend(container_cells(&spec["template"]["spec"]));
    cells
}
