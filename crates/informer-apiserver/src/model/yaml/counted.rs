//! Decodes YAML with a limit for the expansion of aliases, because a short document can refer to a long
//! anchor many times.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Size that the expansion of aliases may add to a document. It is enough for hand-written manifests, and
/// small compared with the memory.
const MAX_ALIASED: usize = 100_000;

/// kube-apiserver's error for excessive aliases.
pub(crate) const EXCESSIVE: &str = "document contains excessive aliasing";

/// Decodes YAML into a JSON value.
///
/// # Errors
///
/// Returns an error if the document is not YAML, or if the expansion of its aliases is much larger than the
/// document.
pub(crate) fn read(text: &[u8]) -> Result<Value, serde_norway::Error> {
    // A value takes at least two bytes of a document (itself and a separator), so a document without aliases
    // never exceeds this budget.
    let left = Cell::new(2 * text.len() + MAX_ALIASED);
    Budgeted(&left).deserialize(serde_norway::Deserializer::from_slice(text))
}

/// A serde deserializer seed that returns an error when the budget for decoded values is spent.
#[derive(Clone, Copy)]
struct Budgeted<'a>(&'a Cell<usize>);

impl Budgeted<'_> {
    fn spend<E: Error>(self, bytes: usize) -> Result<(), E> {
        let left = self.0.get().checked_sub(1 + bytes);
        self.0.set(left.ok_or_else(|| E::custom(EXCESSIVE))?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Budgeted<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Budgeted<'_> {
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
