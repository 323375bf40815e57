//! Adds fields to a parsed schema, so that tests can simulate a server that is newer than the schema table.

use thiserror::Error;

use super::{Releases, Schema, load};
use crate::schema::field::{FieldData, Flags};

/// A field that the schema table does not have. Tests of version skew use such fields to simulate a newer
/// server.
///
/// ```
/// use informer_schema::{ExtraField, Schema};
///
/// let newer = Schema::with_extra_fields(&[ExtraField::new("core.v1.PodSpec", "priorityBand", 200, "string")])?;
/// let json = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"containers":null,"priorityBand":"x"},"status":{}}"#;
/// let wire = newer.to_protobuf(json)?;
/// assert_eq!(newer.to_json(&wire)?, json);
/// assert!(!String::from_utf8(Schema::builtin().to_json(&wire)?)?.contains("priorityBand"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExtraField {
    message: &'static str,
    name: &'static str,
    number: u8,
    value: &'static str,
}

impl ExtraField {
    /// Returns a field of the type `message`, which is given by the last three components of its name, such
    /// as `core.v1.PodSpec`.
    ///
    /// `value` is a type in the notation of the schema table (`docs/schema.md`): `string`, `*bool`, `int32`,
    /// `[]string`, `{}string`, `quantity`, or another type of the table such as `*core.v1.SecretReference` or
    /// `[]core.v1.EnvVar`. JSON omits the field when it is empty.
    pub const fn new(message: &'static str, name: &'static str, number: u8, value: &'static str) -> Self {
        Self { message, name, number, value }
    }

    /// Returns the message type to which the field is added, such as `core.v1.PodSpec`.
    pub fn message(self) -> &'static str {
        self.message
    }

    /// Returns the name of the field in JSON.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns the protobuf field number.
    pub fn number(self) -> u8 {
        self.number
    }
}

/// The error of adding a field to the schema table.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("add field {name} to {message}: {problem}")]
pub struct ExtraFieldError {
    message: &'static str,
    name: &'static str,
    problem: &'static str,
}

impl Schema {
    /// Parses the schema table like [`builtin_served`](Self::builtin_served), and adds fields to it.
    ///
    /// # Errors
    ///
    /// Returns an error if a message or value type does not exist, if the message already has a field with
    /// that name or number, or if it would have more than 64 fields.
    pub fn with_extra_fields(fields: &[ExtraField]) -> Result<Self, ExtraFieldError> {
        load::parse_and_extend(super::BUILTIN, Releases::Served, |schema| {
            fields.iter().try_for_each(|field| add(schema, *field))
        })
    }
}

fn add(schema: &mut Schema, extra: ExtraField) -> Result<(), ExtraFieldError> {
    let failed = |problem| ExtraFieldError { message: extra.message, name: extra.name, problem };
    let id = *schema.by_name.get(extra.message).ok_or_else(|| failed("there is no such message"))?;
    let (shape, base) = load::base(schema, extra.value).ok_or_else(|| failed("the value type is unknown"))?;
    let fields = schema.fields_of(id);
    if extra.number == 0 || fields.iter().any(|field| field.number == extra.number) {
        return Err(failed("the number is 0 or already used"));
    }
    // The names are compared one by one, because `Message::field` would cache an index of names without the
    // new field.
    if schema.message_at(id).fields().iter().any(|field| field.name() == extra.name) {
        return Err(failed("the name is already used"));
    }
    if fields.len() >= load::MAX_FIELDS {
        return Err(failed("the message has too many fields"));
    }
    let flags = Flags::parse("e");
    let data = FieldData {
        name: extra.name,
        number: extra.number,
        shape,
        base,
        flags,
        quiet: base.is_quiet(shape, flags),
        extra: 0,
    };
    let (message, later) =
        schema.messages[usize::from(id.0)..].split_first_mut().expect("the message was found");
    schema.fields.insert(message.fields.end as usize, data);
    message.fields.end += 1;
    for message in later {
        message.fields.start += 1;
        message.fields.end += 1;
    }
    Ok(())
}
