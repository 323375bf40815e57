//! Authorization of policy parameters. A policy evaluates its parameter objects for the requests of all
//! users, so the author of a policy or binding must be allowed to read these objects.

use informer_core::Gvr;
use serde_json::{Map, Value};

use super::{AuthorizationAttributes, Requester};
use crate::auth::Auth;
use crate::model::cause::Cause;
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::model::kinds::KindDefinition;
use crate::model::user::User;

type Object = Map<String, Value>;

const GROUP: &str = "admissionregistration.k8s.io";
/// Stands for all API groups or resources in a permission check: only a user who may read everything passes.
const ANY: &str = "*";

impl Auth {
    /// Rejects an admission policy or binding whose author may not read the parameter objects. The check runs
    /// after the validation of the object.
    pub(crate) fn check_params(
        &self,
        requester: Option<Requester<'_>>,
        (kind, name): (&KindDefinition, &str),
        (old, new): (Option<&Object>, &Object),
    ) -> Result<(), ApiError> {
        let Some(requester) = requester
            .filter(|requester| kind.gvr.group == GROUP && self.access.enforces_rbac_for(requester.user))
        else {
            return Ok(());
        };
        let spec = |object: &Object| object.get("spec").cloned().unwrap_or_default();
        let (new, old) = (spec(new), old.map(spec).unwrap_or_default());
        let (field, error) = match kind.kind.as_str() {
            "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => (
                "spec.paramKind",
                self.param_kind_error(requester.user, &old["paramKind"], &new["paramKind"]),
            ),
            "ValidatingAdmissionPolicyBinding" => {
                ("spec.paramRef", self.param_ref_error(requester.user, "validatingadmissionpolicies", &new))
            }
            "MutatingAdmissionPolicyBinding" => {
                ("spec.paramRef", self.param_ref_error(requester.user, "mutatingadmissionpolicies", &new))
            }
            _ => return Ok(()),
        };
        match error {
            None => Ok(()),
            Some(why) => Err(ApiError::invalid(kind, name, Cause::forbidden(field, &why))),
        }
    }

    fn param_kind_error(&self, user: &User, old: &Value, new: &Value) -> Option<String> {
        if !new.is_object() || old == new {
            return None;
        }
        let (group, resource) = self.params_of(new);
        let attributes = AuthorizationAttributes {
            verb: "get".to_owned(),
            group,
            resource: resource.unwrap_or_else(|| ANY.to_owned()),
            namespace: ANY.to_owned(),
            name: ANY.to_owned(),
            ..AuthorizationAttributes::default()
        };
        let text = |name: &str| new[name].as_str().unwrap_or_default();
        self.allows(user, &attributes).is_err().then(|| {
            format!(
                "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
                go_format(user),
                text("kind"),
                text("apiVersion")
            )
        })
    }

    /// As in kube-apiserver, the check runs on each write of the binding.
    fn param_ref_error(&self, user: &User, policies: &str, spec: &Value) -> Option<String> {
        let wanted = Some(&spec["paramRef"]).filter(|wanted| wanted.is_object())?;
        let text = |name: &str| wanted[name].as_str().unwrap_or_default().to_owned();
        let verb = if text("name").is_empty() { "list" } else { "get" };
        let policy_name = spec["policyName"].as_str().unwrap_or_default();
        let policy = self.stored_policy(policies, policy_name);
        let of = policy.as_ref().map(|policy| &policy["spec"]["paramKind"]).filter(|of| of.is_object());
        let (group, resource) = of.map_or_else(|| (ANY.to_owned(), None), |of| self.params_of(of));
        let is_unresolved = of.is_some() && resource.is_none();
        let attributes = AuthorizationAttributes {
            verb: verb.to_owned(),
            group,
            resource: resource.unwrap_or_else(|| ANY.to_owned()),
            namespace: text("namespace"),
            name: text("name"),
            ..AuthorizationAttributes::default()
        };
        self.allows(user, &attributes).err()?;
        let user = go_format(user);
        let least = "to determine minimum required permissions";
        let everything =
            format!("user {user} does not have \"{verb}\" permission for all groups, versions and resources");
        Some(match (&policy, of) {
            (None, _) => format!("unable to get policy {policy_name} {least} and {everything}"),
            (_, Some(of)) if is_unresolved => {
                let part = |name: &str| of[name].as_str().unwrap_or_default();
                let of = format!("&{{{} {}}}", part("apiVersion"), part("kind"));
                format!("unable to resolve paramKind {of} {least} and {everything}")
            }
            // For bindings of mutating policies, kube-apiserver swaps the verb and the user in this message.
            _ if policies.starts_with("mutating") => {
                format!(
                    "user {verb} does not have \"{user}\" permission on the object referenced by paramRef"
                )
            }
            _ => format!(
                "user {user} does not have \"{verb}\" permission on the object referenced by paramRef"
            ),
        })
    }

    fn stored_policy(&self, policies: &str, name: &str) -> Option<Value> {
        let resource = self.resource(&Gvr::new(GROUP, "v1", policies)).ok()?;
        let stored = self.find(&resource, None, name).ok()?;
        Some(parse(stored.as_slice()))
    }

    /// Returns the API group of a `paramKind`, and its resource if the server has it.
    fn params_of(&self, kind: &Value) -> (String, Option<String>) {
        let text = |name: &str| kind[name].as_str().unwrap_or_default();
        let (group, _) = text("apiVersion").split_once('/').unwrap_or_default();
        let resource = self.registry.read().by_kind(text("apiVersion"), text("kind"));
        (group.to_owned(), resource.map(|resource| resource.kind.gvr.resource.to_string()))
    }
}

fn go_format(user: &User) -> String {
    let extra: Vec<String> =
        user.extra.iter().map(|(name, values)| format!("{name}:[{}]", values.join(" "))).collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}
