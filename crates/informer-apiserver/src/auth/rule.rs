use serde_json::{Value, json};

use super::AuthorizationAttributes;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PolicyRule {
    pub(super) verbs: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) names: Vec<String>,
    pub(super) paths: Vec<String>,
}

impl PolicyRule {
    pub(super) fn all_of(role: &Value) -> Vec<Self> {
        role["rules"].as_array().into_iter().flatten().map(Self::read).collect()
    }

    /// Returns the rules of cluster-admin.
    pub(super) fn everything() -> [Self; 2] {
        let all = ["*"];
        [
            json!({"verbs": all, "apiGroups": all, "resources": all}),
            json!({"verbs": all, "nonResourceURLs": all}),
        ]
        .map(|rule| Self::read(&rule))
    }

    pub(super) fn read(rule: &Value) -> Self {
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

    /// Returns the RBAC rule as JSON for the status of a SelfSubjectRulesReview.
    pub(super) fn shown(&self) -> Value {
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

    pub(super) fn allows(&self, attributes: &AuthorizationAttributes) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        if !has(&self.verbs, &attributes.verb) {
            return false;
        }
        if attributes.resource.is_empty() {
            let path = |own: &String| match own.strip_suffix('*') {
                Some(prefix) => attributes.path.starts_with(prefix),
                None => *own == attributes.path,
            };
            return self.paths.iter().any(path);
        }
        let resource = |own: &String| {
            let of_any =
                |sub| attributes.resource.split_once('/').is_some_and(|(_, attributes)| attributes == sub);
            *own == "*" || *own == attributes.resource || own.strip_prefix("*/").is_some_and(of_any)
        };
        has(&self.groups, &attributes.group)
            && self.resources.iter().any(resource)
            && (self.names.is_empty() || self.names.contains(&attributes.name))
    }
}
