//! Members that are in a body of JSON twice. The last one counts, and who asks for it is told.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use informer_schema::Schema;
use serde::Deserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::kinds::Kind;

/// What a strict reader finds in a body with members that are there twice.
#[derive(Debug)]
pub(crate) enum Twice {
    /// Of a built-in kind: everything, in the order of the body.
    Everything(Vec<String>),
    /// Of a custom one: those members alone, which are told before what its schema does not know.
    Alone(Vec<String>),
}

impl Twice {
    /// `None` where there is nothing of that kind, which is nearly always.
    pub(crate) fn find(schema: &Schema, kind: &Kind, body: &[u8], read: &Value) -> Option<Self> {
        if colons(body) == members(read) {
            return None;
        }
        let known = schema.kind_by_api_version(&kind.api_version, &kind.kind).filter(|_| !kind.is_custom());
        if let Some(known) = known {
            let problems = known.strict_problems(body).ok()?;
            return Some(Self::Everything(problems.iter().map(ToString::to_string).collect()));
        }
        let found = RefCell::default();
        let mut reader = serde_json::Deserializer::from_slice(body);
        Walk { path: "", found: &found }.deserialize(&mut reader).ok()?;
        Some(Self::Alone(found.into_inner()))
    }

    /// With what was found to be unknown.
    pub(super) fn told(&self, unknown: Vec<String>) -> Vec<String> {
        match self {
            Self::Everything(all) => all.clone(),
            Self::Alone(twice) => twice.iter().cloned().chain(unknown).collect(),
        }
    }
}

/// Colons outside of texts: so many members are written in well-formed JSON.
fn colons(body: &[u8]) -> usize {
    let (mut count, mut quoted, mut escaped) = (0, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b':' if !quoted => count += 1,
            _ => {}
        }
    }
    count
}

/// Members of a value and of everything in it.
fn members(value: &Value) -> usize {
    match value {
        Value::Object(object) => object.len() + object.values().map(members).sum::<usize>(),
        Value::Array(items) => items.iter().map(members).sum(),
        _ => 0,
    }
}

/// Goes through JSON, and notes the paths of what is there twice.
struct Walk<'w> {
    path: &'w str,
    found: &'w RefCell<Vec<String>>,
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
            if items.next_element_seed(Walk { path: &path, found: self.found })?.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            let path = if self.path.is_empty() { name.clone() } else { format!("{}.{name}", self.path) };
            if !seen.insert(name) {
                let told = format!("duplicate field {path:?}");
                let mut found = self.found.borrow_mut();
                if !found.contains(&told) && found.len() < informer_schema::MAX_STRICT_PROBLEMS {
                    found.push(told);
                }
            }
            members.next_value_seed(Walk { path: &path, found: self.found })?;
        }
        Ok(())
    }
}
