//! The types of values for server-side apply. They come from the built-in schema table or the schema of a
//! CRD, or are deduced from the value.

use informer_schema::{BaseType, Field, ListType as Listed, Message, Schema, Shape};
use serde_json::Value;

use super::element::Element;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Type<'a> {
    /// A struct of the schema table.
    Struct {
        message: Message<'a>,
        atomic: bool,
    },
    /// A list in the schema table.
    List(Field<'a>),
    /// A map of the schema table.
    Map(Field<'a>),
    Scalar(Scalar),
    /// The type that a part of a CRD schema describes.
    Custom {
        schema: &'a Value,
        table: &'a Schema,
        preserves: bool,
        embedded: bool,
    },
    /// An untyped value, in which objects are granular and lists are atomic.
    Free,
    /// An untyped value that is atomic, so an apply replaces it as a whole.
    Whole,
    /// The type `JSON` of the schema table: a string, or an object or list with any content.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Text,
    Number,
    Bool,
    /// A string, number or boolean.
    Any,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Atom<'a> {
    Map(MapType<'a>),
    List(ListType<'a>),
    Scalar(Scalar),
}

/// An object type: a struct with declared fields, or a map.
#[derive(Debug, Clone, Copy)]
pub(super) struct MapType<'a> {
    of: Type<'a>,
    pub(super) atomic: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ListType<'a> {
    of: Type<'a>,
    pub(super) sort: ListSort,
    pub(super) element: Type<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListSort {
    Atomic,
    Set,
    Keyed,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct MemberType<'a> {
    pub(super) of: Type<'a>,
    /// True if the type declares a field of this name; false for an entry of a map.
    pub(super) declared: bool,
}

impl<'a> Type<'a> {
    pub(crate) fn message(message: Message<'a>) -> Self {
        Self::Struct { message, atomic: message.is_atomic() }
    }

    pub(crate) fn custom(schema: &'a Value, table: &'a Schema) -> Self {
        let preserves = schema["x-kubernetes-preserve-unknown-fields"] == true;
        Self::Custom { schema, table, preserves, embedded: true }
    }

    fn of_one(field: Field<'a>) -> Self {
        match field.base() {
            BaseType::String | BaseType::Bytes | BaseType::Duration => Self::Scalar(Scalar::Text),
            BaseType::Bool => Self::Scalar(Scalar::Bool),
            BaseType::Int32 | BaseType::Int64 | BaseType::Double => Self::Scalar(Scalar::Number),
            BaseType::Time | BaseType::MicroTime | BaseType::Quantity | BaseType::IntOrString => {
                Self::Scalar(Scalar::Any)
            }
            BaseType::RawExtension | BaseType::Strings => Self::Whole,
            BaseType::FieldsV1 => Self::Free,
            BaseType::Message(message) => {
                let single = matches!(field.shape(), Shape::Value | Shape::Pointer);
                Self::Struct { message, atomic: message.is_atomic() || single && field.is_atomic() }
            }
            _ => Self::Json,
        }
    }

    fn of_field(field: Field<'a>) -> Self {
        match field.shape() {
            Shape::List => Self::List(field),
            Shape::Map => Self::Map(field),
            Shape::Value | Shape::Pointer => Self::of_one(field),
        }
    }

    fn part(self, schema: &'a Value) -> Self {
        let Self::Custom { table, preserves, .. } = self else { return Self::Free };
        let preserves = preserves || schema["x-kubernetes-preserve-unknown-fields"] == true;
        let embedded = schema["x-kubernetes-embedded-resource"] == true;
        Self::Custom { schema, table, preserves, embedded }
    }

    pub(super) fn is_custom(self) -> bool {
        matches!(self, Self::Custom { .. })
    }

    fn custom_sort(self) -> &'a str {
        match self {
            Self::Custom { schema, .. } => schema["type"].as_str().unwrap_or_default(),
            _ => "",
        }
    }

    pub(super) fn map(self) -> Option<MapType<'a>> {
        let atomic = match self {
            Self::Struct { atomic, .. } => atomic,
            // A map type is atomic by its own marker. The marker that its values are atomic does not count.
            Self::Map(field) => field.is_atomic() && !field.message().is_some_and(Message::is_atomic),
            Self::Custom { schema, .. } if matches!(self.custom_sort(), "object" | "") => {
                schema["x-kubernetes-map-type"] == "atomic"
            }
            Self::Free | Self::Json => false,
            Self::Whole => true,
            _ => return None,
        };
        Some(MapType { of: self, atomic })
    }

    pub(super) fn list(self) -> Option<ListType<'a>> {
        let (sort, element) = match self {
            Self::List(field) => (sort_of(field), Self::of_one(field)),
            Self::Custom { schema, .. } if matches!(self.custom_sort(), "array" | "") => {
                let sort = match schema["x-kubernetes-list-type"].as_str() {
                    Some("set") => ListSort::Set,
                    Some("map") => ListSort::Keyed,
                    _ => ListSort::Atomic,
                };
                let items = Some(&schema["items"]).filter(|items| items.is_object());
                (sort, items.map_or(Self::Whole, |items| self.part(items)))
            }
            Self::Free | Self::Whole | Self::Json => (ListSort::Atomic, Self::Whole),
            _ => return None,
        };
        Some(ListType { of: self, sort, element })
    }

    fn scalar(self) -> Option<Scalar> {
        match self {
            Self::Scalar(scalar) => Some(scalar),
            Self::Free | Self::Whole | Self::Json => Some(Scalar::Any),
            Self::Custom { schema, .. } => match self.custom_sort() {
                "integer" | "number" => Some(Scalar::Number),
                "boolean" => Some(Scalar::Bool),
                "string" => match schema["format"].as_str() {
                    None | Some("" | "byte") => Some(Scalar::Text),
                    Some(_) => Some(Scalar::Any),
                },
                "" => Some(Scalar::Any),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the structure (map, list or scalar) of a value with this type. If the value does not determine
    /// it, this is the first structure that the type allows.
    pub(super) fn atom(self, value: Option<&Value>) -> Atom<'a> {
        let by_value = match value {
            Some(Value::Object(_)) => self.map().map(Atom::Map),
            Some(Value::Array(_)) => self.list().map(Atom::List),
            Some(Value::Number(_) | Value::String(_) | Value::Bool(_)) => self.scalar().map(Atom::Scalar),
            Some(Value::Null) | None => None,
        };
        by_value
            .or_else(|| self.map().map(Atom::Map))
            .or_else(|| self.scalar().map(Atom::Scalar))
            .or_else(|| self.list().map(Atom::List))
            .unwrap_or(Atom::Scalar(Scalar::Any))
    }
}

impl Atom<'_> {
    /// Returns true if both structures are maps, both are lists or both are scalars.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl<'a> MapType<'a> {
    /// Returns the type of an object member, or `None` if the type does not allow the member.
    pub(super) fn member(&self, name: &str) -> Option<MemberType<'a>> {
        let declared = |of| Some(MemberType { of, declared: true });
        let any = |of| Some(MemberType { of, declared: false });
        match self.of {
            Type::Struct { message, .. } => declared(Type::of_field(message.field(name)?)),
            Type::Map(field) => any(Type::of_one(field)),
            Type::Custom { schema, table, preserves, embedded } => {
                if embedded {
                    match name {
                        "apiVersion" | "kind" => return declared(Type::Scalar(Scalar::Text)),
                        "metadata" => return declared(Type::message(table.message("meta.v1.ObjectMeta")?)),
                        _ => {}
                    }
                }
                let properties = schema["properties"].as_object();
                if let Some(property) = properties.and_then(|properties| properties.get(name)) {
                    return declared(self.of.part(property));
                }
                match &schema["additionalProperties"] {
                    Value::Object(_) => any(self.of.part(&schema["additionalProperties"])),
                    Value::Bool(true) => any(Type::Free),
                    Value::Bool(false) => None,
                    _ if preserves || properties.is_none_or(serde_json::Map::is_empty) => any(Type::Free),
                    _ => None,
                }
            }
            Type::Whole => any(Type::Whole),
            Type::Free | Type::Json => any(Type::Free),
            Type::List(_) | Type::Scalar(_) => None,
        }
    }
}

