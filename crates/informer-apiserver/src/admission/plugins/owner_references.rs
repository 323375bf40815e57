use informer_core::Gvr;
use serde_json::Value;

use super::{AdmissionPlugin, PendingWrite, part};
use crate::admission::Admission;
use crate::auth::{AuthorizationAttributes, Requester};
use crate::model::error::ApiError;
use crate::model::write_options::WriteMode;

/// The `OwnerReferencesPermissionEnforcement` plugin: a user who changes the owner references of an object
/// must be allowed to delete the object, and a user who sets `blockOwnerDeletion` must be allowed to update
/// the finalizers of the owner.
pub(super) struct OwnerReferencesPermissionEnforcement;

impl AdmissionPlugin for OwnerReferencesPermissionEnforcement {
    fn name(&self) -> &'static str {
        "OwnerReferencesPermissionEnforcement"
    }

    fn is_enabled_by_default(&self) -> bool {
        false
    }

    fn validates(&self, mode: WriteMode) -> bool {
        !mode.is_of_program()
    }

    fn validate(&self, admission: &Admission, write: PendingWrite<'_>) -> Result<Vec<String>, ApiError> {
        // Upstream exempts this subresource, which kubelets write.
        if write.mode == WriteMode::Status && write.kind().is("", "Pod") {
            return Ok(Vec::new());
        }
        let new = references(&part(write.object, "metadata")["ownerReferences"]);
        let old = write.old.map_or(&[][..], |old| references(&part(old, "metadata")["ownerReferences"]));
        let Some(requester) = write.scope.requester.filter(|_| new != old) else { return Ok(Vec::new()) };
        let check = OwnerCheck { admission, requester, write };
        // A create needs no permission to delete, because the user could also leave the object uncreated.
        if write.old.is_some() {
            check.may_delete()?;
        }
        let blocked_before = |uid: &Value| old.iter().any(|old| old["uid"] == *uid && blocks(old));
        let blocking = || new.iter().filter(|new| blocks(new) && !blocked_before(&new["uid"]));
        if blocking().next().is_some() && !check.may_finalize_all() {
            blocking().try_for_each(|reference| check.may_finalize(reference))?;
        }
        Ok(Vec::new())
    }
}

struct OwnerCheck<'a> {
    admission: &'a Admission,
    requester: Requester<'a>,
    write: PendingWrite<'a>,
}

impl OwnerCheck<'_> {
    /// Checks that the user may delete the written object.
    fn may_delete(&self) -> Result<(), ApiError> {
        let gvr = &self.write.kind().gvr;
        let delete = attributes("delete", gvr, "", (self.write.scope.namespace, self.write.name));
        self.authorize(&delete, "cannot set an ownerRef on a resource you can't delete")
    }

    /// Returns true if the user may update the finalizers of all objects. The kinds of the owners need not
    /// exist then.
    fn may_finalize_all(&self) -> bool {
        let all = AuthorizationAttributes {
            verb: "update".to_owned(),
            group: "*".to_owned(),
            resource: "*/finalizers".to_owned(),
            namespace: String::new(),
            name: "*".to_owned(),
            path: String::new(),
        };
        self.admission.allows(self.requester.user, &all).is_ok()
    }

    /// Checks that the user may update the finalizers of an owner.
    fn may_finalize(&self, reference: &Value) -> Result<(), ApiError> {
        let text = |member: &str| reference[member].as_str().unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let owner = self.admission.registry.read().by_kind(api_version, kind);
        let Some(owner) = owner else {
            return Err(self.forbidden(&format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion \
                 {api_version} Kind {kind}: no matches for kind {kind:?} in version {api_version:?}"
            )));
        };
        let namespace = self.write.scope.namespace.filter(|_| owner.kind.namespaced);
        let update = attributes("update", &owner.kind.gvr, "/finalizers", (namespace, text("name")));
        self.authorize(
            &update,
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on",
        )
    }

    fn authorize(&self, attributes: &AuthorizationAttributes, why: &str) -> Result<(), ApiError> {
        let decision = self.admission.allows(self.requester.user, attributes);
        // kube-apiserver appends the reason of the authorizer and a Go error, which is nil.
        decision.map(drop).map_err(|reason| self.forbidden(&format!("{why}: {reason}, <nil>")))
    }

    fn forbidden(&self, why: &str) -> ApiError {
        ApiError::forbidden(self.write.kind(), self.write.name, why)
    }
}

fn attributes(
    verb: &str,
    gvr: &Gvr,
    subresource: &str,
    (namespace, name): (Option<&str>, &str),
) -> AuthorizationAttributes {
    AuthorizationAttributes {
        verb: verb.to_owned(),
        group: gvr.group.clone(),
        resource: format!("{}{subresource}", gvr.resource),
        namespace: namespace.unwrap_or_default().to_owned(),
        name: name.to_owned(),
        path: String::new(),
    }
}

fn references(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn blocks(reference: &Value) -> bool {
    reference["blockOwnerDeletion"] == true
}
