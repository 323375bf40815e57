//! RBAC: compiles the stored roles and bindings, and authorizes requests with the result.

use std::sync::Arc;

use informer_core::Gvr;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use super::AuthorizationAttributes;
use super::rule::PolicyRule;
use crate::auth::Auth;
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::model::kinds::KindDefinition;
#[cfg(feature = "cel")]
use crate::model::user::MASTERS;
use crate::model::user::User;

/// The compiled roles and bindings. They are compiled again when a role or binding has changed.
#[derive(Debug, Default)]
pub(crate) struct PolicyCache(Mutex<Option<CachedRbacPolicy>>);

#[derive(Debug)]
struct CachedRbacPolicy {
    policy: Arc<RbacPolicy>,
    /// Receivers that are notified when a role or binding is written. `policy` is then stale.
    changes: Vec<watch::Receiver<()>>,
}

#[derive(Debug, Default)]
struct RbacPolicy {
    grants: Vec<Grant>,
}

#[derive(Debug)]
struct Grant {
    /// The namespace of a RoleBinding; `None` for a ClusterRoleBinding.
    namespace: Option<String>,
    /// The name of the binding in the reason of a decision: `RoleBinding "readers/default" of Role "reader"`.
    title: String,
    subjects: Vec<Subject>,
    rules: Result<Vec<PolicyRule>, MissingRole>,
}

#[derive(Debug, Clone)]
pub(super) struct MissingRole {
    /// The kind of the missing role in error messages: `role` or `clusterrole`.
    word: &'static str,
    pub(super) name: String,
}

#[derive(Debug, Default)]
pub(super) struct HeldRules {
    pub(super) rules: Vec<PolicyRule>,
    pub(super) missing: Vec<MissingRole>,
}

#[derive(Debug)]
enum Subject {
    User(String),
    Group(String),
}

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// A snapshot of the RBAC permissions of all users.
#[derive(Debug, Clone)]
pub(crate) struct Permissions {
    /// `None` if RBAC is disabled.
    #[cfg_attr(not(feature = "cel"), expect(dead_code, reason = "only CEL expressions read it"))]
    policy: Option<Arc<RbacPolicy>>,
}

impl Permissions {
    /// Authorizes a request. Returns the reason of the decision: `Ok` if the request is allowed, `Err` if it
    /// is denied.
    #[cfg(feature = "cel")]
    pub(crate) fn allows(&self, user: &User, attributes: &AuthorizationAttributes) -> Result<String, String> {
        match &self.policy {
            Some(policy) if !user.groups.iter().any(|group| group == MASTERS) => {
                policy.decide(user, attributes)
            }
            _ => Ok(String::new()),
        }
    }
}

impl Auth {
    pub(crate) fn permissions(&self) -> Permissions {
        Permissions { policy: self.access.rbac.then(|| self.policy()) }
    }

    pub(crate) fn authorize(
        &self,
        user: &User,
        attributes: &AuthorizationAttributes,
    ) -> Result<(), ApiError> {
        self.allows(user, attributes).map(drop).map_err(|why| attributes.refusal(user, &why))
    }

    /// Authorizes the creation of an object by an update or apply request. The permission to update or patch
    /// does not include the permission to create.
    pub(crate) fn authorize_creation(
        &self,
        user: &User,
        kind: &KindDefinition,
        (namespace, name): (Option<&str>, &str),
    ) -> Result<(), ApiError> {
        if !self.access.enforces_rbac_for(user) {
            return Ok(());
        }
        let attributes = AuthorizationAttributes {
            verb: "create".to_owned(),
            group: kind.gvr.group.to_string(),
            resource: kind.gvr.resource.to_string(),
            // The creation of a Namespace is authorized in the namespace of that name.
            namespace: namespace.unwrap_or(if kind.is("", "Namespace") { name } else { "" }).to_owned(),
            name: name.to_owned(),
            path: String::new(),
        };
        // In kube-apiserver, the storage layer returns the 403 error for a missing `create` permission. Only
        // its authorization filter adds `X-Content-Type-Options: nosniff`, so this response lacks the header.
        self.authorize(user, &attributes).map_err(|mut refused| {
            refused.unauthorized = false;
            refused
        })
    }

    /// Authorizes a request. Returns the reason of the decision, which is empty for most denied requests.
    pub(crate) fn allows(&self, user: &User, attributes: &AuthorizationAttributes) -> Result<String, String> {
        if !self.access.enforces_rbac_for(user) {
            return Ok(String::new());
        }
        self.policy().decide(user, attributes)
    }

    /// Returns the RBAC rules that apply to a user in a namespace. If `namespace` is empty, these are only
    /// the rules that apply to the whole cluster.
    pub(super) fn held(&self, user: &User, namespace: &str) -> HeldRules {
        if self.access.enforces_rbac_for(user) {
            self.policy().held(user, namespace)
        } else {
            HeldRules { rules: PolicyRule::everything().into(), missing: Vec::new() }
        }
    }

    fn policy(&self) -> Arc<RbacPolicy> {
        let mut cache = self.policy.0.lock();
        let fresh = |compiled: &CachedRbacPolicy| {
            compiled.changes.iter().all(|change| !change.has_changed().unwrap_or(true))
        };
        if let Some(compiled) = cache.as_ref().filter(|compiled| fresh(compiled)) {
            return Arc::clone(&compiled.policy);
        }
        let compiled = self.compile();
        let policy = Arc::clone(&compiled.policy);
        *cache = Some(compiled);
        policy
    }

