use serde_json::Value;

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::warnings::has_annotation;
use crate::model::table::TableRow;

pub(crate) static DESCRIPTOR: KindDescriptor =
    KindDescriptor::new("", "v1", "ServiceAccount", Traits::RETURNS_DELETED)
        .with_traits(Traits::REVALIDATES_METADATA)
        .rules(Rules::NORMALIZED)
        .warnings(warn)
        .cells(cells);

fn warn(account: &Value, old: Option<&Value>) -> Vec<String> {
    const ANNOTATION: &str = "kubernetes.io/enforce-mountable-secrets";
    if !has_annotation(account, ANNOTATION) || old.is_some_and(|old| has_annotation(old, ANNOTATION)) {
        return Vec::new();
    }
    let why = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
    vec![format!("metadata.annotations[{ANNOTATION}]: {why}")]
}

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    vec![row.name(), row.age()]
}
