//! Compares the transcripts of two servers, and marks the known differences.

use serde::Deserialize;
use serde_json::Value;

use crate::run::Transcript;

/// One place at which the responses of the embedded and the real server differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The name of the scenario.
    pub scenario: String,
    /// The path of the difference: the number of the response, then the path within it, as in
    /// `3/body/metadata/name`.
    pub at: String,
    /// The value in the response of the real server.
    pub real: String,
    /// The value in the response of the embedded server.
    pub embedded: String,
}

/// A rule of the list of known differences: the differences that it covers, and their reason.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// A pattern for scenario names, in which `*` matches anything.
    pub scenario: String,
    /// A pattern for the paths of differences, in which `*` matches anything.
    pub at: String,
    /// The reason why the servers differ.
    pub reason: String,
}

/// The list of known differences between the embedded and the real server.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Differences(pub Vec<Rule>);

impl Differences {
    /// Returns the index of the first rule that covers a difference.
    pub fn rule_of(&self, difference: &Difference) -> Option<usize> {
        self.0.iter().position(|rule| {
            matches(&rule.scenario, &difference.scenario) && matches(&rule.at, &difference.at)
        })
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| matches(rest, &text[at..]))
        }),
    }
}

pub(crate) fn compare(scenario: &str, real: &Transcript, embedded: &Transcript) -> Vec<Difference> {
    let mut found = Vec::new();
    let count = real.responses.len().max(embedded.responses.len());
    for index in 0..count {
        let value = |transcript: &Transcript| {
            let response = transcript.responses.get(index);
            response.map_or(Value::Null, |response| {
                serde_json::to_value(response).expect("responses can be serialized")
            })
        };
        walk(&(index + 1).to_string(), &value(real), &value(embedded), &mut |at, real, embedded| {
            found.push(Difference {
                scenario: scenario.to_owned(),
                at: at.to_owned(),
                real: shown(real),
                embedded: shown(embedded),
            });
        });
    }
    found
}

fn shown(value: &Value) -> String {
    if value.is_null() { "nothing".to_owned() } else { value.to_string() }
}

/// Returns true if two messages have the same lines in any order. Errors of several fields are reported one
/// per line, and a real server reports those of a map in random order.
fn same_errors(left: &str, right: &str) -> bool {
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    left.contains("errors:\n") && lines(left) == lines(right)
}

fn walk(at: &str, real: &Value, embedded: &Value, tell: &mut impl FnMut(&str, &Value, &Value)) {
    match (real, embedded) {
        (Value::Object(left), Value::Object(right)) => {
            let extra = right.keys().filter(|name| !left.contains_key(*name));
            for name in left.keys().chain(extra) {
                let (left, right) = (left.get(name), right.get(name));
                // A field with the value null differs from a missing field.
                match (left, right) {
                    (Some(left), Some(right)) => walk(&format!("{at}/{name}"), left, right, tell),
                    (left, right) => {
                        let there = |side: Option<&Value>| match side {
                            Some(Value::Null) => Value::from("<null>"),
                            Some(value) => value.clone(),
                            None => Value::Null,
                        };
                        tell(&format!("{at}/{name}"), &there(left), &there(right));
                    }
                }
            }
        }
        (Value::Array(left), Value::Array(right)) => {
            for index in 0..left.len().max(right.len()) {
                let (left, right) = (left.get(index), right.get(index));
                let missing = Value::Null;
                walk(&format!("{at}/{index}"), left.unwrap_or(&missing), right.unwrap_or(&missing), tell);
            }
        }
        (left, right) if left == right => {}
        (Value::String(left), Value::String(right)) if same_errors(left, right) => {}
        (left, right) => tell(at, left, right),
    }
}

#[cfg(test)]
mod tests {
    use super::same_errors;

    #[test]
    fn only_the_order_of_errors_is_ignored() {
        assert!(same_errors("x: errors:\n  .a: b\n  .c: d", "x: errors:\n  .c: d\n  .a: b"));
        assert!(!same_errors("x: errors:\n  .a: b\n  .c: d", "x: errors:\n  .c: d\n  .a: e"));
        assert!(!same_errors("a\nb", "b\na"), "other strings are compared exactly");
    }
}
