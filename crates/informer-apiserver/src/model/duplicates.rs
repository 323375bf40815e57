//! Duplicate keys in JSON and YAML bodies. The last value of a key is used. Duplicates are reported if
//! `fieldValidation` is `Warn` or `Strict`.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use informer_schema::KindSchema;
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::model::write_options::FieldValidation;
use crate::model::yaml::duplicate_keys;

/// The known members of a JSON patch operation.
const OPERATION_MEMBERS: [&str; 4] = ["op", "path", "from", "value"];
/// The message prefixes that the strict YAML decoder puts before its errors.
const YAML: [&str; 2] =
    ["yaml: unmarshal errors:\n", "error converting YAML to JSON: yaml: unmarshal errors:\n"];

/// The strict decoding errors of a request body with duplicate keys.
#[derive(Debug)]
pub(crate) enum DuplicateKeys {
    /// All strict decoding errors in the order of the body, including unknown fields. Used for JSON of a
    /// built-in kind.
    AllProblems(Vec<String>),
    /// Only the errors for duplicate keys, which are reported before unknown fields. Used for all other
    /// bodies.
    KeysOnly(Vec<String>),
}

impl DuplicateKeys {
    /// Finds the duplicate keys in a JSON body. For a built-in kind it also finds unknown fields.
    pub(crate) fn in_json(known: Option<KindSchema<'_>>, body: &[u8]) -> Option<Self> {
        if let Some(known) = known {
            let problems = known.strict_problems(body).ok()?;
            return Some(Self::AllProblems(problems.iter().map(ToString::to_string).collect()));
        }
        found(body, JsonPosition::Value).map(Self::KeysOnly)
    }

    pub(crate) fn in_yaml(body: &[u8]) -> Option<Self> {
        duplicate_keys(body).map(|why| Self::KeysOnly(vec![format!("yaml: {why}")]))
    }

    /// Finds the duplicate and unknown members in the operations of a JSON patch.
    pub(crate) fn in_operations(body: &[u8]) -> Option<Self> {
        let found = found(body, JsonPosition::Operations)?;
        Some(Self::KeysOnly(found.into_iter().map(|why| format!("json patch {why}")).collect()))
    }

    pub(crate) fn with_unknown_fields(&self, unknown: Vec<String>) -> Vec<String> {
        match self {
            Self::AllProblems(all) => all.clone(),
            Self::KeysOnly(twice) => twice.iter().cloned().chain(unknown).collect(),
        }
    }
}

impl FieldValidation {
    /// Applies `fieldValidation` to strict decoding errors: returns them as warnings, or as the reason why
    /// the request is rejected.
    pub(crate) fn enforce(self, found: Vec<String>) -> Result<Vec<String>, String> {
        match self {
            Self::Strict if !found.is_empty() => Err(format!("strict decoding error: {}", found.join(", "))),
            Self::Warn => Ok(found.iter().flat_map(|one| warnings(one)).collect()),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns true if `fieldValidation` requires a report of strict decoding errors.
    pub(crate) fn is_reported(self) -> bool {
        matches!(self, Self::Warn | Self::Strict)
    }
}

/// Splits a message with strict decoding errors into warnings. For YAML each line becomes one warning.
pub(crate) fn warnings(found: &str) -> Vec<String> {
    match YAML.iter().find_map(|head| found.strip_prefix(head)) {
        Some(lines) => lines.split('\n').map(|line| line.trim().to_owned()).collect(),
        None => vec![found.to_owned()],
    }
}

fn found(body: &[u8], place: JsonPosition) -> Option<Vec<String>> {
    let found = RefCell::default();
    let mut reader = serde_json::Deserializer::from_slice(body);
    JsonWalk { path: "", place, found: &found }.deserialize(&mut reader).ok()?;
    Some(found.into_inner())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonPosition {
    Value,
    /// The list of operations of a JSON patch.
    Operations,
    Operation,
}

impl JsonPosition {
    fn item(self) -> Self {
        if self == Self::Operations { Self::Operation } else { Self::Value }
    }
}

/// Walks through a JSON document and records the paths of duplicate keys.
struct JsonWalk<'w> {
    path: &'w str,
    place: JsonPosition,
    found: &'w RefCell<Vec<String>>,
}

impl JsonWalk<'_> {
    fn report(&self, problem: String) {
        let mut found = self.found.borrow_mut();
        if !found.contains(&problem) && found.len() < informer_schema::MAX_STRICT_PROBLEMS {
            found.push(problem);
        }
    }
}

impl<'de> DeserializeSeed<'de> for JsonWalk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonWalk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        loop {
            let path = format!("{}[{index}]", self.path);
            let item = JsonWalk { path: &path, place: self.place.item(), found: self.found };
            if items.next_element_seed(item)?.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            let path = if self.path.is_empty() { name.clone() } else { format!("{}.{name}", self.path) };
            if self.place == JsonPosition::Operation && !OPERATION_MEMBERS.contains(&&*name) {
                self.report(format!("unknown field {path:?}"));
                members.next_value::<IgnoredAny>()?;
                continue;
            }
            if !seen.insert(name) {
                self.report(format!("duplicate field {path:?}"));
            }
            members.next_value_seed(JsonWalk {
                path: &path,
                place: JsonPosition::Value,
                found: self.found,
            })?;
        }
        Ok(())
    }
}
