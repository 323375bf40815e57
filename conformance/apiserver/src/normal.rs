//! Replaces values of a transcript that differ from run to run with placeholders. Equal values get equal
//! placeholders, and the placeholders keep the order of versions.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::run::StepResponse;

/// The minimum number of digits of a number in a message that is treated as a resourceVersion.
const VERSION_DIGITS_MIN: usize = 3;
const UUID_LENGTH: usize = 36;
const TIME_LENGTH: usize = 20;
const MANAGER: [&str; 4] = ["operation", "manager", "subresource", "apiVersion"];
/// The number of characters of a year with its hyphen, such as `2001-`.
const OLD_YEAR_LENGTH: usize = 5;

#[derive(Debug)]
pub(crate) struct Names {
    named: BTreeMap<String, String>,
    versions: BTreeSet<u64>,
}

impl Names {
    pub(crate) fn new(id: &str) -> Self {
        let named = [("id".to_owned(), id.to_owned()), ("ns".to_owned(), format!("n-{id}"))];
        Self { named: named.into(), versions: BTreeSet::new() }
    }

    pub(crate) fn capture(&mut self, name: &str, value: &Value) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.named.insert(name.to_owned(), text);
    }

    pub(crate) fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (name, value) in &self.named {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        filled
    }

    pub(crate) fn learn(&mut self, response: &StepResponse) {
        response.body.iter().chain(response.events.iter().flatten()).for_each(|value| self.learn_from(value));
    }

    fn learn_from(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                let version = members.get("resourceVersion").and_then(Value::as_str);
                self.versions
                    .extend(version.and_then(|text| text.parse::<u64>().ok()).filter(|version| *version > 0));
                members.values().for_each(|value| self.learn_from(value));
            }
            Value::Array(items) => items.iter().for_each(|value| self.learn_from(value)),
            _ => {}
        }
    }

    pub(crate) fn normalize(mut self, responses: &mut [StepResponse]) {
        responses.iter().for_each(|response| self.learn(response));
        // The number of versions in responses to setup steps depends on timing: a list without objects
        // returns the newest version of the whole server. Therefore only versions in compared responses are
        // counted.
        let mut placeholders = Placeholders::new(&self);
        placeholders.responses(&mut responses.to_vec());
        self.versions = placeholders.used;
        Placeholders::new(&self).responses(responses);
    }
}

struct Placeholders<'a> {
    names: &'a Names,
    uids: Vec<String>,
    /// The versions that were replaced.
    used: BTreeSet<u64>,
}

impl<'a> Placeholders<'a> {
    fn new(names: &'a Names) -> Self {
        Self { names, uids: Vec::new(), used: BTreeSet::new() }
    }

