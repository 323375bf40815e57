//! The syntax of label keys and label values.

pub(crate) const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
     '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
pub(crate) const NAME_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
     with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const KEY_RULE: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
     'example.com/MyName')";
pub(crate) const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
     '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
     used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Returns kube-apiserver's error messages for an invalid label value; empty if it is valid.
pub(crate) fn label_value_problems(text: &str) -> Vec<&'static str> {
    let long = (text.len() > MAX_LABEL_BYTES).then_some("must be no more than 63 bytes");
    long.into_iter().chain((!is_label_text(text)).then_some(VALUE_RULE)).collect()
}

/// Returns kube-apiserver's error messages for an invalid label key; empty if it is valid.
pub(crate) fn label_key_problems(text: &str, is_subdomain: fn(&str) -> bool) -> Vec<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((_, name)) if name.contains('/') => return vec![KEY_RULE.to_owned()],
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let mut problems = Vec::new();
    match prefix {
        Some("") => problems.push("prefix part must be non-empty".to_owned()),
        Some(prefix) if !is_subdomain(prefix) => {
            problems.push(format!("prefix part {}", SUBDOMAIN_RULE));
        }
        _ => {}
    }
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    }
    if name.len() > MAX_LABEL_BYTES {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if name.is_empty() || !is_label_text(name) {
        problems.push(NAME_RULE.to_owned());
    }
    problems
}

fn is_label_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    let outer = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    outer(bytes.first())
        && outer(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// Maximum length in bytes of a label value, or of a label key without its prefix.
const MAX_LABEL_BYTES: usize = 63;
