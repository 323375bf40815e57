//! Validation rules for fields of built-in kinds. Their error messages follow those of kube-apiserver.

use std::fmt::Display;

use serde_json::Value;

use crate::model::cause::{Cause, Causes};
use crate::model::labels::SUBDOMAIN_RULE;
use crate::model::rules::field_path::FieldPath;
use crate::model::rules::path::get;

/// A validation rule for the part of an object at a path. The path is relative to the part that is validated;
/// errors contain the full path.
#[derive(Clone, Copy)]
pub(crate) enum Check {
    /// The field must be present and must not be an empty string, list or map. The second string is the
    /// detail of the error.
    Required(&'static str, &'static str),
    Min(&'static str, i64),
    /// The string in the field must be empty or one of these. The error lists them in this order.
    OneOf(&'static str, &'static [&'static str]),
    /// The string in the field must be empty or have this format.
    NameFormat(&'static str, NameFormat),
    Immutable(&'static str),
    Call(fn(&FieldView<'_, '_>, &mut Causes)),
}

/// A part of a validated object, the same part of the stored object, and its path.
///
/// The values live as long as the object (`'v`). The path refers to the paths of the parents (`'p`), so the
/// view of a part cannot outlive the view of the whole.
#[derive(Clone, Copy)]
pub(crate) struct FieldView<'v, 'p> {
    pub(crate) value: &'v Value,
    pub(crate) old: Option<&'v Value>,
    pub(crate) path: FieldPath<'p>,
}

impl<'v> FieldView<'v, '_> {
    pub(crate) fn root(value: &'v Value, old: Option<&'v Value>) -> Self {
        Self { value, old, path: FieldPath::ROOT }
    }

    pub(crate) fn get(&self, path: &str) -> Option<&'v Value> {
        get(self.value, path)
    }

    pub(crate) fn text(&self, path: &str) -> &'v str {
        self.get(path).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn number(&self, path: &str) -> Option<i64> {
        self.get(path).and_then(Value::as_i64)
    }

    pub(crate) fn is_true(&self, path: &str) -> bool {
        self.get(path) == Some(&Value::Bool(true))
    }

    pub(crate) fn items(&self, path: &str) -> &'v [Value] {
        self.get(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Returns a view of each element of a list. The views have no `old`, because elements are not matched
    /// with stored ones.
    pub(crate) fn elements<'b>(&'b self, path: &'b str) -> impl Iterator<Item = FieldView<'v, 'b>> {
        let list = self.field_path(path);
        let view = move |(index, value)| FieldView { value, old: None, path: list.index(index) };
        self.items(path).iter().enumerate().map(view)
    }

    pub(crate) fn before(&self, path: &str) -> impl Iterator<Item = &'v str> + use<'v> {
        let list = self.old.and_then(|old| get(old, path)?.as_array());
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns the full path of a field in this part of the object.
    pub(crate) fn field_path<'b>(&'b self, name: &'b str) -> FieldPath<'b> {
        self.path.field(name)
    }

    /// Returns the view of a field; its value is `null` if the field is missing.
    pub(crate) fn part<'b>(&'b self, path: &'b str) -> FieldView<'v, 'b> {
        const MISSING: &Value = &Value::Null;
        FieldView {
            value: self.get(path).unwrap_or(MISSING),
            old: self.old.map(|old| get(old, path).unwrap_or(MISSING)),
            path: self.field_path(path),
        }
    }
}

pub(crate) fn run(at: &FieldView<'_, '_>, checks: &[Check], causes: &mut Causes) {
    for check in checks {
        match *check {
            Check::Required(path, detail) => {
                if is_missing(at.get(path)) {
                    causes.push(required(&at.field_path(path), detail));
                }
            }
            Check::Min(path, least) => {
                if let Some(number) = at.number(path).filter(|number| *number < least) {
                    causes.push(at_least(&at.field_path(path), number, least));
                }
            }
            Check::OneOf(path, allowed) => {
                let text = at.text(path);
                if !text.is_empty() && !allowed.contains(&text) {
                    causes.push(unsupported(&at.field_path(path), text, allowed));
                }
            }
            Check::NameFormat(path, form) => {
                let text = at.text(path);
                if !text.is_empty() {
                    form.check(&at.field_path(path), text, causes);
                }
            }
            Check::Immutable(path) => {
                if at.old.and_then(|old| get(old, path)) != at.get(path) {
                    causes.push(Cause::invalid(&at.field_path(path), &format_value(at.get(path)), IMMUTABLE));
                }
            }
            Check::Call(call) => call(at, causes),
        }
    }
}

/// The maximum length in bytes of a list or object in an error message.
const MAX_SHOWN_BYTES: usize = 4_096;

/// Formats a value for errors that repeat it for several of its elements. A long value is cut.
pub(crate) fn short_value(value: Option<&Value>) -> String {
    let mut text = format_value(value);
    if text.len() > MAX_SHOWN_BYTES {
        let end = (0..=MAX_SHOWN_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
        text.push_str("...");
    }
    text
}

pub(crate) const IMMUTABLE: &str = "field is immutable";

pub(crate) fn is_missing(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(members)) => members.is_empty(),
        Some(_) => false,
    }
}

pub(crate) fn required(field: &dyn Display, detail: &str) -> Cause {
    match detail {
        "" => Cause {
            reason: "FieldValueRequired",
            message: "Required value".to_owned(),
            field: field.to_string(),
        },
        detail => Cause::required(field, detail),
    }
}

pub(crate) fn duplicate(field: &dyn Display, value: &str) -> Cause {
    Cause {
        reason: "FieldValueDuplicate",
        message: format!("Duplicate value: {value}"),
        field: field.to_string(),
    }
}

pub(crate) fn not_found(field: &dyn Display, value: &str) -> Cause {
    Cause { reason: "FieldValueNotFound", message: format!("Not found: {value:?}"), field: field.to_string() }
}

pub(crate) fn at_least(field: &dyn Display, number: i64, least: i64) -> Cause {
    let why = match least {
        0 => "must be greater than or equal to 0".to_owned(),
        least => format!("must be greater than or equal to {least}"),
    };
    Cause::invalid(field, &number.to_string(), &why)
}

pub(crate) fn unsupported(field: &dyn Display, text: &str, allowed: &[&str]) -> Cause {
    let quoted: Vec<String> = allowed.iter().map(|text| format!("{text:?}")).collect();
    Cause::not_supported(field, &format!("{text:?}"), &quoted.join(", "))
}

pub(crate) fn format_value(value: Option<&Value>) -> String {
    match value {
        None => "null".to_owned(),
        Some(value) => value.to_string(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameFormat {
    /// A DNS label (RFC 1123).
    Label,
    /// A DNS subdomain (RFC 1123): DNS labels separated by dots.
    Subdomain,
    /// A DNS label (RFC 1035), which starts with a letter.
    Label1035,
    /// A qualified name, for example a label key: an optional DNS subdomain as prefix, and a name.
    Qualified,
    PortName,
    /// A segment of a URL path.
    PathSegment,
}

/// Maximum length of a DNS label in bytes.
const MAX_LABEL_BYTES: usize = 63;
const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
     alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
pub(crate) const LABEL_1035_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and \
     end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
     '[a-z]([-a-z0-9]*[a-z0-9])?')";

impl NameFormat {
    pub(crate) fn is_valid(self, text: &str) -> bool {
        match self {
            Self::Label => is_label(text),
            Self::Subdomain => subdomain_problems(text).is_empty(),
            Self::Label1035 => is_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase()),
            Self::Qualified => qualified_problems(text).is_empty(),
            Self::PortName => port_name_problems(text).is_empty(),
            Self::PathSegment => path_segment_problems(text).is_empty(),
        }
    }

    /// Returns kube-apiserver's error messages for a name that violates this format; empty if it is valid.
    pub(crate) fn problems(self, text: &str) -> Vec<String> {
        let owned = |problems: Vec<&'static str>| problems.into_iter().map(str::to_owned).collect();
        match self {
            Self::Label => owned(label_problems(text)),
            Self::Subdomain => owned(subdomain_problems(text)),
            Self::Label1035 if self.is_valid(text) => Vec::new(),
            Self::Label1035 => vec![LABEL_1035_RULE.to_owned()],
            Self::Qualified => qualified_problems(text),
            Self::PortName => owned(port_name_problems(text)),
            Self::PathSegment => owned(path_segment_problems(text)),
        }
    }

    pub(crate) fn check(self, field: &dyn Display, text: &str, causes: &mut Causes) {
        let cause = |why: &String| Cause::invalid(field, &format!("{text:?}"), why);
        causes.extend(self.problems(text).iter().map(cause));
    }
}

/// Returns kube-apiserver's error messages for an invalid label key; empty if it is valid.
pub(crate) fn qualified_problems(text: &str) -> Vec<String> {
    crate::model::labels::label_key_problems(text, |prefix| NameFormat::Subdomain.is_valid(prefix))
}

/// The maximum length of a DNS subdomain in bytes.
const MAX_SUBDOMAIN_BYTES: usize = 253;

pub(crate) fn subdomain_problems(text: &str) -> Vec<&'static str> {
    let long = (text.len() > MAX_SUBDOMAIN_BYTES).then_some("must be no more than 253 characters");
    let wrong = (!text.split('.').all(is_label_part)).then_some(SUBDOMAIN_RULE);
    long.into_iter().chain(wrong).collect()
}

/// Returns true for a DNS subdomain whose labels may contain underscores, as in `dnsConfig.searches`.
pub(crate) fn is_subdomain_with_underscores(text: &str) -> bool {
    let is_outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let name = part.strip_prefix('_').unwrap_or(part);
        name.bytes().next().is_some_and(is_outer)
            && name.bytes().last().is_some_and(is_outer)
            && name.bytes().all(|byte| is_outer(byte) || matches!(byte, b'-' | b'_'))
    };
    text.len() <= MAX_SUBDOMAIN_BYTES && text.split('.').all(is_part)
}

fn port_name_problems(text: &str) -> Vec<&'static str> {
    let mut problems = Vec::new();
    if text.len() > 15 {
        problems.push("must be no more than 15 characters");
    }
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if text.is_empty() || !text.bytes().all(is_allowed) {
        problems.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)");
    }
    if text.contains("--") {
        problems.push("must not contain consecutive hyphens");
    }
    if text.starts_with('-') || text.ends_with('-') {
        problems.push("must not begin or end with a hyphen");
    }
    problems
}

