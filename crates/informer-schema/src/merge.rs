//! Strategic merge patch: objects are merged field by field. A list is merged or replaced, as the schema
//! table says for its field.

mod lists;
mod meta;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::schema::kind::KindSchema;
use meta::Meta;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

/// The error of applying a patch. It contains no value of the object or the patch except an unknown
/// directive.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeError {
    /// The object or the patch is not a JSON object.
    #[error("invalid JSON document")]
    Document,
    /// A list that is to be merged contains another list.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// A patch key `$deleteFromPrimitiveList` is not followed by `/` and the name of a list.
    #[error("invalid patch format of primitive list")]
    PrimitiveList,
    /// `$retainKeys` is not a list, or does not contain every key that the patch sets.
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    /// A patch key `$setElementOrder` is not followed by `/` and the name of a list.
    #[error("invalid patch format of setElementOrder list")]
    ElementOrder,
    /// The patch contains a list in another order than the `$setElementOrder` of this list.
    #[error("the order of the patch list `{field}` does not match its $setElementOrder list")]
    OrderMismatch {
        /// The name of the list, such as `containers`.
        field: String,
    },
    /// The value of a `$patch` directive is unknown.
    #[error("unknown patch type: {directive}")]
    Directive {
        /// The value of `$patch`.
        directive: String,
    },
    /// An entry of a list contains `$patch: merge`, which is not supported there.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirective,
    /// An entry of a list does not have the merge key, by which entries of the object and the patch are
    /// matched.
    #[error("an entry does not contain the declared merge key: {key}")]
    NoMergeKey {
        /// The merge key, such as `name`.
        key: String,
    },
    /// A list of objects is to be merged, but its field has no merge key in the schema table.
    #[error("cannot merge lists without merge key for struct")]
    Unkeyed,
    /// The entries of a list have different types, or are null.
    #[error("list element types are not identical")]
    MixedList,
    /// `$setElementOrder` is given for a list that is empty in the object and in the patch.
    #[error("no elements in any of the given slices")]
    NoElements,
    /// A value that is needed to merge a list has the wrong type: `$setElementOrder`, the list itself, an
    /// entry, or the merge key of an entry.
    #[error("expected {expected}")]
    Type {
        /// The expected type, such as `a list`.
        expected: &'static str,
    },
    /// The patch sets a field that the Go type of the object does not have.
    #[error("unable to find api field in struct {message} for the json field {field:?}")]
    NoField {
        /// The Go type, such as `PodSpec`.
        message: String,
        /// The JSON name of the field.
        field: String,
    },
    /// The patch merges an object into a field whose Go type is not a struct.
    #[error("merging an object in json but data type is not struct, instead is: {found}")]
    NotAStruct {
        /// The Go type of the field, such as `map` or `struct`.
        found: &'static str,
    },
    /// Object and patch both have a list in a field whose Go type is not a list.
    #[error("expected slice or array type, but got: {found}")]
    NotAList {
        /// The Go type of the field, such as `map` or `struct`.
        found: &'static str,
    },
}

impl MergeError {
    /// Returns the HTTP status with which a server rejects the patch.
    pub fn status(&self) -> u16 {
        match self {
            Self::Document | Self::PrimitiveList | Self::RetainKeys | Self::ElementOrder => 400,
            Self::ListOfLists => 422,
            _ => 500,
        }
    }
}

