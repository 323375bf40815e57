//! Members that are in a body twice. The last one counts, and who asks for it is told.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use informer_schema::Kind;
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::model::write_options::Validation;
use crate::model::yaml::yaml_twice;

/// The members of an operation of a JSON patch.
const OPERATION: [&str; 4] = ["op", "path", "from", "value"];
/// What stands before the lines of a strict reader of YAML.
const YAML: [&str; 2] =
    ["yaml: unmarshal errors:\n", "error converting YAML to JSON: yaml: unmarshal errors:\n"];

/// What a strict reader finds in a body with members that are there twice.
#[derive(Debug)]
pub(crate) enum Twice {
    /// In JSON of a built-in kind: everything, in the order of the body.
    Everything(Vec<String>),
    /// Elsewhere: those members alone, which are told before what is not known.
    Alone(Vec<String>),
}

impl Twice {
    /// In JSON that has members twice, of a built-in kind where that is known.
    pub(crate) fn in_json(known: Option<Kind<'_>>, body: &[u8]) -> Option<Self> {
        if let Some(known) = known {
            let problems = known.strict_problems(body).ok()?;
            return Some(Self::Everything(problems.iter().map(ToString::to_string).collect()));
        }
        found(body, Place::Value).map(Self::Alone)
    }

    /// In YAML.
    pub(crate) fn in_yaml(body: &[u8]) -> Option<Self> {
        yaml_twice(body).map(|why| Self::Alone(vec![format!("yaml: {why}")]))
    }

    /// In the operations of a JSON patch, with members that operations do not have.
    pub(crate) fn in_operations(body: &[u8]) -> Option<Self> {
        let found = found(body, Place::Operations)?;
        Some(Self::Alone(found.into_iter().map(|why| format!("json patch {why}")).collect()))
    }

    /// With what was found to be unknown.
    pub(crate) fn told(&self, unknown: Vec<String>) -> Vec<String> {
        match self {
            Self::Everything(all) => all.clone(),
            Self::Alone(twice) => twice.iter().cloned().chain(unknown).collect(),
        }
    }
}

impl Validation {
    /// What is done about what a strict reader has found: warnings, or why it is refused.
    pub(crate) fn judge(self, found: Vec<String>) -> Result<Vec<String>, String> {
        match self {
            Self::Strict if !found.is_empty() => Err(format!("strict decoding error: {}", found.join(", "))),
            Self::Warn => Ok(found.iter().flat_map(|one| warnings(one)).collect()),
            _ => Ok(Vec::new()),
        }
    }

    /// Whether anybody wants to know what a strict reader finds.
    pub(crate) fn is_told(self) -> bool {
        matches!(self, Self::Warn | Self::Strict)
    }
}

/// What a strict reader has found, as warnings: of YAML each line is one.
pub(crate) fn warnings(found: &str) -> Vec<String> {
    match YAML.iter().find_map(|head| found.strip_prefix(head)) {
        Some(lines) => lines.split('\n').map(|line| line.trim().to_owned()).collect(),
        None => vec![found.to_owned()],
    }
}

fn found(body: &[u8], place: Place) -> Option<Vec<String>> {
    let found = RefCell::default();
    let mut reader = serde_json::Deserializer::from_slice(body);
    Walk { path: "", place, found: &found }.deserialize(&mut reader).ok()?;
    Some(found.into_inner())
}

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Any value.
    Value,
    /// The operations of a JSON patch.
    Operations,
    /// One of them.
    Operation,
}

impl Place {
    fn item(self) -> Self {
        if self == Self::Operations { Self::Operation } else { Self::Value }
    }
}

/// Goes through JSON, and notes the paths of what is there twice.
struct Walk<'w> {
    path: &'w str,
    place: Place,
    found: &'w RefCell<Vec<String>>,
}

impl Walk<'_> {
    fn tell(&self, told: String) {
        let mut found = self.found.borrow_mut();
        if !found.contains(&told) && found.len() < informer_schema::MAX_STRICT_PROBLEMS {
            found.push(told);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
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
            let item = Walk { path: &path, place: self.place.item(), found: self.found };
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
            if self.place == Place::Operation && !OPERATION.contains(&&*name) {
                self.tell(format!("unknown field {path:?}"));
                members.next_value::<IgnoredAny>()?;
                continue;
            }
            if !seen.insert(name) {
                self.tell(format!("duplicate field {path:?}"));
            }
            members.next_value_seed(Walk { path: &path, place: Place::Value, found: self.found })?;
        }
        Ok(())
    }
}