/// Returns kube-apiserver's error messages for an invalid DNS label; empty if it is valid.
pub(crate) fn label_problems(text: &str) -> Vec<&'static str> {
    let long = (text.len() > MAX_LABEL_BYTES).then_some("must be no more than 63 characters");
    let wrong = (!is_label_part(text))
        .then(|| if NameFormat::Subdomain.is_valid(text) { "must not contain dots" } else { LABEL_RULE });
    long.into_iter().chain(wrong).collect()
}

/// Returns the reasons why a name cannot be a segment of a URL path.
pub(crate) fn path_segment_problems(name: &str) -> Vec<&'static str> {
    match name {
        "." => vec!["may not be '.'"],
        ".." => vec!["may not be '..'"],
        name => [("/", "may not contain '/'"), ("%", "may not contain '%'")]
            .into_iter()
            .filter_map(|(part, why)| name.contains(part).then_some(why))
            .collect(),
    }
}

/// Validates a path with a domain as its first segment, such as `acme.io/foo`.
pub(crate) fn check_domain_prefixed_path(field: &dyn Display, path: &str, causes: &mut Causes) {
    if path.is_empty() {
        return causes.push(required(field, ""));
    }
    let invalid = |shown: &str, why: &str| Cause::invalid(field, &format!("{shown:?}"), why);
    let Some((host, rest)) = path.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty())
    else {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return causes.push(invalid(path, why));
    };
    NameFormat::Subdomain.check(field, host, causes);
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !rest.bytes().all(is_allowed) {
        let why = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        causes.push(invalid(rest, why));
    }
}

