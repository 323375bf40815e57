//! Policies read the parameters that they name for whoever writes: who writes a policy or a binding must be able to read them, too.

use informer_core::Gvr;
use serde_json::{Map, Value};

use super::{Attributes, Requester};
use crate::auth::Auth;
use crate::model::error::{ApiError, Cause};
use crate::model::json::parse;
use crate::model::kinds::Kind;
use crate::model::user::User;

type Object = Map<String, Value>;

const GROUP: &str = "admissionregistration.k8s.io";
/// Whatever it is, which only who may read everything can name.
const ANY: &str = "*";

impl Auth {
    /// Refuses a policy or a binding whose writer cannot read its parameters. Asked of what is valid otherwise.
    pub(crate) fn check_params(
        &self,
        requester: Option<Requester<'_>>,
        (kind, name): (&Kind, &str),
        (old, new): (Option<&Object>, &Object),
    ) -> Result<(), ApiError> {
        let Some(by) = requester.filter(|by| kind.gvr.group == GROUP && self.access.judges(by.user)) else {
            return Ok(());
        };
        let spec = |object: &Object| object.get("spec").cloned().unwrap_or_default();
        let (new, old) = (spec(new), old.map(spec).unwrap_or_default());
        let (field, refused) = match kind.kind.as_str() {
            "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
                ("spec.paramKind", self.unread_kind(by.user, &old["paramKind"], &new["paramKind"]))
            }
            "ValidatingAdmissionPolicyBinding" => {
                ("spec.paramRef", self.unread_params(by.user, "validatingadmissionpolicies", &new))
            }
            "MutatingAdmissionPolicyBinding" => {
                ("spec.paramRef", self.unread_params(by.user, "mutatingadmissionpolicies", &new))
            }
            _ => return Ok(()),
        };
        match refused {
            None => Ok(()),
            Some(why) => Err(ApiError::invalid(kind, name, Cause::forbidden(field, &why))),
        }
    }

    /// Why a policy may not have parameters of a kind: all of them must be readable.
    fn unread_kind(&self, user: &User, old: &Value, new: &Value) -> Option<String> {
        if !new.is_object() || old == new {
            return None;
        }
        let (group, resource) = self.params_of(new);
        let attributes = Attributes {
            verb: "get".to_owned(),
            group,
            resource: resource.unwrap_or_else(|| ANY.to_owned()),
            namespace: ANY.to_owned(),
            name: ANY.to_owned(),
            ..Attributes::default()
        };
        let text = |name: &str| new[name].as_str().unwrap_or_default();
        self.allows(user, &attributes).is_err().then(|| {
            format!(
                "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
                shown(user),
                text("kind"),
                text("apiVersion")
            )
        })
    }

    /// Why a binding may not name its parameters. Upstream asks again at each write.
    fn unread_params(&self, user: &User, policies: &str, spec: &Value) -> Option<String> {
        let wanted = Some(&spec["paramRef"]).filter(|wanted| wanted.is_object())?;
        let text = |name: &str| wanted[name].as_str().unwrap_or_default().to_owned();
        let verb = if text("name").is_empty() { "list" } else { "get" };
        let policy_name = spec["policyName"].as_str().unwrap_or_default();
        let policy = self.stored_policy(policies, policy_name);
        let of = policy.as_ref().map(|policy| &policy["spec"]["paramKind"]).filter(|of| of.is_object());
        let (group, resource) = of.map_or_else(|| (ANY.to_owned(), None), |of| self.params_of(of));
        let unresolved = of.is_some() && resource.is_none();
        let attributes = Attributes {
            verb: verb.to_owned(),
            group,
            resource: resource.unwrap_or_else(|| ANY.to_owned()),
            namespace: text("namespace"),
            name: text("name"),
            ..Attributes::default()
        };
        self.allows(user, &attributes).err()?;
        let user = shown(user);
        let least = "to determine minimum required permissions";
        let everything =
            format!("user {user} does not have \"{verb}\" permission for all groups, versions and resources");
        Some(match (&policy, of) {
            (None, _) => format!("unable to get policy {policy_name} {least} and {everything}"),
            (_, Some(of)) if unresolved => {
                let part = |name: &str| of[name].as_str().unwrap_or_default();
                let of = format!("&{{{} {}}}", part("apiVersion"), part("kind"));
                format!("unable to resolve paramKind {of} {least} and {everything}")
            }
            // Upstream says it the wrong way round here.
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

    /// The group of a kind of parameters, and its resource where there is one.
    fn params_of(&self, kind: &Value) -> (String, Option<String>) {
        let text = |name: &str| kind[name].as_str().unwrap_or_default();
        let (group, _) = text("apiVersion").split_once('/').unwrap_or_default();
        let resource = self.registry.read().by_kind(text("apiVersion"), text("kind"));
        (group.to_owned(), resource.map(|resource| resource.kind.gvr.resource.to_string()))
    }
}

/// A user, as Go shows one.
fn shown(user: &User) -> String {
    let extra: Vec<String> =
        user.extra.iter().map(|(name, values)| format!("{name}:[{}]", values.join(" "))).collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}
