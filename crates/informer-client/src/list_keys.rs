use std::fmt;
use std::sync::Arc;

use informer_core::Gvk;
use informer_schema::{Field, Message, Schema, Shape, SharedKindSchema};
use serde_json::Value;

/// The fields that identify list elements in objects of one kind. For built-in kinds they are the list map
/// keys and merge keys, for custom resources `x-kubernetes-list-map-keys`.
///
/// ```
/// use informer_client::ListKeys;
/// use informer_core::Gvk;
///
/// let keys = ListKeys::of_builtin(&Gvk::new("", "v1", "Pod"));
/// let ports = keys.root().member("spec").member("containers").element().member("ports");
/// let names: Vec<_> = ports.keys().into_iter().map(|key| key.name).collect();
/// assert_eq!(names, ["containerPort", "protocol"]);
/// ```
#[derive(Clone, Default)]
pub struct ListKeys(SchemaSource);

#[derive(Clone, Default)]
enum SchemaSource {
    #[default]
    Unknown,
    Table(SharedKindSchema),
    OpenApi(Arc<Value>),
}

/// A position in the schema of an object, reached from [`ListKeys::root`] with [`member`](Self::member) and
/// [`element`](Self::element).
#[derive(Clone, Copy)]
pub struct ListKeysAt<'a>(At<'a>);

#[derive(Clone, Copy)]
enum At<'a> {
    Unknown,
    Message(Message<'a>),
    /// The position of a list or a map, whose definition in the schema also describes the type of its
    /// elements.
    Many(Field<'a>),
    OpenApi(&'a Value),
}

/// A field that identifies the elements of a list, such as `name` in `spec.containers`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ListKey<'a> {
    /// The name of the field in the list elements.
    pub name: &'a str,
    /// The value that the server uses for this field if a list element lacks it.
    pub default: Option<Value>,
}

impl ListKeys {
    /// Returns the list keys of a built-in kind; they are empty for any other kind.
    pub fn of_builtin(kind: &Gvk) -> Self {
        let schema = Schema::builtin();
        Self(schema.shared_kind(kind).map_or(SchemaSource::Unknown, SchemaSource::Table))
    }

    /// Returns the list keys of a custom resource from its `openAPIV3Schema`.
    pub fn of_open_api(schema: Value) -> Self {
        Self(SchemaSource::OpenApi(Arc::new(schema)))
    }

    /// Returns the list keys of each version of a CustomResourceDefinition in JSON. Versions without a schema
    /// are omitted.
    pub fn of_crd(definition: &Value) -> Vec<(Gvk, Self)> {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (Some(group), Some(kind)) = (text(&spec["group"]), text(&spec["names"]["kind"])) else {
            return Vec::new();
        };
        let versions = spec["versions"].as_array().into_iter().flatten();
        let keys = versions.filter_map(|version| {
            let schema = version["schema"].get("openAPIV3Schema")?;
            Some((Gvk::new(&group, version["name"].as_str()?, &kind), Self::of_open_api(schema.clone())))
        });
        keys.collect()
    }

    /// Returns the position of the object itself, from which the positions of its fields are reached.
    pub fn root(&self) -> ListKeysAt<'_> {
        ListKeysAt(match &self.0 {
            SchemaSource::Unknown => At::Unknown,
            SchemaSource::Table(kind) => At::Message(kind.kind().message()),
            SchemaSource::OpenApi(schema) => At::OpenApi(schema),
        })
    }
}

impl<'a> ListKeysAt<'a> {
    /// Returns the position of the field `name` of the object at this position, or of the values of a map at
    /// this position.
    #[must_use]
    pub fn member(self, name: &str) -> Self {
        Self(match self.0 {
            At::Message(message) => match message.field(name) {
                Some(field) if matches!(field.shape(), Shape::List | Shape::Map) => At::Many(field),
                field => of_message(field.and_then(Field::message)),
            },
            At::Many(field) if field.shape() == Shape::Map => of_message(field.message()),
            At::OpenApi(schema) => {
                match schema["properties"].get(name).or(schema.get("additionalProperties")) {
                    Some(schema) => At::OpenApi(schema),
                    None => At::Unknown,
                }
            }
            _ => At::Unknown,
        })
    }

    /// Returns the position of the elements of the list at this position.
    #[must_use]
    pub fn element(self) -> Self {
        Self(match self.0 {
            At::Many(field) if field.shape() == Shape::List => of_message(field.message()),
            At::OpenApi(schema) => schema.get("items").map_or(At::Unknown, At::OpenApi),
            _ => At::Unknown,
        })
    }

    /// Returns the fields that identify the elements of the list at this position; empty if they are unknown.
    pub fn keys(self) -> Vec<ListKey<'a>> {
        match self.0 {
            At::Many(field) if field.shape() == Shape::List => {
                let mut names: Vec<&'a str> = field.list_map_keys().collect();
                if names.is_empty() {
                    names.extend(field.merge_key());
                }
                let default =
                    |name: &str| serde_json::from_str(field.message()?.field(name)?.default_json()?).ok();
                names.into_iter().map(|name| ListKey { name, default: default(name) }).collect()
            }
            At::OpenApi(schema) => {
                let names = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                let members = &schema["items"]["properties"];
                let key = |name: &'a str| ListKey { name, default: members[name].get("default").cloned() };
                names.filter_map(Value::as_str).map(key).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn of_message(message: Option<Message<'_>>) -> At<'_> {
    message.map_or(At::Unknown, At::Message)
}

impl fmt::Debug for ListKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.0 {
            SchemaSource::Unknown => "unknown",
            SchemaSource::Table(_) => "table",
            SchemaSource::OpenApi(_) => "schema",
        };
        f.debug_tuple("ListKeys").field(&source).finish()
    }
}

impl fmt::Debug for ListKeysAt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ListKeysAt").field(&self.keys()).finish()
    }
}

#[cfg(test)]
mod tests;