pub(crate) fn is_label(text: &str) -> bool {
    text.len() <= MAX_LABEL_BYTES && is_label_part(text)
}

fn is_label_part(text: &str) -> bool {
    let outer = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(outer)
        && bytes.last().is_some_and(outer)
        && bytes.iter().all(|byte| outer(byte) || *byte == b'-')
}

pub(crate) fn check_selector(at: &FieldView<'_, '_>, causes: &mut Causes) {
    // As in kube-apiserver, an update may keep invalid values.
    let is_unchanged = at.old == Some(at.value);
    check_labels(&at.field_path("matchLabels"), at.get("matchLabels"), causes);
    for item in at.elements("matchExpressions") {
        let values = item.items("values");
        match item.text("operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.push(required(&item.field_path("values"), detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.push(Cause::forbidden(&item.field_path("values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let why = "not a valid selector operator";
                causes.push(Cause::invalid(&item.field_path("operator"), &format!("{other:?}"), why));
            }
        }
        NameFormat::Qualified.check(&item.field_path("key"), item.text("key"), causes);
        for value in item.elements("values").filter(|_| !is_unchanged) {
            let text = value.value.as_str().unwrap_or_default();
            let problems = crate::model::labels::label_value_problems(text);
            causes.extend(problems.iter().map(|why| Cause::invalid(&value.path, &format!("{text:?}"), why)));
        }
    }
}

