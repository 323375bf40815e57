//! Names of a definition: its own, its group, and those of its resource and kind.

use serde_json::Value;

use super::{list, text};
use crate::model::cause::{Cause, Causes};
use crate::model::labels::SUBDOMAIN_RULE;
use crate::model::rules::checks::{LABEL_1035_RULE, NameFormat, required};

const MAX_LABEL_BYTES: usize = 63;
const MAX_SUBDOMAIN_BYTES: usize = 253;

/// Returns the problems of a DNS label (RFC 1035), separated by commas; `None` if it is valid.
pub(super) fn label_problem(label: &str) -> Option<String> {
    let long = (label.len() > MAX_LABEL_BYTES).then_some("must be no more than 63 characters");
    let short: String = label.chars().take(MAX_LABEL_BYTES).collect();
    let is_valid = NameFormat::Label1035.is_valid(&short) && !(long.is_some() && label.ends_with('-'));
    let problems: Vec<&str> = long.into_iter().chain((!is_valid).then_some(LABEL_1035_RULE)).collect();
    (!problems.is_empty()).then(|| problems.join(","))
}

pub(super) fn check_object_name(definition: &Value, causes: &mut Causes) {
    let (name, spec) = (text(&definition["metadata"], "name"), &definition["spec"]);
    if name != format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group")) {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &format!("{name:?}"), why));
    }
}

pub(super) fn check_group(spec: &Value, causes: &mut Causes) {
    let group = text(spec, "group");
    let why = if group.is_empty() {
        return causes.push(required(&"spec.group", ""));
    } else if group.len() > MAX_SUBDOMAIN_BYTES {
        "must be no more than 253 characters"
    } else if !NameFormat::Subdomain.is_valid(group) {
        SUBDOMAIN_RULE
    } else if !group.contains('.') {
        "should be a domain with at least one dot"
    } else {
        return;
    };
    causes.push(Cause::invalid("spec.group", &format!("{group:?}"), why));
}

pub(super) fn check(spec: &Value, causes: &mut Causes) {
    let names = &spec["names"];
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(names, name).is_empty() {
            causes.push(required(&format!("spec.names.{name}"), ""));
        }
    }
    let mut check = |field: &str, label: &str, compared: &str, before: &str| {
        if let Some(why) = label_problem(compared).filter(|_| !label.is_empty()) {
            let field = format!("spec.names.{field}");
            causes.push(Cause::invalid(&field, &format!("{label:?}"), &format!("{before}{why}")));
        }
    };
    for name in ["plural", "singular"] {
        check(name, text(names, name), text(names, name), "");
    }
    for name in ["kind", "listKind"] {
        let label = text(names, name);
        check(name, label, &label.to_lowercase(), "may have mixed case, but should otherwise match: ");
    }
    let entries = |name: &'static str| {
        let entries = list(names, name).iter().enumerate();
        entries.map(move |(index, one)| (format!("{name}[{index}]"), one.as_str().unwrap_or_default()))
    };
    let mut check_entry = |(field, label): (String, &str)| {
        if let Some(why) = label_problem(label) {
            causes.push(Cause::invalid(&format!("spec.names.{field}"), &format!("{label:?}"), &why));
        }
    };
    entries("shortNames").for_each(&mut check_entry);
    let kind = text(names, "kind");
    let is_ambiguous = !kind.is_empty() && kind == text(names, "listKind");
    let ambiguous = is_ambiguous.then(|| {
        let why = "kind and listKind may not be the same";
        Cause::invalid("spec.names.listKind", &format!("{kind:?}"), why)
    });
    let mut categories = Vec::new();
    for (field, label) in entries("categories") {
        if let Some(why) = label_problem(label) {
            categories.push(Cause::invalid(&format!("spec.names.{field}"), &format!("{label:?}"), &why));
        }
    }
    causes.extend(ambiguous.into_iter().chain(categories));
}
