//! The names of a project and of its kinds, and the validation of these names.

#[cfg(test)]
mod tests;

use crate::failure::Failure;

/// The maximum length of a project's name. The names of Services consist of this name and a suffix, and have
/// at most 63 characters.
const MAX_PROJECT: usize = 47;
/// The maximum length of a kind's name. In lower case, it is part of resource names, such as the plural.
const MAX_KIND: usize = 63;
/// The maximum length of an API group. The name of a CRD consists of a plural and the group, and has at most
/// 253 characters.
const MAX_GROUP: usize = 180;

/// Names that a project must not have: those of crates that it depends on, and of crates of the standard
/// library.
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

/// Names that a kind must not have: types that the generated code uses by their short names, files of its
/// tests, and words that YAML does not read as strings.
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

/// The keywords of Rust, which cannot be the names of modules.
const KEYWORDS: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

/// Validates the name of a project, which is also the name of its crate and the prefix of the names of its
/// objects.
pub(super) fn check_project(name: &str) -> Result<(), Failure> {
    let failed = |problem: &str, remedy: &str| {
        Err(Failure::new(format!("create project {name}: {problem}; {remedy}")))
    };
    if !is_dns_label(name) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        let remedy = "use lower-case letters, digits and dashes, such as website-operator";
        return failed("the name is not a DNS-1035 label", remedy);
    }
    if name.len() > MAX_PROJECT {
        return failed(&format!("the name has more than {MAX_PROJECT} characters"), "choose a shorter one");
    }
    if CRATES.contains(&name) || KEYWORDS.contains(&name) {
        return failed(
            "the name is a keyword of Rust, or a crate that the project uses",
            "choose another one",
        );
    }
    Ok(())
}

/// Validates the name of a controller, and returns the name of its Rust module.
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

/// The names of a custom kind of a project, from which the templates are rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    /// The name of the kind in upper camel case, such as `HTTPRoute`.
    pub(super) kind: String,
    /// The name of the kind in snake case, such as `http_route`, which is the name of its Rust module and of
    /// its controller.
    pub(super) module: String,
    /// The singular of the resource: the name of the kind in lower case.
    pub(super) singular: String,
    /// The plural of the resource, as in URLs, such as `httproutes`.
    pub(super) plural: String,
    /// The API group of the kind.
    pub(super) group: String,
    /// The API group with dashes, as it is part of the URL path of the kind's webhook.
    pub(super) group_dashed: String,
    /// The API version, such as `v1`.
    pub(super) version: String,
    /// True if objects of the kind belong to a namespace; false if the kind is cluster-scoped.
    pub(super) namespaced: bool,
}

impl Kind {
    /// Validates the names of a custom kind and derives the others from them. Without `plural`, the resource
    /// has the regular English plural.
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
        let letters = kind.chars().all(|c| c.is_ascii_alphanumeric()) && kind.len() <= MAX_KIND;
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
        if labels < 2 || labels != group.split('.').count() || group.len() > MAX_GROUP {
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

/// Returns true if a string is a DNS-1123 label: at most 63 lower-case letters, digits and dashes, without a
/// dash at either end.
fn is_dns_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty()
        && text.len() <= 63
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Returns true if a string is an API version, such as `v1` or `v1beta1`.
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

/// Converts the name of a kind from upper camel case to snake case: `HTTPRoute` becomes `http_route`.
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

/// Returns the regular English plural of a kind's name in lower case.
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
