//! The names of a project and of its kinds, and their validation.

#[cfg(test)]
mod tests;

use crate::failure::Failure;

/// The longest name of a project: with the suffixes of the manifests it is still a valid name of a Service.
const PROJECT_MAX: usize = 47;
/// The longest name of a kind, which in lower case is part of resource names.
const KIND_MAX: usize = 63;
/// The longest API group: with a plural it is still a valid name of a CRD.
const GROUP_MAX: usize = 180;

/// Crates that a project depends on, and crates of the standard library.
const CRATES: [&str; 15] = [
    "alloc",
    "clap",
    "core",
    "informer",
    "proc-macro",
    "schemars",
    "serde",
    "serde-json",
    "serde-norway",
    "std",
    "test",
    "tests",
    "tokio",
    "tracing",
    "tracing-subscriber",
];

/// Types that the generated code uses by their short names, files of its tests, and words that YAML reads as
/// another type.
const RESERVED_KINDS: [&str; 43] = [
    "AdmissionOperation",
    "AdmissionRequest",
    "Allowed",
    "Client",
    "Clone",
    "Cluster",
    "Context",
    "Controller",
    "CustomResource",
    "Debug",
    "Default",
    "Denied",
    "Deployment",
    "Deserialize",
    "Duration",
    "Err",
    "Event",
    "EventHandler",
    "HandlerOptions",
    "JsonSchema",
    "LeaderElection",
    "Lister",
    "Manager",
    "Manifests",
    "No",
    "None",
    "Null",
    "Object",
    "ObjectKey",
    "Off",
    "Ok",
    "On",
    "Option",
    "Outcome",
    "ReconcileError",
    "Request",
    "Resource",
    "ResourceExt",
    "Result",
    "Serialize",
    "Some",
    "String",
    "Yes",
];

/// Words that are no module names.
const KEYWORDS: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

/// Checks the name of a project, which is also the name of a crate and the prefix of resource names.
pub(super) fn check_project(name: &str) -> Result<(), Failure> {
    let failed = |problem: &str, remedy: &str| {
        Err(Failure::new(format!("create project {name}: {problem}; {remedy}")))
    };
    if !is_dns_label(name) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        let remedy = "use lower-case letters, digits and dashes, such as website-operator";
        return failed("the name is not a DNS-1035 label", remedy);
    }
    if name.len() > PROJECT_MAX {
        return failed(&format!("the name has more than {PROJECT_MAX} characters"), "choose a shorter one");
    }
    if CRATES.contains(&name) || KEYWORDS.contains(&name) {
        return failed(
            "the name is a keyword of Rust, or a crate that the project uses",
            "choose another one",
        );
    }
    Ok(())
}

/// Checks the name of a controller, and returns the name of its module.
pub(super) fn check_controller(name: &str) -> Result<String, Failure> {
    let module = name.replace('-', "_");
    let is_valid = is_dns_label(name)
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !KEYWORDS.contains(&module.as_str());
    if is_valid {
        Ok(module)
    } else {
        Err(Failure::new(format!(
            "add controller {name}: the name is not a DNS-1035 label, or is a keyword of Rust; use \
             lower-case letters, digits and dashes, such as audit"
        )))
    }
}

/// A custom kind and all its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    /// The kind, in upper camel case.
    pub(super) kind: String,
    /// The kind in snake case: the module, and the name of the controller.
    pub(super) module: String,
    /// The kind in lower case.
    pub(super) singular: String,
    /// The name of the resource.
    pub(super) plural: String,
    /// The API group.
    pub(super) group: String,
    /// The group as it is part of a webhook's path.
    pub(super) group_dashed: String,
    /// The version.
    pub(super) version: String,
    /// False if objects of the kind belong to no namespace.
    pub(super) namespaced: bool,
}

impl Kind {
    /// Validates the names of a kind.
    pub(super) fn new(
        kind: &str,
        group: &str,
        version: &str,
        plural: Option<&str>,
        namespaced: bool,
    ) -> Result<Self, Failure> {
        let failed = |problem: &str, remedy: &str| {
            Err(Failure::new(format!("define kind {kind}: {problem}; {remedy}")))
        };
        let letters = kind.chars().all(|c| c.is_ascii_alphanumeric()) && kind.len() <= KIND_MAX;
        if !letters || !kind.starts_with(|first: char| first.is_ascii_uppercase()) {
            return failed("the name is not in upper camel case", "use letters and digits, such as Website");
        }
        let module = snake_case(kind);
        if RESERVED_KINDS.contains(&kind) || KEYWORDS.contains(&module.as_str()) {
            return failed("the name has another meaning in the generated files", "choose another one");
        }
        let singular = kind.to_ascii_lowercase();
        let plural = plural.map_or_else(|| plural_of(&singular), str::to_owned);
        if !is_dns_label(&plural) || !plural.starts_with(|first: char| first.is_ascii_lowercase()) {
            let problem = format!("the plural {plural} is not a DNS-1035 label");
            return failed(&problem, "use lower-case letters, digits and dashes");
        }
        let labels = group.split('.').filter(|label| is_dns_label(label)).count();
        if labels < 2 || labels != group.split('.').count() || group.len() > GROUP_MAX {
            let problem = format!("the group {group} is not a domain name");
            return failed(&problem, "use a domain that you own, such as shop.example.com");
        }
        if ["k8s.io", "kubernetes.io"]
            .iter()
            .any(|owned| group == *owned || group.ends_with(&format!(".{owned}")))
        {
            let problem = format!("the group {group} is protected by Kubernetes");
            return failed(&problem, "use a domain that you own, such as shop.example.com");
        }
        if !is_version(version) {
            let problem = format!("{version} is not a version of an API");
            return failed(&problem, "use one such as v1, v1beta1 or v2alpha3");
        }
        Ok(Self {
            kind: kind.to_owned(),
            module,
            singular,
            plural,
            group: group.to_owned(),
            group_dashed: group.replace('.', "-"),
            version: version.to_owned(),
            namespaced,
        })
    }
}

/// Returns true for a DNS-1123 label.
fn is_dns_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty()
        && text.len() <= 63
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Returns true for `v1`, `v1beta1` and the like.
fn is_version(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('v') else { return false };
    let is_number = |part: &str| {
        !part.starts_with('0')
            && !part.is_empty()
            && part.len() < 10
            && part.chars().all(|c| c.is_ascii_digit())
    };
    match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        Some((major, minor)) => is_number(major) && is_number(minor),
        None => is_number(rest),
    }
}

/// Returns `http_route` for `HTTPRoute`.
pub(super) fn snake_case(kind: &str) -> String {
    let letters: Vec<char> = kind.chars().collect();
    let mut name = String::new();
    for (index, letter) in letters.iter().enumerate() {
        let after_lower = index > 0 && !letters[index - 1].is_ascii_uppercase();
        let before_lower = letters.get(index + 1).is_some_and(char::is_ascii_lowercase);
        if letter.is_ascii_uppercase() && index > 0 && (after_lower || before_lower) {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Returns the regular English plural.
pub(super) fn plural_of(singular: &str) -> String {
    let consonant_y = singular.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match consonant_y {
        Some(stem) => format!("{stem}ies"),
        None if ["s", "x", "z", "ch", "sh"].iter().any(|end| singular.ends_with(end)) => {
            format!("{singular}es")
        }
        None => format!("{singular}s"),
    }
}
