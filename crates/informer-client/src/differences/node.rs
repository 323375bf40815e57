//! The values that a comparison walks: decoded ones, and those of a JSON text.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::scan::{Cursor, ScanError};

pub(super) trait Node<'a>: Copy {
    /// Returns true if the values are known to be equal. Containers of JSON text that are equal in another
    /// notation are compared by their members.
    fn equals(self, other: Self) -> bool;

    /// Returns the members of an object; `None` for another value.
    fn members(self) -> Option<BTreeMap<Cow<'a, str>, Self>>;

    /// Returns one member of an object.
    fn member(self, name: &str) -> Option<Self>;

    /// Returns the items of an array; `None` for another value.
    fn items(self) -> Option<Vec<Self>>;

    /// Returns the string; `None` for another value.
    fn string(self) -> Option<Cow<'a, str>>;
}

impl<'a> Node<'a> for &'a Value {
    fn equals(self, other: Self) -> bool {
        self == other
    }

    fn members(self) -> Option<BTreeMap<Cow<'a, str>, Self>> {
        let members = self.as_object()?;
        Some(members.iter().map(|(name, value)| (Cow::Borrowed(name.as_str()), value)).collect())
    }

    fn member(self, name: &str) -> Option<Self> {
        self.get(name)
    }

    fn items(self) -> Option<Vec<Self>> {
        Some(self.as_array()?.iter().collect())
    }

    fn string(self) -> Option<Cow<'a, str>> {
        self.as_str().map(Cow::Borrowed)
    }
}

/// A value in a JSON text. Text that is not JSON has neither members nor items.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonText<'a>(&'a str);

impl<'a> JsonText<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self(text.trim())
    }

    fn is_container(self) -> bool {
        self.0.starts_with(['{', '['])
    }

    fn try_members(self) -> Result<BTreeMap<Cow<'a, str>, Self>, ScanError> {
        let (mut cursor, mut members, mut first) = (Cursor::new(self.0), BTreeMap::new(), true);
        cursor.object()?;
        while let Some(key) = cursor.member(&mut first)? {
            let key = key.decode().map_err(|_| cursor.error("a valid string"))?;
            let value = cursor.skip()?;
            members.insert(key, Self(cursor.slice(&value)));
        }
        Ok(members)
    }

    fn try_items(self) -> Result<Vec<Self>, ScanError> {
        let (mut cursor, mut items, mut first) = (Cursor::new(self.0), Vec::new(), true);
        cursor.expect(b'[', "an array")?;
        while cursor.element(&mut first)? {
            let value = cursor.skip()?;
            items.push(Self(cursor.slice(&value)));
        }
        Ok(items)
    }
}

impl<'a> Node<'a> for JsonText<'a> {
    fn equals(self, other: Self) -> bool {
        if self.0 == other.0 {
            return true;
        }
        if self.is_container() || other.is_container() {
            return false;
        }
        // Scalars may have several notations, such as a string with and without escapes.
        let scalar = |text| serde_json::from_str::<Value>(text).ok();
        scalar(self.0).is_some_and(|value| Some(value) == scalar(other.0))
    }

    fn members(self) -> Option<BTreeMap<Cow<'a, str>, Self>> {
        self.0.starts_with('{').then(|| self.try_members().ok())?
    }

    fn member(self, name: &str) -> Option<Self> {
        let mut cursor = Cursor::new(self.0);
        let (mut first, mut found) = (true, None);
        cursor.object().ok()?;
        while let Some(key) = cursor.member(&mut first).ok()? {
            let value = cursor.skip().ok()?;
            if key.is(name) {
                found = Some(Self(cursor.slice(&value)));
            }
        }
        found
    }

    fn items(self) -> Option<Vec<Self>> {
        self.0.starts_with('[').then(|| self.try_items().ok())?
    }

    fn string(self) -> Option<Cow<'a, str>> {
        self.0.starts_with('"').then(|| Cursor::new(self.0).string().ok()?.decode().ok())?
    }
}
