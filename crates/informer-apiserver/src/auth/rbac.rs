//! Roles and bindings, compiled from what is stored, and what they allow.

use std::sync::Arc;

use informer_core::Gvr;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use super::Attributes;
use super::rule::Rule;
use crate::auth::Auth;
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::model::kinds::Kind;
#[cfg(feature = "cel")]
use crate::model::user::MASTERS;
use crate::model::user::User;

/// The compiled policy, made anew once a role or binding has changed.
#[derive(Debug, Default)]
pub(crate) struct PolicyCache(Mutex<Option<Compiled>>);

#[derive(Debug)]
struct Compiled {
    policy: Arc<Policy>,
    /// Told when one of the kinds changes that it was made from.
    changes: Vec<watch::Receiver<()>>,
}

#[derive(Debug, Default)]
struct Policy {
    grants: Vec<Grant>,
}

/// One binding with the rules of its role.
#[derive(Debug)]
struct Grant {
    /// `None` for a binding that holds everywhere.
    namespace: Option<String>,
    /// As reasons name it: `RoleBinding "readers/default" of Role "reader"`.
    title: String,
    subjects: Vec<Subject>,
    rules: Result<Vec<Rule>, MissingRole>,
}

/// A role that a binding refers to, and that is not there.
#[derive(Debug, Clone)]
pub(super) struct MissingRole {
    /// `role` or `clusterrole`.
    word: &'static str,
    pub(super) name: String,
}

/// What a user has in a namespace.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) rules: Vec<Rule>,
    /// The roles that would say more.
    pub(super) missing: Vec<MissingRole>,
}

#[derive(Debug)]
enum Subject {
    User(String),
    Group(String),
}

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// What users may do, as it is at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Permissions {
    /// `None` where nobody asks.
    #[cfg_attr(not(feature = "cel"), expect(dead_code, reason = "only expressions ask"))]
    policy: Option<Arc<Policy>>,
}

impl Permissions {
    /// Why a user may do something, or may not.
    #[cfg(feature = "cel")]
    pub(crate) fn allows(&self, user: &User, attributes: &Attributes) -> Result<String, String> {
        match &self.policy {
            Some(policy) if !user.groups.iter().any(|group| group == MASTERS) => {
                policy.decides(user, attributes)
            }
            _ => Ok(String::new()),
        }
    }
}

impl Auth {
    /// What users may do now.
    pub(crate) fn permissions(&self) -> Permissions {
        Permissions { policy: self.access.rbac.then(|| self.policy()) }
    }

    /// Refuses what a user may not do.
    pub(crate) fn authorize(&self, user: &User, attributes: &Attributes) -> Result<(), ApiError> {
        self.allows(user, attributes).map(drop).map_err(|why| attributes.refusal(user, &why))
    }

    /// Refuses what a user may not create. For updates and applies that find nothing: whoever may do those may not create for that.
    pub(crate) fn authorize_creation(
        &self,
        user: &User,
        kind: &Kind,
        (namespace, name): (Option<&str>, &str),
    ) -> Result<(), ApiError> {
        if !self.access.judges(user) {
            return Ok(());
        }
        let attributes = Attributes {
            verb: "create".to_owned(),
            group: kind.gvr.group.to_string(),
            resource: kind.gvr.resource.to_string(),
            // Requests about a namespace are in that namespace.
            namespace: namespace.unwrap_or(if kind.is("", "Namespace") { name } else { "" }).to_owned(),
            name: name.to_owned(),
            path: String::new(),
        };
        // Told by the storage, and not at the door: so without the header of refusals there.
        self.authorize(user, &attributes).map_err(|mut refused| {
            refused.unauthorized = false;
            refused
        })
    }

    /// Why a user may do something, or may not; mostly there is nothing to say of the latter.
    pub(super) fn allows(&self, user: &User, attributes: &Attributes) -> Result<String, String> {
        if !self.access.judges(user) {
            return Ok(String::new());
        }
        self.policy().decides(user, attributes)
    }

    /// What a user has in a namespace, or everywhere where that is empty.
    pub(super) fn held(&self, user: &User, namespace: &str) -> Held {
        match self.access.judges(user) {
            true => self.policy().held(user, namespace),
            false => Held { rules: Rule::everything().into(), missing: Vec::new() },
        }
    }

    fn policy(&self) -> Arc<Policy> {
        let mut cache = self.policy.0.lock();
        let fresh =
            |compiled: &Compiled| compiled.changes.iter().all(|change| !change.has_changed().unwrap_or(true));
        if let Some(compiled) = cache.as_ref().filter(|compiled| fresh(compiled)) {
            return Arc::clone(&compiled.policy);
        }
        let compiled = self.compile();
        let policy = Arc::clone(&compiled.policy);
        *cache = Some(compiled);
        policy
    }

    fn compile(&self) -> Compiled {
        let resource = |name: &str| self.resource(&Gvr::new(GROUP, "v1", name)).ok();
        let names = ["roles", "clusterroles", "rolebindings", "clusterrolebindings"];
        let [roles, cluster_roles, bindings, cluster_bindings] = names.map(resource);
        let all = [&roles, &cluster_roles, &bindings, &cluster_bindings];
        // Subscribed before the objects are read, so that no change falls between.
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
            Ok(Rule::all_of(&parse(stored.as_slice())))
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
        Compiled { policy: Arc::new(Policy { grants }), changes }
    }
}

impl Policy {
    /// Why a user may do something, or may not.
    fn decides(&self, user: &User, attributes: &Attributes) -> Result<String, String> {
        self.allows(user, attributes).ok_or_else(|| {
            let missing = self.held(user, &attributes.namespace).missing;
            told(&missing).map_or(String::new(), |told| format!("RBAC: {told}"))
        })
    }

    fn allows(&self, user: &User, attributes: &Attributes) -> Option<String> {
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

    fn held(&self, user: &User, namespace: &str) -> Held {
        let mut held = Held::default();
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

/// How those who decide tell of the roles that are not there; `None` where all are.
pub(super) fn told(missing: &[MissingRole]) -> Option<String> {
    all_told(missing.iter().map(|role| format!("{}.{GROUP} {:?} not found", role.word, role.name)))
}

/// Several errors in one, each told once.
pub(super) fn all_told(errors: impl Iterator<Item = String>) -> Option<String> {
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
        rules: Result<Vec<Rule>, MissingRole>,
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
