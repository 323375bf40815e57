//! Parameter objects of a policy, and the CEL variable `namespaceObject`.

use std::sync::Arc;

use informer_core::Gvr;
use serde_json::{Value, json};

use super::{Binding, Definition, ParamRef};
use crate::admission::{Admission, AdmissionAttributes};
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::registry::Resource;
use crate::registry::storage::Stored;

impl Admission {
    /// Returns the resource of the policy's `paramKind`, or an error if the server does not have it.
    pub(super) fn param_resource<W>(&self, policy: &Definition<W>) -> Result<Option<Arc<Resource>>, String> {
        let Some(of) = &policy.param_kind else { return Ok(None) };
        let (group, version) = of.api_version.split_once('/').unwrap_or(("", &of.api_version));
        match self.registry.read().by_kind(&of.api_version, &of.kind) {
            Some(resource) => Ok(Some(resource)),
            None => Err(format!(
                "failed to find resource referenced by paramKind: '{group}/{version}, Kind={}'",
                of.kind
            )),
        }
    }

    /// Returns the parameter objects that a binding selects. The policy is evaluated once for each of them.
    /// For a policy without parameters the result is one `null`.
    pub(super) async fn params(
        &self,
        of: Option<&Arc<Resource>>,
        binding: &Binding,
        attributes: &AdmissionAttributes,
    ) -> Result<Vec<Value>, String> {
        let (Some(of), Some(param_ref)) = (of, &binding.params) else { return Ok(vec![Value::Null]) };
        let namespace = param_namespace(of, param_ref, attributes)?;
        let mut found = Vec::new();
        for stored in self.selected(of, param_ref, namespace) {
            let shown =
                self.present_from_webhook(of, &stored).await.map_err(|error| error.message().to_owned())?;
            found.push(parse(shown.as_slice()));
        }
        if found.is_empty() && param_ref.needed {
            Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned())
        } else {
            Ok(found)
        }
    }

    fn selected(&self, of: &Resource, param_ref: &ParamRef, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        let Some(selector) = &param_ref.selector else {
            return self.find(of, namespace, &param_ref.name).into_iter().collect();
        };
        let live = self.storage.read().live(of.table);
        let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let within = live.from(&prefix).take_while(|stored| stored.key.to_string().starts_with(&prefix));
        let fits = |stored: &&Arc<Stored>| {
            let object = parse(stored.as_slice());
            selector.matches_with(|label| object["metadata"]["labels"].get(label)?.as_str())
        };
        within.filter(fits).cloned().collect()
    }

    /// Returns the CEL variable `namespaceObject` for a write. It is `null` for cluster-scoped objects and
    /// for namespaces themselves.
    pub(super) fn namespace_object(&self, attributes: &AdmissionAttributes) -> Result<Value, ApiError> {
        let name = attributes.namespace.as_str();
        let itself = attributes.kind.group.is_empty() && attributes.kind.kind == "Namespace";
        if name.is_empty() || itself {
            return Ok(Value::Null);
        }
        let namespaces = self.resource(&Gvr::new("", "v1", "namespaces"))?;
        match self.find(&namespaces, None, name) {
            Ok(stored) => Ok(visible_part(parse(stored.as_slice()))),
            Err(missing) if self.require_namespaces => Err(missing),
            // If the server does not require namespaces to exist, `namespaceObject` has the default fields of
            // a missing namespace.
            Err(_) => Ok(json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            })),
        }
    }
}

/// Removes the fields of a Namespace that the CEL variable `namespaceObject` does not have.
fn visible_part(mut namespace: Value) -> Value {
    if let Some(members) = namespace.as_object_mut() {
        members.retain(|name, _| matches!(name.as_str(), "metadata" | "spec" | "status"));
    }
    if let Some(metadata) = namespace["metadata"].as_object_mut() {
        metadata.retain(|name, _| !matches!(name.as_str(), "managedFields" | "ownerReferences"));
    }
    namespace
}

fn param_namespace<'a>(
    of: &Resource,
    param_ref: &'a ParamRef,
    attributes: &'a AdmissionAttributes,
) -> Result<Option<&'a str>, String> {
    match (of.kind.namespaced, param_ref.namespace.as_str(), attributes.namespace.as_str()) {
        (false, "", _) => Ok(None),
        (false, _, _) => {
            Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned())
        }
        (true, "", "") => {
            Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped \
                               resources"
                .to_owned())
        }
        (true, "", own) => Ok(Some(own)),
        (true, given, _) => Ok(Some(given)),
    }
}
