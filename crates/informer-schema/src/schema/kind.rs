use std::ops::Range;
use std::sync::OnceLock;

use informer_core::Gvk;

use crate::schema::field::Field;
use crate::schema::resource::Resource;
use crate::schema::{MessageId, Schema};

#[derive(Debug)]
pub(crate) struct MessageData {
    /// The last three components of the type's published name, such as `core.v1.PodSpec`.
    pub(crate) short: &'static str,
    /// The published name before its last three components, with the trailing dot, such as `io.k8s.api.`.
    pub(crate) prefix: &'static str,
    pub(crate) fields: Range<u32>,
    pub(crate) numbers: Range<u32>,
    pub(crate) atomic: bool,
    /// The fields that JSON contains, with a zero value or `null`, even if the protobuf message does not. One
    /// bit per field index.
    pub(crate) always: u64,
    /// An open-addressing hash table from JSON names to field indexes plus 1. It includes the fields of
    /// embedded Go structs, and is built on the first lookup of a name.
    pub(crate) by_name: OnceLock<Box<[u16]>>,
}

/// Hashes a field name by its length and the characters in which the names of one type mostly differ.
pub(crate) fn hash(name: &str) -> usize {
    let bytes = name.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return 0 };
    let middle = bytes[bytes.len() / 2];
    bytes.len() * 7 + usize::from(*first) * 31 + usize::from(*last) * 131 + usize::from(middle) * 17
}

/// A message type: either a kind, or a type nested in a kind.
#[derive(Clone, Copy)]
pub struct Message<'s> {
    pub(crate) schema: &'s Schema,
    pub(crate) data: &'s MessageData,
}

impl<'s> Message<'s> {
    /// Returns the name under which servers publish the type, such as `io.k8s.api.core.v1.PodSpec`.
    pub fn name(self) -> String {
        format!("{}{}", self.data.prefix, self.data.short)
    }

    /// Returns the last three components of the name, such as `core.v1.PodSpec`, which are unique.
    pub fn short_name(self) -> &'static str {
        self.data.short
    }

    pub(crate) fn is_named(self, name: &str) -> bool {
        name.strip_prefix(self.data.prefix) == Some(self.data.short)
    }

    /// Returns true if server-side apply replaces values of this type as a whole.
    pub fn is_atomic(self) -> bool {
        self.data.atomic
    }

    /// Returns the fields in the order of JSON. They include the fields of embedded Go structs (such as
    /// `apiVersion` and `kind`, or the volume sources), which appear in JSON as fields of this message.
    pub fn fields(self) -> Vec<Field<'s>> {
        let mut fields = Vec::with_capacity(self.data.fields.len());
        self.collect(&mut fields);
        fields
    }

    fn collect(self, fields: &mut Vec<Field<'s>>) {
        for field in self.own_fields() {
            match field.message() {
                Some(embedded) if field.data.flags.inline => embedded.collect(fields),
                _ => fields.push(field),
            }
        }
    }

    /// Calls a function with each of the [fields](Self::fields), without allocating a list.
    pub fn for_each_field(self, call: &mut impl FnMut(Field<'s>)) {
        for field in self.own_fields() {
            match field.message() {
                Some(embedded) if field.data.flags.inline => embedded.for_each_field(call),
                _ => call(field),
            }
        }
    }

    fn own_fields(self) -> impl Iterator<Item = Field<'s>> {
        let range = self.data.fields.start as usize..self.data.fields.end as usize;
        self.schema.fields[range].iter().map(move |data| Field { schema: self.schema, data })
    }

    /// Returns the field with this JSON name.
    pub fn field(self, name: &str) -> Option<Field<'s>> {
        let index = self.index(name)?;
        Some(Field { schema: self.schema, data: &self.schema.fields[index] })
    }

    /// Returns the index of a field in the `fields` of the [`Schema`]. A field of an embedded Go struct has
    /// one index there, whichever message embeds the struct.
    pub(crate) fn index(self, name: &str) -> Option<usize> {
        let table = self.data.by_name.get_or_init(|| self.build_name_index());
        let mask = table.len() - 1;
        let mut at = hash(name) & mask;
        while let Some(index) = usize::from(table[at]).checked_sub(1) {
            if self.schema.fields[index].name == name {
                return Some(index);
            }
            at = (at + 1) & mask;
        }
        None
    }

    fn build_name_index(self) -> Box<[u16]> {
        let mut indexes = Vec::new();
        self.indexes(&mut indexes);
        let mut table = vec![0; (2 * indexes.len()).next_power_of_two()];
        let mask = table.len() - 1;
        // If two fields of a message have the same name, a lookup finds the one that was inserted first.
        for index in indexes {
            let name = self.schema.fields[index].name;
            let mut at = hash(name) & mask;
            while table[at] != 0 {
                at = (at + 1) & mask;
            }
            table[at] = u16::try_from(index + 1).expect("the table has fewer than 65,535 fields");
        }
        table.into()
    }

    fn indexes(self, indexes: &mut Vec<usize>) {
        let range = self.data.fields.start as usize..self.data.fields.end as usize;
        for index in range {
            let field = Field { schema: self.schema, data: &self.schema.fields[index] };
            match field.message() {
                Some(embedded) if field.data.flags.inline => embedded.indexes(indexes),
                _ => indexes.push(index),
            }
        }
    }

    /// Returns the field with this protobuf number. In protobuf, an embedded Go struct is a single field
    /// without a JSON name.
    pub fn field_by_number(self, number: u32) -> Option<Field<'s>> {
        self.own_fields().find(|field| field.number() == Some(number))
    }

    pub(crate) fn is(self, other: Message<'_>) -> bool {
        std::ptr::eq(self.data, other.data)
    }
}

