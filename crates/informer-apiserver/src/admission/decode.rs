use serde_json::Value;

use super::Admission;
use crate::model::json::{Object, json_type};
use crate::model::kinds::KindDefinition;
use crate::model::write_options::FieldValidation;
use crate::registry::Resource;

impl Admission {
    /// Decodes and defaults an object that a webhook or policy has patched. Unknown fields are dropped.
    pub(crate) fn decode_patched(&self, resource: &Resource, object: Value) -> Result<Object, String> {
        self.decode_and_default(resource, object).map(|(object, _)| object)
    }

    /// Decodes and defaults an object that a webhook or policy has patched. An unknown field is an error.
    pub(crate) fn decode_patched_strictly(
        &self,
        resource: &Resource,
        object: Value,
    ) -> Result<Object, String> {
        let (object, unknown) = self.decode_and_default(resource, object)?;
        let unknown = unknown.into_iter().map(|path| format!("unknown field {path:?}")).collect();
        FieldValidation::Strict.enforce(unknown).map(|_| object)
    }

    fn decode_and_default(
        &self,
        resource: &Resource,
        object: Value,
    ) -> Result<(Object, Vec<String>), String> {
        let Value::Object(mut object) = object else {
            return Err(format!("json: cannot unmarshal {} into Go value", json_type(&object)));
        };
        let unknown = decode_patched(&self.schema, &resource.kind, &mut object)?;
        Ok((object, unknown))
    }
}

/// Decodes and defaults an object that a webhook or policy has patched. Also returns the unknown fields of a
/// built-in kind, which decoding drops.
///
/// The unknown fields of a custom resource stay in the object, so that later webhooks receive them. They are
/// pruned when the object is stored.
pub(crate) fn decode_patched(
    kinds: &informer_schema::Schema,
    kind: &KindDefinition,
    object: &mut Object,
) -> Result<Vec<String>, String> {
    match (&kind.schema, kinds.kind_by_api_version(&kind.api_version, &kind.kind)) {
        (Some(schema), _) => {
            schema.fill(object);
            Ok(Vec::new())
        }
        (None, Some(known)) if !kind.is_custom() => {
            let unknown = crate::model::typed::fit(known.message(), object)?;
            kind.fill_defaults(known.message(), object);
            let managed = crate::model::object_meta::take_fields(object);
            crate::model::typed::form(known.message(), object);
            crate::model::object_meta::set_fields(object, managed);
            Ok(unknown)
        }
        _ => Ok(Vec::new()),
    }
}