    fn responses(&mut self, responses: &mut [StepResponse]) {
        for response in responses {
            for value in response.headers.values_mut().flatten() {
                *value = self.text(value);
            }
            if let Some(body) = &mut response.body {
                self.value(body);
            }
            response.events.iter_mut().flatten().for_each(|event| self.value(event));
        }
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => {
                if let Some(token) = members.get("continue").and_then(Value::as_str).and_then(token) {
                    members.insert("continue".to_owned(), token);
                }
                if members.contains_key("columnDefinitions") {
                    describe(members);
                }
                let old = std::mem::take(members);
                for (name, mut value) in old {
                    self.value(&mut value);
                    if name.ends_with("managedFields") {
                        in_order(&mut value);
                    }
                    members.insert(self.text(&name), value);
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) -> String {
        if is_age(text) {
            return "<age>".to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let (mut rest, mut inside) = (text, false);
        while let Some(first) = rest.chars().next() {
            let taken = if inside { None } else { self.placeholder(rest) };
            let (text, length) = taken.unwrap_or_else(|| (first.to_string(), first.len_utf8()));
            out.push_str(&text);
            inside = rest[..length].chars().next_back().is_some_and(|last| last.is_ascii_alphanumeric());
            rest = &rest[length..];
        }
        let named = self.names.named.iter().filter(|(name, value)| {
            // Not replaced are resourceVersions, which already have placeholders, and values of less than
            // five characters, which would also match in unrelated text.
            value.len() >= 5 && value.parse::<u64>().is_err() && name.as_str() != "id"
        });
        for (name, value) in named {
            out = out.replace(value.as_str(), &format!("<{name}>"));
        }
        out.replace(&self.names.named["id"], "<id>")
    }

    /// If the string begins with a value to be replaced, returns its placeholder, and the length of that
    /// value.
    fn placeholder(&mut self, text: &str) -> Option<(String, usize)> {
        if let Some(uid) = text.get(..UUID_LENGTH).filter(|word| is_uuid(word)) {
            let index = self.uids.iter().position(|known| known == uid).unwrap_or_else(|| {
                self.uids.push(uid.to_owned());
                self.uids.len() - 1
            });
            return Some((format!("<uid:{}>", index + 1), UUID_LENGTH));
        }
        if is_old_year(text) {
            return Some((text[..OLD_YEAR_LENGTH].to_owned(), OLD_YEAR_LENGTH));
        }
        if let Some(length) = time_length(text) {
            return Some(("<time>".to_owned(), length));
        }
        let length = text.bytes().take_while(u8::is_ascii_digit).count();
        let next = text[length..].chars().next();
        if length < VERSION_DIGITS_MIN || next.is_some_and(|next| next.is_ascii_alphanumeric()) {
            return None;
        }
        let version: u64 = text[..length].parse().ok()?;
        let rank = self.names.versions.iter().position(|known| *known == version)?;
        self.used.insert(version);
        Some((format!("<rv:{}>", rank + 1), length))
    }
}

/// Sorts the managed fields of an object. The server orders them by time in whole seconds, and two writes can
/// happen in the same second.
fn in_order(managers: &mut Value) {
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    if let Value::Array(managers) = managers {
        managers.sort_by_cached_key(|entry| MANAGER.map(|name| text(entry, name)));
    }
}

/// Replaces the description of a table column by the fact that there is one, because the text of descriptions
/// is not compared.
fn describe(table: &mut serde_json::Map<String, Value>) {
    for column in table.get_mut("columnDefinitions").and_then(Value::as_array_mut).into_iter().flatten() {
        if column["description"].as_str().is_some_and(|text| !text.is_empty()) {
            column["description"] = "<prose>".into();
        }
    }
}

/// Returns true if a table cell is the age of an object. Ages are not compared, because runs of a scenario
/// take different times.
fn is_age(text: &str) -> bool {
    text.strip_suffix('s').is_some_and(|digits| {
        (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn is_uuid(word: &str) -> bool {
    word.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// Returns true if a string starts with a year from 2000 to 2009. Servers do not generate such times, so they
/// were set by the scenario and are compared.
fn is_old_year(text: &str) -> bool {
    matches!(text.as_bytes(), [b'2', b'0', b'0', b'0'..=b'9', b'-', ..])
}

/// Returns the length of a time at the start of a string, in the format `2026-01-01T00:00:00Z`, optionally
/// with microseconds.
fn time_length(text: &str) -> Option<usize> {
    let head = text.as_bytes().get(..TIME_LENGTH - 1)?;
    let shaped = head.iter().enumerate().all(|(at, byte)| match at {
        4 | 7 => *byte == b'-',
        10 => *byte == b'T',
        13 | 16 => *byte == b':',
        _ => byte.is_ascii_digit(),
    });
    let rest = &text.get(TIME_LENGTH - 1..)?;
    let fraction = match rest.strip_prefix('.') {
        Some(digits) => 1 + digits.bytes().take_while(u8::is_ascii_digit).count(),
        None => 0,
    };
    (shaped && rest[fraction..].starts_with('Z')).then_some(TIME_LENGTH + fraction)
}

/// Decodes a continue token. The version in it is replaced by a placeholder like any other version.
fn token(text: &str) -> Option<Value> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let mut token: Value = serde_json::from_slice(&bytes).ok()?;
    if let Some(version) = token["rv"].as_i64() {
        token["rv"] = version.to_string().into();
    }
    Some(token)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Names;
    use crate::run::StepResponse;

    fn response(version: &str) -> StepResponse {
        let body = json!({"metadata": {"resourceVersion": version}, "message": "resourceVersion 205 is old"});
        StepResponse { body: Some(body), ..StepResponse::default() }
    }

    #[test]
    fn versions_only_in_setup_responses_are_not_counted() {
        let normalized = |setup: &[&str]| {
            let mut names = Names::new("id");
            setup.iter().for_each(|version| names.learn(&response(version)));
            let mut responses = [response("210"), response("207")];
            names.normalize(&mut responses);
            responses
        };
        let few = normalized(&["205"]);
        let many = normalized(&["201", "202", "205", "208"]);
        assert_eq!(few, many);
        let versions =
            many.map(|response| response.body.unwrap_or_default()["metadata"]["resourceVersion"].clone());
        assert_eq!(versions, ["<rv:3>", "<rv:2>"]);
    }
}
