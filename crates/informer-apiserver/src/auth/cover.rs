//! RBAC rule cover: compares rules, split into their smallest parts, with the rules that a user holds.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::Rule;

/// The smallest part of a rule: one verb on one resource or path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part<'a> {
    verb: &'a str,
    on: Target<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target<'a> {
    /// Without a name: all objects.
    Resource {
        group: &'a str,
        resource: &'a str,
        name: Option<&'a str>,
    },
    Path(&'a str),
}

/// Returns the parts of `wanted` that `held` does not cover, formatted for the error message and sorted.
/// Verbs on the same resource are
/// combined.
pub(super) fn missing(held: &[Rule], wanted: &[Rule]) -> BTreeSet<String> {
    let mut told = BTreeSet::new();
    let mut verbs: BTreeMap<Target<'_>, Vec<&str>> = BTreeMap::new();
    let parts = wanted.iter().flat_map(parts);
    for part in parts.filter(|part| !held.iter().any(|rule| rule.covers(part))) {
        match part.on {
            Target::Resource { .. } => verbs.entry(part.on).or_default().push(part.verb),
            Target::Path(_) => drop(told.insert(part.on.told(&[part.verb]))),
        }
    }
    told.extend(verbs.into_iter().map(|(on, verbs)| on.told(&verbs)));
    told
}

fn parts(rule: &Rule) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let names: Vec<Option<&str>> = match rule.names.is_empty() {
        true => vec![None],
        false => rule.names.iter().map(|name| Some(name.as_str())).collect(),
    };
    for (group, resource) in
        rule.groups.iter().flat_map(|group| rule.resources.iter().map(move |one| (group, one)))
    {
        for verb in &rule.verbs {
            parts.extend(
                names.iter().map(|name| Part { verb, on: Target::Resource { group, resource, name: *name } }),
            );
        }
    }
    for path in &rule.paths {
        parts.extend(rule.verbs.iter().map(|verb| Part { verb, on: Target::Path(path) }));
    }
    parts
}

impl Rule {
    /// Returns true if the rule grants a part.
    fn covers(&self, part: &Part<'_>) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        has(&self.verbs, part.verb)
            && match part.on {
                Target::Resource { group, resource, name } => {
                    let sub = resource.split_once('/').map(|(_, sub)| sub);
                    let of_any = |own: &String| sub.is_some() && own.strip_prefix("*/") == sub;
                    let named = |name: &str| self.names.iter().any(|own| own == name);
                    has(&self.groups, group)
                        && (has(&self.resources, resource) || self.resources.iter().any(of_any))
                        && (self.names.is_empty() || name.is_some_and(named))
                }
                Target::Path(path) => {
                    self.names.is_empty() && self.paths.iter().any(|own| covers_path(own, path))
                }
            }
    }
}

/// Compares paths as strings, as kube-apiserver does: `/a*` covers `/a/*`, and `/a/*` does not cover `/a`.
fn covers_path(own: &str, path: &str) -> bool {
    own == path || own.ends_with('*') && path.starts_with(own.trim_end_matches('*'))
}

impl Target<'_> {
    fn told(&self, verbs: &[&str]) -> String {
        let list = |texts: &[&str]| {
            let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
            format!("[{}]", quoted.join(" "))
        };
        let on = match self {
            Self::Resource { group, resource, name } => {
                let named = name.map_or(String::new(), |name| format!(", ResourceNames:{}", list(&[name])));
                format!("APIGroups:{}, Resources:{}{named}", list(&[group]), list(&[resource]))
            }
            Self::Path(path) => format!("NonResourceURLs:{}", list(&[path])),
        };
        format!("{{{on}, Verbs:{}}}", list(verbs))
    }
}