/// Validates labels, or another map with the same syntax, such as a node selector.
pub(crate) fn check_labels(field: &dyn Display, labels: Option<&Value>, causes: &mut Causes) {
    for (name, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        NameFormat::Qualified.check(field, name, causes);
        let problems = crate::model::labels::label_value_problems(value);
        causes.extend(problems.iter().map(|why| Cause::invalid(field, &format!("{value:?}"), why)));
    }
}

pub(crate) fn check_port(field: &dyn Display, port: i64, causes: &mut Causes) {
    if !(1..=65_535).contains(&port) {
        causes.push(Cause::invalid(field, &port.to_string(), "must be between 1 and 65535, inclusive"));
    }
}

pub(crate) fn not_negative(at: &FieldView<'_, '_>, names: &[&str], causes: &mut Causes) {
    for name in names {
        if let Some(number) = at.number(name).filter(|number| *number < 0) {
            causes.push(at_least(&at.field_path(name), number, 0));
        }
    }
}

pub(crate) fn check_immutable(at: &FieldView<'_, '_>, field: &str, causes: &mut Causes) {
    let old = at.old.and_then(|old| get(old, field));
    if old != at.get(field) {
        let shown = at.get(field).map_or("null".to_owned(), ToString::to_string);
        causes.push(Cause::invalid(&at.field_path(field), &shown, IMMUTABLE));
    }
}

const PERCENT_RULE: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
     '93%', regex used for validation is '[0-9]+%')";

/// Validates a field that contains a non-negative number or a percentage. Only in `maxSurge` a percentage may
/// exceed 100 %.
pub(crate) fn check_int_or_percent(at: &FieldView<'_, '_>, name: &str, causes: &mut Causes) {
    let field = at.field_path(name);
    match at.get(name) {
        Some(Value::Number(number)) => {
            if let Some(number) = number.as_i64().filter(|number| *number < 0) {
                causes.push(at_least(&field, number, 0));
            }
        }
        Some(Value::String(text)) => {
            let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty());
            match digits.and_then(|digits| digits.parse::<u64>().ok()) {
                None => causes.push(Cause::invalid(&field, &format!("{text:?}"), PERCENT_RULE)),
                Some(percent) if percent > 100 && name != "maxSurge" => {
                    causes.push(Cause::invalid(
                        &field,
                        &format!("{text:?}"),
                        "must not be greater than 100%",
                    ));
                }
                Some(_) => {}
            }
        }
        _ => {}
    }
}

pub(crate) fn is_zero(at: &FieldView<'_, '_>, name: &str) -> bool {
    at.get(name).is_some_and(|value| *value == 0 || *value == "0%")
}
