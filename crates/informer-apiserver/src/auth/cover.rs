//! RBAC rule cover: splits rules into their smallest parts and compares these with the rules that a user has.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::PolicyRule;

/// The smallest part of an RBAC rule: one verb on one resource or path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RulePart<'a> {
    verb: &'a str,
    target: RuleTarget<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RuleTarget<'a> {
    /// A permission on objects of a resource; on all of them if there is no name.
    Resource {
        group: &'a str,
        resource: &'a str,
        name: Option<&'a str>,
    },
    Path(&'a str),
}

/// Returns the parts of the rules `wanted` that the rules `held` do not grant, sorted and formatted for the
/// error message. Verbs on the same resource are combined.
pub(super) fn missing(held: &[PolicyRule], wanted: &[PolicyRule]) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    let mut verbs: BTreeMap<RuleTarget<'_>, Vec<&str>> = BTreeMap::new();
    let parts = wanted.iter().flat_map(parts);
    for part in parts.filter(|part| !held.iter().any(|rule| rule.covers(part))) {
        match part.target {
            RuleTarget::Resource { .. } => verbs.entry(part.target).or_default().push(part.verb),
            RuleTarget::Path(_) => drop(lines.insert(part.target.message(&[part.verb]))),
        }
    }
    lines.extend(verbs.into_iter().map(|(target, verbs)| target.message(&verbs)));
    lines
}

fn parts(rule: &PolicyRule) -> Vec<RulePart<'_>> {
    let mut parts = Vec::new();
    let names: Vec<Option<&str>> = if rule.names.is_empty() {
        vec![None]
    } else {
        rule.names.iter().map(|name| Some(name.as_str())).collect()
    };
    for (group, resource) in
        rule.groups.iter().flat_map(|group| rule.resources.iter().map(move |one| (group, one)))
    {
        for verb in &rule.verbs {
            parts.extend(names.iter().map(|name| RulePart {
                verb,
                target: RuleTarget::Resource { group, resource, name: *name },
            }));
        }
    }
    for path in &rule.paths {
        parts.extend(rule.verbs.iter().map(|verb| RulePart { verb, target: RuleTarget::Path(path) }));
    }
    parts
}

impl PolicyRule {
    fn covers(&self, part: &RulePart<'_>) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        has(&self.verbs, part.verb)
            && match part.target {
                RuleTarget::Resource { group, resource, name } => {
                    let sub = resource.split_once('/').map(|(_, sub)| sub);
                    let of_any = |own: &String| sub.is_some() && own.strip_prefix("*/") == sub;
                    let named = |name: &str| self.names.iter().any(|own| own == name);
                    has(&self.groups, group)
                        && (has(&self.resources, resource) || self.resources.iter().any(of_any))
                        && (self.names.is_empty() || name.is_some_and(named))
                }
                RuleTarget::Path(path) => {
                    self.names.is_empty() && self.paths.iter().any(|own| covers_path(own, path))
                }
            }
    }
}

/// Compares non-resource paths as strings, as kube-apiserver does: the rule `/a*` covers `/a/*`, and `/a/*`
/// does not cover `/a`.
fn covers_path(own: &str, path: &str) -> bool {
    own == path || own.ends_with('*') && path.starts_with(own.trim_end_matches('*'))
}

impl RuleTarget<'_> {
    fn message(&self, verbs: &[&str]) -> String {
        let list = |texts: &[&str]| {
            let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
            format!("[{}]", quoted.join(" "))
        };
        let target = match self {
            Self::Resource { group, resource, name } => {
                let named = name.map_or(String::new(), |name| format!(", ResourceNames:{}", list(&[name])));
                format!("APIGroups:{}, Resources:{}{named}", list(&[group]), list(&[resource]))
            }
            Self::Path(path) => format!("NonResourceURLs:{}", list(&[path])),
        };
        format!("{{{target}, Verbs:{}}}", list(verbs))
    }
}
