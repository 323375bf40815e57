//! Decodes JSON into a `Value` and detects duplicate keys in the same pass.

use std::cell::Cell;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A decoded JSON value, and whether the JSON has duplicate keys. The value contains the last member of each
/// key.
#[derive(Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) value: Value,
    pub(crate) doubled: bool,
}

/// Decodes well-formed JSON.
pub(crate) fn read(text: &[u8]) -> serde_json::Result<Reading> {
    let doubled = Cell::new(false);
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = DuplicateKeySeed { doubled: &doubled }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(Reading { value, doubled: doubled.get() })
}

#[derive(Clone, Copy)]
struct DuplicateKeySeed<'r> {
    doubled: &'r Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for DuplicateKeySeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateKeySeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key()? {
            if object.insert(name, members.next_value_seed(self)?).is_some() {
                self.doubled.set(true);
            }
        }
        Ok(Value::Object(object))
    }
}
