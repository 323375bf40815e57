//! Roles and bindings, compiled from what is stored, and what they allow.

use std::sync::Arc;

use informer_core::Gvr;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Attributes, User};
use crate::error::ApiError;
use crate::kinds::Kind;
use crate::server::{Shared, parse};

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
    rules: Vec<Rule>,
}

#[derive(Debug)]
enum Subject {
    User(String),
    Group(String),
}

#[derive(Debug)]
struct Rule {
    verbs: Vec<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    paths: Vec<String>,
}

const GROUP: &str = "rbac.authorization.k8s.io";

impl Shared {
    /// Refuses what a user may not do.
    pub(crate) fn authorize(&self, user: &User, attributes: &Attributes) -> Result<(), ApiError> {
        match self.allows(user, attributes) {
            Some(_) => Ok(()),
            None => Err(attributes.refusal(user)),
        }
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

    /// Why a user may do something; `None` where they may not.
    pub(super) fn allows(&self, user: &User, attributes: &Attributes) -> Option<String> {
        if !self.access.judges(user) {
            return Some(String::new());
        }
        self.policy().allows(user, attributes)
    }

    /// The rules that hold for a user in a namespace, as a review shows them.
    pub(super) fn rules_of(&self, user: &User, namespace: &str) -> (Vec<Value>, Vec<Value>) {
        if !self.access.judges(user) {
            let all = ["*"];
            return (
                vec![json!({"verbs": all, "apiGroups": all, "resources": all})],
                vec![json!({"verbs": all, "nonResourceURLs": all})],
            );
        }
        let policy = self.policy();
        let holds = |grant: &&Grant| {
            grant.namespace.as_deref().is_none_or(|own| own == namespace) && grant.subject_of(user).is_some()
        };
        let rules = policy.grants.iter().filter(holds).flat_map(|grant| &grant.rules);
        let (resource, other): (Vec<&Rule>, Vec<&Rule>) = rules.partition(|rule| rule.paths.is_empty());
        (resource.into_iter().map(Rule::shown).collect(), other.into_iter().map(Rule::shown).collect())
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
        let role = |namespace: Option<&str>, role_ref: &Value| -> Option<Vec<Rule>> {
            let name = role_ref["name"].as_str()?;
            let (resource, namespace) = match role_ref["kind"].as_str()? {
                "Role" => (roles.as_ref()?, Some(namespace?)),
                _ => (cluster_roles.as_ref()?, None),
            };
            let stored = self.find(resource, namespace, name).ok()?;
            Some(parse(stored.as_slice())["rules"].as_array().into_iter().flatten().map(Rule::read).collect())
        };
        let mut grants = Vec::new();
        for resource in [&cluster_bindings, &bindings].into_iter().flatten() {
            let live = self.storage.read().live(resource.table);
            for stored in live.iter() {
                let binding = parse(stored.as_slice());
                let namespace = stored.key.namespace();
                let Some(rules) = role(namespace, &binding["roleRef"]) else { continue };
                grants.push(Grant::read(namespace, stored.key.name(), &binding, rules));
            }
        }
        Compiled { policy: Arc::new(Policy { grants }), changes }
    }
}

impl Policy {
    fn allows(&self, user: &User, attributes: &Attributes) -> Option<String> {
        self.grants.iter().find_map(|grant| {
            let here = grant.namespace.as_deref().is_none_or(|own| own == attributes.namespace);
            let here = here && (grant.namespace.is_none() || !attributes.resource.is_empty());
            if !here || !grant.rules.iter().any(|rule| rule.allows(attributes)) {
                return None;
            }
            Some(format!("RBAC: allowed by {} to {}", grant.title, grant.subject_of(user)?))
        })
    }
}

impl Grant {
    fn read(namespace: Option<&str>, name: &str, binding: &Value, rules: Vec<Rule>) -> Self {
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

impl Rule {
    fn read(rule: &Value) -> Self {
        let texts = |name: &str| -> Vec<String> {
            let list = rule[name].as_array().into_iter().flatten();
            list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        Self {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            paths: texts("nonResourceURLs"),
        }
    }

    fn shown(&self) -> Value {
        let mut shown = json!({"verbs": self.verbs});
        if self.paths.is_empty() {
            shown["apiGroups"] = self.groups.clone().into();
            shown["resources"] = self.resources.clone().into();
            if !self.names.is_empty() {
                shown["resourceNames"] = self.names.clone().into();
            }
        } else {
            shown["nonResourceURLs"] = self.paths.clone().into();
        }
        shown
    }

    fn allows(&self, asked: &Attributes) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        if !has(&self.verbs, &asked.verb) {
            return false;
        }
        if asked.resource.is_empty() {
            let path = |own: &String| match own.strip_suffix('*') {
                Some(prefix) => asked.path.starts_with(prefix),
                None => *own == asked.path,
            };
            return self.paths.iter().any(path);
        }
        let resource = |own: &String| {
            let of_any = |sub| asked.resource.split_once('/').is_some_and(|(_, asked)| asked == sub);
            *own == "*" || *own == asked.resource || own.strip_prefix("*/").is_some_and(of_any)
        };
        has(&self.groups, &asked.group)
            && self.resources.iter().any(resource)
            && (self.names.is_empty() || self.names.contains(&asked.name))
    }
}
