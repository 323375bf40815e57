//! CustomResourceDefinitions. Their validation is in [`crd`](crate::model::crd).

use serde_json::Value;

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::schema::unrecognized_formats;

pub(crate) static CUSTOM_RESOURCE_DEFINITION: KindDescriptor =
    KindDescriptor::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", Traits::SPEC_STATUS)
        .warnings(warnings);

/// Warns about formats that have no effect, unless the stored definition has them, too.
fn warnings(definition: &Value, old: Option<&Value>) -> Vec<String> {
    let known = old.map(formats).unwrap_or_default();
    let new = formats(definition).into_iter().filter(|format| !known.contains(format));
    new.map(|format| format!("unrecognized format {format:?}")).collect()
}

fn formats(definition: &Value) -> Vec<&str> {
    let versions = definition["spec"]["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let schemas: Vec<&Value> = versions.iter().map(|version| &version["schema"]["openAPIV3Schema"]).collect();
    // A schema that all versions share is checked once.
    let is_shared = schemas.iter().all(|schema| schema == &schemas[0]);
    let count = if is_shared { schemas.len().min(1) } else { schemas.len() };
    schemas.into_iter().take(count).flat_map(unrecognized_formats).collect()
}
