//! Looks up in the schema table how a field is merged: its merge strategy and keys.

use super::MergeError;
use crate::schema::field::{Base, Field, PatchStrategy, Shape};
use crate::schema::kind::Message;

/// The type of a value, which decides how a strategic merge patch looks up the fields inside the value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meta<'s> {
    Struct(Message<'s>),
    /// A Go struct with its own JSON unmarshaler, such as `Quantity`. Its fields are not in the schema table,
    /// so a patch can replace such a value but not merge into it.
    Opaque,
    /// A list; its entries have the base type of this field.
    List(Field<'s>),
    /// Any other value, with the Go type that the error for an invalid patch contains, such as `map` or
    /// `string`.
    Other(&'static str),
}

/// A field with the type of its value, and how that value is merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldMeta<'s> {
    pub(super) meta: Meta<'s>,
    pub(super) key: &'static str,
    strategy: PatchStrategy,
}

impl FieldMeta<'_> {
    pub(super) fn merges(&self) -> bool {
        self.strategy.merge
    }

    pub(super) fn replaces(&self) -> bool {
        self.strategy.replace
    }
}

impl<'s> Meta<'s> {
    /// Returns the field with this name. If no name matches exactly, case is ignored, as in Go.
    pub(super) fn field(self, name: &str) -> Result<FieldMeta<'s>, MergeError> {
        let no_field =
            |message: &str| MergeError::NoField { message: message.to_owned(), field: name.to_owned() };
        let message = match self {
            Self::Struct(message) => message,
            Self::Opaque => return Err(no_field("with a custom JSON encoding")),
            Self::List(_) => return Err(MergeError::NotAStruct { found: "slice" }),
            Self::Other(found) => return Err(MergeError::NotAStruct { found }),
        };
        let by_case = || message.fields().into_iter().find(|field| field.name().eq_ignore_ascii_case(name));
        let short = message.short_name().rsplit('.').next().unwrap_or_default();
        let field = message.field(name).or_else(by_case).ok_or_else(|| no_field(short))?;
        let meta = match field.data.shape {
            Shape::List => Self::List(field),
            Shape::Map => Self::Other("map"),
            Shape::Value | Shape::Pointer => Self::of_one(field),
        };
        Ok(FieldMeta { meta, key: field.merge_key().unwrap_or_default(), strategy: field.patch_strategy() })
    }

    /// Returns the list field with this name. Its `meta` is that of the list's entries.
    pub(super) fn list(self, name: &str) -> Result<FieldMeta<'s>, MergeError> {
        let field = self.field(name)?;
        let meta = match field.meta {
            Self::List(list) => Self::of_one(list),
            // As in Go, a field with a pointer type is accepted as a list. Other types that are not lists are
            // rejected.
            Self::Opaque | Self::Struct(_) | Self::Other(_) if self.is_pointer(name) => field.meta,
            _ => return Err(MergeError::NotAList { found: "struct" }),
        };
        Ok(FieldMeta { meta, ..field })
    }

    fn is_pointer(self, name: &str) -> bool {
        match self {
            Self::Struct(message) => {
                message.field(name).is_some_and(|field| field.data.shape == Shape::Pointer)
            }
            _ => false,
        }
    }

    fn of_one(field: Field<'s>) -> Self {
        match field.data.base {
            Base::Message(_) => field.message().map_or(Self::Opaque, Self::Struct),
            Base::String => Self::Other("string"),
            Base::Bool => Self::Other("bool"),
            Base::Int32 => Self::Other("int32"),
            Base::Int64 => Self::Other("int64"),
            Base::Double => Self::Other("float64"),
            Base::Bytes | Base::Strings(_) => Self::Other("slice"),
            _ => Self::Opaque,
        }
    }
}