    fn compile(&self) -> CachedRbacPolicy {
        let resource = |name: &str| self.resource(&Gvr::new(GROUP, "v1", name)).ok();
        let names = ["roles", "clusterroles", "rolebindings", "clusterrolebindings"];
        let [roles, cluster_roles, bindings, cluster_bindings] = names.map(resource);
        let all = [&roles, &cluster_roles, &bindings, &cluster_bindings];
        // Subscribe to changes of roles and bindings before reading them, so that no change is missed.
        let changes =
            all.iter().filter_map(|resource| Some(resource.as_ref()?.changed.subscribe())).collect();
        let role = |namespace: Option<&str>, role_ref: &Value| {
            let name = role_ref["name"].as_str().unwrap_or_default();
            let (word, resource, namespace) = match role_ref["kind"].as_str() {
                Some("Role") => ("role", &roles, namespace.map(Some)),
                _ => ("clusterrole", &cluster_roles, Some(None)),
            };
            let stored = resource
                .as_ref()
                .zip(namespace)
                .and_then(|(resource, namespace)| self.find(resource, namespace, name).ok());
            let stored = stored.ok_or_else(|| MissingRole { word, name: name.to_owned() })?;
            Ok(PolicyRule::all_of(&parse(stored.as_slice())))
        };
        let mut grants = Vec::new();
        for resource in [&cluster_bindings, &bindings].into_iter().flatten() {
            let live = self.storage.read().live(resource.table);
            for stored in live.iter() {
                let binding = parse(stored.as_slice());
                let namespace = stored.key.namespace();
                let rules = role(namespace, &binding["roleRef"]);
                grants.push(Grant::read(namespace, stored.key.name(), &binding, rules));
            }
        }
        CachedRbacPolicy { policy: Arc::new(RbacPolicy { grants }), changes }
    }
}

impl RbacPolicy {
    fn decide(&self, user: &User, attributes: &AuthorizationAttributes) -> Result<String, String> {
        self.allows(user, attributes).ok_or_else(|| {
            let missing = self.held(user, &attributes.namespace).missing;
            missing_roles_error(&missing).map_or(String::new(), |error| format!("RBAC: {error}"))
        })
    }

    fn allows(&self, user: &User, attributes: &AuthorizationAttributes) -> Option<String> {
        self.grants.iter().find_map(|grant| {
            let here = grant.namespace.as_deref().is_none_or(|own| own == attributes.namespace);
            let here = here && (grant.namespace.is_none() || !attributes.resource.is_empty());
            let rules = grant.rules.as_deref().unwrap_or_default();
            if !here || !rules.iter().any(|rule| rule.allows(attributes)) {
                return None;
            }
            Some(format!("RBAC: allowed by {} to {}", grant.title, grant.subject_of(user)?))
        })
    }

    fn held(&self, user: &User, namespace: &str) -> HeldRules {
        let mut held = HeldRules::default();
        let here = |grant: &&Grant| grant.namespace.as_deref().is_none_or(|own| own == namespace);
        for grant in self.grants.iter().filter(here).filter(|grant| grant.subject_of(user).is_some()) {
            match &grant.rules {
                Ok(rules) => held.rules.extend(rules.iter().cloned()),
                Err(missing) => held.missing.push(missing.clone()),
            }
        }
        held
    }
}

pub(super) fn missing_roles_error(missing: &[MissingRole]) -> Option<String> {
    join_errors(missing.iter().map(|role| format!("{}.{GROUP} {:?} not found", role.word, role.name)))
}

/// Combines the error messages into one without duplicates, or returns `None` if there are none.
pub(super) fn join_errors(errors: impl Iterator<Item = String>) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for error in errors {
        if !all.contains(&error) {
            all.push(error);
        }
    }
    match all.len() {
        0 => None,
        1 => all.pop(),
        _ => Some(format!("[{}]", all.join(", "))),
    }
}

impl Grant {
    fn read(
        namespace: Option<&str>,
        name: &str,
        binding: &Value,
        rules: Result<Vec<PolicyRule>, MissingRole>,
    ) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let subjects = binding["subjects"].as_array().into_iter().flatten().map(|subject| {
            let name = text(&subject["name"]);
            match subject["kind"].as_str() {
                Some("Group") => Subject::Group(name),
                Some("ServiceAccount") => {
                    let own = subject["namespace"].as_str().or(namespace).unwrap_or_default();
                    Subject::User(format!("system:serviceaccount:{own}:{name}"))
                }
                _ => Subject::User(name),
            }
        });
        let (kind, title) = match namespace {
            Some(namespace) => ("RoleBinding", format!("{name}/{namespace}")),
            None => ("ClusterRoleBinding", name.to_owned()),
        };
        let (role_kind, role) = (text(&binding["roleRef"]["kind"]), text(&binding["roleRef"]["name"]));
        Self {
            namespace: namespace.map(str::to_owned),
            title: format!("{kind} {title:?} of {role_kind} {role:?}"),
            subjects: subjects.collect(),
            rules,
        }
    }

    fn subject_of(&self, user: &User) -> Option<String> {
        self.subjects.iter().find_map(|subject| match subject {
            Subject::User(name) if *name == user.name => {
                match name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':')) {
                    Some((namespace, name)) => {
                        Some(format!("ServiceAccount {:?}", format!("{name}/{namespace}")))
                    }
                    None => Some(format!("User {name:?}")),
                }
            }
            Subject::Group(name) if user.groups.contains(name) => Some(format!("Group {name:?}")),
            _ => None,
        })
    }
}
