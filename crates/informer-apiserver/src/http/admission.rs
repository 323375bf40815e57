//! The attributes of an HTTP request that admission plugins, policies and webhooks receive.

use serde_json::{Value, json};

use crate::admission::{AdmissionAttributes, AdmissionRequest, ReviewKind};
use crate::http::call::Call;
use crate::requests::Verb;

impl Call<'_> {
    /// Returns the admission attributes of a write request, or `None` if no webhook or policy can apply.
    ///
    /// An invalid body also returns `None`; the decoder of the write then reports the error.
    pub(crate) fn admission(&self, body: &[u8], options: impl FnOnce() -> Value) -> Option<AdmissionRequest> {
        if !self.shared.has_hooks() && self.route.resource.converter.is_none() {
            return None;
        }
        let name = match (self.name(), self.route.verb) {
            ("", Verb::Create) => {
                let object = self.object(body).ok()?.value;
                object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
            }
            (name, _) => name.to_owned(),
        };
        let options = options();
        let dry_run = options["dryRun"].as_array().is_some_and(|stages| !stages.is_empty());
        let attributes = AdmissionAttributes { dry_run, options, ..self.attributes(name) };
        (!attributes.is_exempt()).then(|| AdmissionRequest::new(attributes))
    }

    /// Returns the admission attributes of the request without its options.
    pub(super) fn attributes(&self, name: String) -> AdmissionAttributes {
        let kind = self.kind();
        let sub = self.route.subresource.as_deref().unwrap_or_default();
        let subresource_kind =
            kind.subresources().into_iter().find(|known| known.name == sub).and_then(|known| known.of);
        let (group, version, review_kind) = subresource_kind
            .map_or((kind.gvr.group.as_str(), kind.gvr.version.as_str(), kind.kind.as_str()), |of| {
                (of.group, of.version, of.kind)
            });
        let namespace = match self.route.namespace.as_deref() {
            Some(namespace) => namespace.to_owned(),
            None if kind.is("", "Namespace") => name.clone(),
            None => String::new(),
        };
        AdmissionAttributes {
            gvr: kind.gvr.clone(),
            kind: ReviewKind::new(group, version, review_kind),
            subresource: sub.to_owned(),
            namespace,
            name,
            user: self.user.clone(),
            dry_run: false,
            options: Value::Null,
            connects: false,
        }
    }

    /// Returns the `CreateOptions` or `UpdateOptions` of a write. As in kube-apiserver, a patch has
    /// `UpdateOptions`.
    pub(crate) fn write_options(&self) -> Value {
        let kind = match self.route.verb {
            Verb::Create => "CreateOptions",
            _ => "UpdateOptions",
        };
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        let stages = self.query.all("dryRun");
        if !stages.is_empty() {
            options["dryRun"] = stages.into();
        }
        for name in ["fieldManager", "fieldValidation"] {
            let text = self.query.text(name);
            if !text.is_empty() {
                options[name] = text.into();
            }
        }
        options
    }
}
