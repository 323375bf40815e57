//! RBAC escalation check: the author of a role or binding must hold all permissions that it grants, or be
//! allowed to `escalate` or `bind`.

use informer_core::Gvr;
use serde_json::{Map, Value};

use super::cover::missing;
use super::rbac::{GROUP, join_errors};
use super::rule::PolicyRule;
use super::{AuthorizationAttributes, Requester};
use crate::auth::Auth;
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::model::kinds::KindDefinition;

type Object = Map<String, Value>;

impl Auth {
    /// Checks a role or binding for RBAC escalation, before the object is validated.
    pub(crate) fn check_escalation(
        &self,
        requester: Option<Requester<'_>>,
        (kind, namespace): (&KindDefinition, Option<&str>),
        (old, new): (Option<&Object>, &Object),
    ) -> Result<(), ApiError> {
        let Some(requester) = requester
            .filter(|requester| kind.gvr.group == GROUP && self.access.enforces_rbac_for(requester.user))
        else {
            return Ok(());
        };
        if old.is_some_and(|old| changes_owners_only(old, new)) {
            return Ok(());
        }
        let check =
            EscalationCheck { shared: self, requester, kind, namespace: namespace.unwrap_or_default(), new };
        match kind.kind.as_str() {
            "Role" | "ClusterRole" => check.check_role(old),
            "RoleBinding" | "ClusterRoleBinding" => check.check_binding(),
            _ => Ok(()),
        }
    }
}

struct EscalationCheck<'a> {
    shared: &'a Auth,
    requester: Requester<'a>,
    kind: &'a KindDefinition,
    /// The namespace of the role or binding; empty for cluster-scoped objects.
    namespace: &'a str,
    new: &'a Object,
}

impl EscalationCheck<'_> {
    fn check_role(&self, old: Option<&Object>) -> Result<(), ApiError> {
        if self.may("escalate", (&self.kind.gvr.resource, GROUP), self.requester.name.unwrap_or_default()) {
            return Ok(());
        }
        let rules = self.new.get("rules").and_then(Value::as_array).into_iter().flatten();
        self.check_rules(&rules.map(PolicyRule::read).collect::<Vec<_>>())?;
        let aggregates = [Some(self.new), old].into_iter().flatten().any(aggregates);
        if aggregates && self.check_rules(&PolicyRule::everything()).is_err() {
            return Err(self.forbidden("must have cluster-admin privileges to use the aggregationRule"));
        }
        Ok(())
    }

    fn check_binding(&self) -> Result<(), ApiError> {
        let text =
            |member: &str| self.new.get("roleRef").and_then(|role| role[member].as_str()).unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        let resource = match kind {
            "Role" => "roles",
            "ClusterRole" => "clusterroles",
            _ => return Err(ApiError::new(500, "", format!("unsupported role reference kind: {kind:?}"))),
        };
        // A `roleRef` without an API group refers to the RBAC group.
        let group = Some(text("apiGroup")).filter(|group| !group.is_empty()).unwrap_or(GROUP);
        if self.may("bind", (resource, group), name) {
            return Ok(());
        }
        self.check_rules(&self.rules_of(resource, name)?)
    }

    fn may(&self, verb: &str, (resource, group): (&str, &str), name: &str) -> bool {
        let attributes = AuthorizationAttributes {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: self.namespace.to_owned(),
            name: name.to_owned(),
            path: String::new(),
        };
        self.shared.allows(self.requester.user, &attributes).is_ok()
    }

    /// Returns the rules of the role that a binding refers to. As in kube-apiserver, errors name the kind of
    /// the request.
    fn rules_of(&self, resource: &str, name: &str) -> Result<Vec<PolicyRule>, ApiError> {
        let namespace = Some(self.namespace).filter(|_| resource == "roles");
        let required = |what: &str| Err(ApiError::bad_request(format!("{what} parameter required.")));
        match (namespace, name) {
            (Some(""), _) => return required("Namespace"),
            (_, "") => return required("Name"),
            _ => {}
        }
        let roles = self.shared.resource(&Gvr::new(GROUP, "v1", resource))?;
        let stored = self.shared.find(&roles, namespace, name).map_err(|error| match error.code {
            404 => ApiError::not_found(self.kind, name),
            _ => error,
        })?;
        Ok(PolicyRule::all_of(&parse(stored.as_slice())))
    }

    fn check_rules(&self, wanted: &[PolicyRule]) -> Result<(), ApiError> {
        let user = self.requester.user;
        let held = self.shared.held(user, self.namespace);
        let missing: Vec<String> = missing(&held.rules, wanted).into_iter().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let groups: Vec<String> = user.groups.iter().map(|group| format!("{group:?}")).collect();
        let mut why = format!(
            "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            user.name,
            groups.join(" "),
            missing.join("\n"),
        );
        let missing_roles =
            held.missing.iter().map(|role| ApiError::not_found(self.kind, &role.name).message);
        if let Some(errors) = join_errors(missing_roles) {
            why.push_str(&format!("; resolution errors: [{errors}]"));
        }
        Err(self.forbidden(&why))
    }

    fn forbidden(&self, why: &str) -> ApiError {
        let metadata = self.new.get("metadata");
        let name = metadata.and_then(|metadata| metadata["name"].as_str()).unwrap_or_default();
        let mut error = ApiError::forbidden(self.kind, name, why);
        if name.is_empty() {
            error.message = format!("{} is forbidden: {why}", self.kind.qualified_resource());
        }
        error
    }
}

fn aggregates(role: &Object) -> bool {
    let selectors = role.get("aggregationRule").and_then(|rule| rule["clusterRoleSelectors"].as_array());
    selectors.is_some_and(|selectors| !selectors.is_empty())
}

/// Returns true if an update only changes metadata that the garbage collector writes: owner references,
/// finalizers and managed fields.
fn changes_owners_only(old: &Object, new: &Object) -> bool {
    const THEIRS: [&str; 3] = ["ownerReferences", "finalizers", "managedFields"];
    let metadata =
        |object: &Object| object.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    is_same_except(old, new, &["kind", "apiVersion", "metadata"])
        && is_same_except(&metadata(old), &metadata(new), &THEIRS)
}

/// Returns true if two objects are equal, except for the members `but`. Empty values count as missing.
fn is_same_except(old: &Object, new: &Object, but: &[&str]) -> bool {
    let counts = |(name, value): &(&String, &Value)| {
        let empty = match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        !empty && !but.contains(&name.as_str())
    };
    let has_all = |one: &Object, other: &Object| {
        one.iter().filter(counts).all(|(name, value)| other.get(name) == Some(value))
    };
    has_all(old, new) && has_all(new, old)
}
