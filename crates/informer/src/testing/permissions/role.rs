//! The rules of RBAC roles, with their file names and line numbers for messages.

use std::fs;
use std::path::Path;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use k8s_openapi::serde::Deserialize;

use super::{Permission, PermissionsError, Target};

/// The rules of one or more roles, from a `ClusterRole` or a `Role`.
#[derive(Debug, Clone)]
pub struct RoleRules {
    pub(super) rules: Vec<GrantedRule>,
    /// The place that is reported for a missing permission if no rule has its API group: the name of the
    /// first role, or the file and the line of its key `rules`.
    place: String,
}

#[derive(Debug, Clone)]
pub(super) struct GrantedRule {
    pub(super) place: String,
    /// The namespace of the rule's Role; `None` for a rule of a ClusterRole.
    namespace: Option<String>,
    rule: PolicyRule,
}

/// The smallest part of an RBAC rule: one verb on one resource of one API group, for one object name or for
/// all names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grant<'a> {
    pub(super) rule: &'a GrantedRule,
    group: &'a str,
    resource: &'a str,
    verb: &'a str,
    pub(super) name: Option<&'a str>,
}

/// The part of a manifest that is decoded first, to learn its kind. Only roles are then decoded completely.
#[derive(Deserialize)]
#[serde(crate = "k8s_openapi::serde")]
struct Header {
    kind: Option<String>,
}

impl From<&ClusterRole> for RoleRules {
    fn from(role: &ClusterRole) -> Self {
        let place = format!("ClusterRole {}", role.metadata.name.as_deref().unwrap_or_default());
        Self::of(place, None, role.rules.as_deref().unwrap_or_default())
    }
}

impl From<&Role> for RoleRules {
    fn from(role: &Role) -> Self {
        let namespace = role.metadata.namespace.clone().unwrap_or_default();
        let place = format!("Role {namespace}/{}", role.metadata.name.as_deref().unwrap_or_default());
        Self::of(place, Some(namespace), role.rules.as_deref().unwrap_or_default())
    }
}

impl RoleRules {
    fn of(place: String, namespace: Option<String>, rules: &[PolicyRule]) -> Self {
        let rules = rules.iter().enumerate().map(|(index, rule)| GrantedRule {
            place: format!("{place}, rule {}", index + 1),
            namespace: namespace.clone(),
            rule: rule.clone(),
        });
        Self { rules: rules.collect(), place }
    }

    /// Reads the rules of all roles in a YAML file.
    pub(super) fn read(path: &Path) -> Result<Self, PermissionsError> {
        let text =
            fs::read_to_string(path).map_err(|error| PermissionsError::Read(path.to_owned(), error))?;
        let invalid = |error| PermissionsError::Parse(path.to_owned(), error);
        let name = path.display().to_string();
        Self::parse(&text, &name).map_err(invalid)?.ok_or_else(|| PermissionsError::NoRole(path.to_owned()))
    }

    /// Parses the rules of all roles in a YAML text. `file` is the name of the file for the places of the
    /// rules. Returns `None` if the text contains no role.
    pub(super) fn parse(text: &str, file: &str) -> Result<Option<Self>, serde_norway::Error> {
        let mut found: Option<Self> = None;
        for (first_line, document) in documents(text) {
            let mut role = match serde_norway::from_str::<Option<Header>>(&document)? {
                Some(Header { kind: Some(kind) }) if kind == "ClusterRole" => {
                    Self::from(&serde_norway::from_str::<ClusterRole>(&document)?)
                }
                Some(Header { kind: Some(kind) }) if kind == "Role" => {
                    Self::from(&serde_norway::from_str::<Role>(&document)?)
                }
                _ => continue,
            };
            let (key, lines) = rule_lines(&document);
            role.place = format!("{file}:{}", first_line + key);
            // The line of a rule in the file is known only if the rules are a YAML block list with one item
            // per rule. Otherwise the place of each rule is the line of the key `rules`.
            let is_usual = lines.len() == role.rules.len();
            for (index, rule) in role.rules.iter_mut().enumerate() {
                let line = lines.get(index).filter(|_| is_usual).unwrap_or(&key);
                rule.place = format!("{file}:{}", first_line + line);
            }
            match &mut found {
                Some(found) => found.rules.extend(role.rules),
                None => found = Some(role),
            }
        }
        Ok(found)
    }