/// Applies a strategic merge patch to an object of this kind, with the directives `$patch`, `$retainKeys`,
/// `$deleteFromPrimitiveList` and `$setElementOrder`.
///
/// Both arguments are processed recursively. Take them from a parser that limits nesting, such as serde_json.
///
/// # Errors
///
/// Returns an error if the patch is invalid, or sets fields that the kind does not have; see
/// [`MergeError::status`].
///
/// ```
/// use informer_core::Gvk;
/// use informer_schema::{Schema, strategic_merge};
/// use serde_json::json;
///
/// let schema = Schema::builtin();
/// let kind = schema.kind(&Gvk::new("", "v1", "Pod")).ok_or("no such kind")?;
/// let pod = json!({"spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b"}]}});
/// let patch = json!({"spec": {"containers": [{"name": "a", "image": "x:2"}, {"name": "b", "$patch": "delete"}]}});
/// let patched = strategic_merge(kind, pod, patch)?;
/// assert_eq!(patched, json!({"spec": {"containers": [{"name": "a", "image": "x:2"}]}}));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn strategic_merge(kind: KindSchema<'_>, original: Value, patch: Value) -> Result<Value, MergeError> {
    match (original, patch) {
        (Value::Object(original), Value::Object(patch)) => {
            objects(original, patch, Meta::Struct(kind.message())).map(Value::Object)
        }
        _ => Err(MergeError::Document),
    }
}

type Object = Map<String, Value>;

fn objects(mut original: Object, mut patch: Object, meta: Meta<'_>) -> Result<Object, MergeError> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Map::new()),
            other => Err(MergeError::Directive { directive: other.unwrap_or("not a text").to_owned() }),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    lists::ordered(&mut original, &mut patch, meta)?;
    for (name, value) in patch {
        match name.strip_prefix(DELETE_FROM) {
            None => member(&mut original, &name, value, meta, false)?,
            Some(rest) => {
                let list = rest.strip_prefix('/').ok_or(MergeError::PrimitiveList)?;
                member(&mut original, list, value, meta, true)?;
            }
        }
    }
    Ok(original)
}

/// Applies `$retainKeys`: removes this directive from the patch, and removes the keys that the directive does
/// not list from the object.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), MergeError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let retained = retained.as_array().ok_or(MergeError::RetainKeys)?;
    if retained.iter().any(|name| name.is_object() || name.is_array()) {
        return Err(MergeError::RetainKeys);
    }
    let names: std::collections::HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let of_a_list = |name: &str| name.starts_with(DELETE_FROM) || name.starts_with(ELEMENT_ORDER);
    let named =
        |(name, value): (&String, &Value)| value.is_null() || of_a_list(name) || names.contains(&**name);
    if !patch.iter().all(named) {
        return Err(MergeError::RetainKeys);
    }
    original.retain(|name, _| names.contains(&**name));
    Ok(())
}

/// Merges one field. If `deletes` is true, the value contains the entries to remove from a list.
fn member(
    original: &mut Object,
    name: &str,
    value: Value,
    meta: Meta<'_>,
    deletes: bool,
) -> Result<(), MergeError> {
    if value.is_null() {
        original.remove(name);
        return Ok(());
    }
    let merged = match (original.get_mut(name).map(Value::take), value) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            let field = meta.field(name)?;
            if field.replaces() {
                Some(Value::Object(new))
            } else {
                Some(Value::Object(objects(old, new, field.meta)?))
            }
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            Some(Value::Array(lists::merge(old, new, &meta.list(name)?, deletes)?))
        }
        (Some(old), _) if deletes => Some(old),
        (None, _) if deletes => None,
        (_, mut new) => {
            discard_nulls(&mut new);
            without_directives(new)
        }
    };
    match merged {
        Some(merged) => drop(original.insert(name.to_owned(), merged)),
        None => drop(original.remove(name)),
    }
    Ok(())
}

/// Removes null fields from a new object: null means deletion, and a new object has no field to delete.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(discard_nulls);
        }
        Value::Array(entries) => entries.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Removes nested objects that contain a directive from a new object, because there is no existing object to
/// which the directive applies.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => None,
        Value::Object(members) => {
            let kept =
                members.into_iter().filter_map(|(name, member)| Some((name, without_directives(member)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(entries) => {
            Some(Value::Array(entries.into_iter().filter_map(without_directives).collect()))
        }
        other => Some(other),
    }
}
