//! What differs from run to run, replaced by signs that keep identity and order.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::run::Answer;

/// Shorter numbers in messages are not taken for versions.
const VERSION_DIGITS_MIN: usize = 3;
const UUID_LENGTH: usize = 36;
const TIME_LENGTH: usize = 20;
/// What tells managers apart.
const MANAGER: [&str; 4] = ["operation", "manager", "subresource", "apiVersion"];
/// The length of `2001-`.
const OLD_YEAR_LENGTH: usize = 5;

/// The names of a run, and the versions that it has seen.
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

    /// Puts the values of names into a text.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (name, value) in &self.named {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        filled
    }

    /// Remembers the versions of an answer.
    pub(crate) fn learn(&mut self, answer: &Answer) {
        answer.body.iter().chain(answer.events.iter().flatten()).for_each(|value| self.learn_from(value));
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

    pub(crate) fn normalise(mut self, answers: &mut [Answer]) {
        answers.iter().for_each(|answer| self.learn(answer));
        let mut signs = Signs { names: &self, uids: Vec::new() };
        for answer in answers {
            for value in answer.headers.values_mut().flatten() {
                *value = signs.text(value);
            }
            if let Some(body) = &mut answer.body {
                signs.value(body);
            }
            answer.events.iter_mut().flatten().for_each(|event| signs.value(event));
        }
    }
}

struct Signs<'a> {
    names: &'a Names,
    uids: Vec<String>,
}

impl Signs<'_> {
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
            let taken = if inside { None } else { self.sign(rest) };
            let (sign, length) = taken.unwrap_or_else(|| (first.to_string(), first.len_utf8()));
            out.push_str(&sign);
            inside = rest[..length].chars().next_back().is_some_and(|last| last.is_ascii_alphanumeric());
            rest = &rest[length..];
        }
        let named = self.names.named.iter().filter(|(name, value)| {
            // Versions have signs already; short words would be found everywhere.
            value.len() >= 5 && value.parse::<u64>().is_err() && name.as_str() != "id"
        });
        for (name, value) in named {
            out = out.replace(value.as_str(), &format!("<{name}>"));
        }
        out.replace(&self.names.named["id"], "<id>")
    }

    /// The sign for what a text begins with, and how long that is.
    fn sign(&mut self, text: &str) -> Option<(String, usize)> {
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
        Some((format!("<rv:{}>", rank + 1), length))
    }
}

/// Managers come in the order of their times, which are in whole seconds: whether two writes were in the same one differs from run to run.
fn in_order(managers: &mut Value) {
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    if let Value::Array(managers) = managers {
        managers.sort_by_cached_key(|entry| MANAGER.map(|name| text(entry, name)));
    }
}

/// The descriptions of columns are prose: kept is only whether there is one.
fn describe(table: &mut serde_json::Map<String, Value>) {
    for column in table.get_mut("columnDefinitions").and_then(Value::as_array_mut).into_iter().flatten() {
        if column["description"].as_str().is_some_and(|text| !text.is_empty()) {
            column["description"] = "<prose>".into();
        }
    }
}

/// A cell of a table that says how old an object is; scenarios take seconds.
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

/// Whether a text begins with a year from 2000 to 2009: no server makes such times, so they are of the scenario, and stay.
fn is_old_year(text: &str) -> bool {
    matches!(text.as_bytes(), [b'2', b'0', b'0', b'0'..=b'9', b'-', ..])
}

/// The length of a time as the API writes it, `2026-01-01T00:00:00Z` or with microseconds.
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

/// What a continue token says; its version becomes a version like any other.
fn token(text: &str) -> Option<Value> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let mut token: Value = serde_json::from_slice(&bytes).ok()?;
    if let Some(version) = token["rv"].as_i64() {
        token["rv"] = version.to_string().into();
    }
    Some(token)
}