    /// Returns the place at which a user should add a missing permission: the first rule for its API group
    /// and resource, or else the first rule for its API group. If there is none, returns the place of the
    /// first role.
    pub(super) fn nearest_place(&self, permission: &Permission) -> &str {
        let has =
            |list: &Option<Vec<String>>, wanted: &String| list.iter().flatten().any(|one| one == wanted);
        let of_group = |rule: &&GrantedRule| has(&rule.rule.api_groups, &permission.group);
        let of_resource = |rule: &&GrantedRule| has(&rule.rule.resources, &permission.resource);
        let exact = self.rules.iter().find(|rule| of_group(rule) && of_resource(rule));
        let nearest = exact.or_else(|| self.rules.iter().find(of_group));
        nearest.map_or(&self.place, |rule| &rule.place)
    }
}

impl GrantedRule {
    /// Splits the RBAC rule into grants: one for each combination of API group, resource, verb and object
    /// name. A rule for non-resource URLs has no grants.
    pub(super) fn grants(&self) -> impl Iterator<Item = Grant<'_>> {
        let PolicyRule { api_groups, resources, resource_names, verbs, .. } = &self.rule;
        let names: Vec<Option<&str>> = match resource_names.as_deref() {
            None | Some([]) => vec![None],
            Some(names) => names.iter().map(|name| Some(name.as_str())).collect(),
        };
        let mut grants = Vec::new();
        for group in api_groups.iter().flatten() {
            for resource in resources.iter().flatten() {
                for verb in verbs {
                    let named = |name| Grant { rule: self, group, resource, verb, name };
                    grants.extend(names.iter().copied().map(named));
                }
            }
        }
        grants.into_iter()
    }
}

impl Grant<'_> {
    pub(super) fn permission(&self) -> Permission {
        let Self { group, resource, verb, .. } = *self;
        Permission { group: group.to_owned(), resource: resource.to_owned(), verb: verb.to_owned() }
    }

    /// Returns true if this grant of an RBAC rule allows a request for `target` that needs the permission.
    pub(super) fn allows(&self, permission: &Permission, target: &Target) -> bool {
        let is = |own: &str, wanted: &str| own == "*" || own == wanted;
        let of_any = |suffix: &str| {
            permission.resource.split_once('/').is_some_and(|(_, subresource)| subresource == suffix)
        };
        is(self.verb, &permission.verb)
            && is(self.group, &permission.group)
            && (is(self.resource, &permission.resource)
                || self.resource.strip_prefix("*/").is_some_and(of_any))
            && (self.name.is_none() || self.name == target.name.as_deref())
            && (self.rule.namespace.is_none() || self.rule.namespace == target.namespace)
    }
}

/// Splits the text of a YAML file into documents. Returns each document with the number of lines before it,
/// from which line numbers in the file are computed.
fn documents(text: &str) -> Vec<(usize, String)> {
    let mut documents = vec![(0, String::new())];
    for (index, line) in text.lines().enumerate() {
        if line == "---" || line.starts_with("--- ") {
            documents.push((index + 1, String::new()));
        } else if let Some((_, document)) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    documents
}

/// Returns the line of the key `rules` in a role's YAML document, and the lines at which the items of the
/// list begin. Line numbers start at 1.
fn rule_lines(document: &str) -> (usize, Vec<usize>) {
    let key = document.lines().position(|line| line.starts_with("rules:"));
    let Some(key) = key else { return (1, Vec::new()) };
    let mut indent = None;
    let mut lines = Vec::new();
    for (index, line) in document.lines().enumerate().skip(key + 1) {
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let (column, is_item) = (line.len() - content.len(), content == "-" || content.starts_with("- "));
        match indent {
            None if is_item => indent = Some(column),
            None => break,
            Some(first) if column < first || (column == first && !is_item) => break,
            Some(_) => {}
        }
        if indent == Some(column) && is_item {
            lines.push(index + 1);
        }
    }
    (key + 1, lines)
}
