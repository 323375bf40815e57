//! YAML whose aliases are counted: a short text can name a long one again and again.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// What aliases may add to a text: enough for the anchors that people write, and little memory.
const ALIASED_MAX: usize = 100_000;

/// What is said where aliases make too much, as upstream says it.
pub(crate) const EXCESSIVE: &str = "document contains excessive aliasing";

/// Reads YAML as JSON.
///
/// # Errors
///
/// When the text is no YAML, or its aliases make far more of it than is written there.
pub(crate) fn read(text: &[u8]) -> Result<Value, serde_norway::Error> {
    // A value takes a byte for itself and one to be apart from the next at least.
    let left = Cell::new(2 * text.len() + ALIASED_MAX);
    Counted(&left).deserialize(serde_norway::Deserializer::from_slice(text))
}

/// Makes a value of whatever comes, as long as there is something left.
#[derive(Clone, Copy)]
struct Counted<'a>(&'a Cell<usize>);

impl Counted<'_> {
    fn spend<E: Error>(self, bytes: usize) -> Result<(), E> {
        let left = self.0.get().checked_sub(1 + bytes);
        self.0.set(left.ok_or_else(|| E::custom(EXCESSIVE))?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.spend(0).map(|()| value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.spend(0).map(|()| value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.spend(0).map(|()| value.into())
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        Number::from_i128(value).map(Value::Number).ok_or_else(|| E::custom("JSON number out of range"))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        Number::from_u128(value).map(Value::Number).ok_or_else(|| E::custom("JSON number out of range"))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.spend(0).map(|()| value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.spend(value.len()).map(|()| value.into())
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        self.spend(0).map(|()| Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.spend(0).map(|()| Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.spend(0)?;
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        self.spend(0)?;
        let mut all = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            self.spend(name.len())?;
            let value = members.next_value_seed(self)?;
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests;