/// Returns the merge strategy of a list: its list type, or else its patch strategy.
fn sort_of(field: Field<'_>) -> ListSort {
    match field.list_type() {
        Some(Listed::Atomic) => ListSort::Atomic,
        Some(Listed::Set) => ListSort::Set,
        Some(Listed::Map) => ListSort::Keyed,
        None if !field.patch_strategy().merge => ListSort::Atomic,
        None if field.merge_key().is_some() => ListSort::Keyed,
        None => ListSort::Set,
    }
}

impl<'a> ListType<'a> {
    pub(super) fn element_of(&self, entry: &Value) -> Result<Element, String> {
        match self.sort {
            ListSort::Keyed => self.keyed(entry),
            ListSort::Set => match entry {
                Value::Object(_) => Err("associative list without keys has an element that's a map type"),
                Value::Array(_) => Err("not supported: associative list with lists as elements"),
                Value::Null => Err("associative list without keys has an element that's an explicit null"),
                scalar => Ok(Element::Value(scalar.clone())),
            }
            .map_err(str::to_owned),
            ListSort::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        }
    }

    fn keyed(&self, entry: &Value) -> Result<Element, String> {
        let members = match entry {
            Value::Object(members) => members,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let names = self.keys();
        let value = |name: &&str| {
            let value = members.get(*name).cloned().or_else(|| self.default_of(name));
            value.map(|value| (Box::<str>::from(*name), value))
        };
        let mut keys: Vec<_> = names.iter().filter_map(value).collect();
        if keys.is_empty() && !names.is_empty() {
            let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                quoted.join(" ")
            ));
        }
        keys.sort_by(|left, right| left.0.cmp(&right.0));
        Ok(Element::Key(keys))
    }

    /// Returns the names of the key fields of an associative list, in the order of its schema.
    pub(super) fn keys(&self) -> Vec<&'a str> {
        match self.of {
            Type::List(field) if field.list_type().is_some() => field.list_map_keys().collect(),
            Type::List(field) => field.merge_key().into_iter().collect(),
            Type::Custom { schema, .. } => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                keys.filter_map(Value::as_str).collect()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn default_of(&self, key: &str) -> Option<Value> {
        match self.of {
            Type::List(list) => {
                let field = list.message()?.field(key)?;
                if let Some(default) = field.default_json() {
                    return serde_json::from_str(default).ok();
                }
                // If a key field is always encoded, its default is the zero value.
                if field.omits_empty() || field.shape() != Shape::Value {
                    return None;
                }
                match field.base() {
                    BaseType::String => Some("".into()),
                    BaseType::Int32 | BaseType::Int64 | BaseType::Double => Some(0.into()),
                    BaseType::Bool => Some(false.into()),
                    _ => None,
                }
            }
            Type::Custom { schema, .. } => schema["items"]["properties"][key].get("default").cloned(),
            _ => None,
        }
    }
}