impl std::fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message({})", self.data.short)
    }
}

#[derive(Debug)]
pub(crate) struct KindData {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) message: MessageId,
}

/// A built-in kind in one of its versions.
#[derive(Clone, Copy)]
pub struct KindSchema<'s> {
    pub(crate) schema: &'s Schema,
    pub(crate) data: &'s KindData,
}

impl<'s> KindSchema<'s> {
    /// Returns group, version and kind.
    pub fn gvk(self) -> Gvk {
        Gvk::new(self.data.group, self.data.version, self.data.kind)
    }

    /// Returns the group of the kind; the core group is `""`.
    pub fn group(self) -> &'static str {
        self.data.group
    }

    /// Returns the version.
    pub fn version(self) -> &'static str {
        self.data.version
    }

    /// Returns the kind.
    pub fn name(self) -> &'static str {
        self.data.kind
    }

    /// Returns the message type of the kind's objects.
    pub fn message(self) -> Message<'s> {
        self.schema.message_at(self.data.message)
    }

    /// Returns the fields of the kind's objects; see [`Message::fields`].
    pub fn fields(self) -> Vec<Field<'s>> {
        self.message().fields()
    }

    /// Returns the field of the kind with this JSON name.
    pub fn field(self, name: &str) -> Option<Field<'s>> {
        self.message().field(name)
    }

    /// Returns true if the kind has a protobuf encoding. Only `Table` has none.
    pub fn has_protobuf(self) -> bool {
        self.schema.indexes_by_descending_number(self.data.message).next().is_some()
    }

    /// Returns the resource whose requests and responses contain objects of this kind; `None` for lists,
    /// options and other kinds that have no resource.
    pub fn resource(self) -> Option<Resource<'s>> {
        self.schema.resources().find(|resource| {
            (resource.group(), resource.version()) == (self.data.group, self.data.version)
                && resource.response_kind().kind == self.data.kind
                && resource.response_kind().version == self.data.version
        })
    }

    /// Returns the kind of the items of this list kind; `None` if this is not a list of built-in objects.
    pub fn item(self) -> Option<KindSchema<'s>> {
        let items = self.field("items")?.message()?;
        self.schema.kinds().find(|kind| {
            (kind.data.group, kind.data.version) == (self.data.group, self.data.version)
                && kind.message().is(items)
        })
    }
}

impl std::fmt::Debug for KindSchema<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KindSchema({}/{} {})", self.data.group, self.data.version, self.data.kind)
    }
}
