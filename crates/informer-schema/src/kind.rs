use std::ops::Range;
use std::sync::OnceLock;

use informer_core::Gvk;

use crate::field::Field;
use crate::resource::Resource;
use crate::schema::{MessageId, Schema};

#[derive(Debug)]
pub(crate) struct MessageData {
    /// The last three parts of the name.
    pub(crate) short: &'static str,
    /// What stands before them, with its dot.
    pub(crate) prefix: &'static str,
    pub(crate) fields: Range<u32>,
    pub(crate) numbers: Range<u32>,
    pub(crate) atomic: bool,
    /// One bit for each field that JSON may have even if the wire has not, by place.
    pub(crate) always: u64,
    /// Where fields stand in the schema by their names, embedded ones with them: an open table of places plus 1, made when the first
    /// field is asked for.
    pub(crate) by_name: OnceLock<Box<[u16]>>,
}

/// Where the search for a name begins. Names of one type differ in most of this.
pub(crate) fn slot(name: &str) -> usize {
    let bytes = name.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return 0 };
    let middle = bytes[bytes.len() / 2];
    bytes.len() * 7 + usize::from(*first) * 31 + usize::from(*last) * 131 + usize::from(middle) * 17
}

/// A type with fields: a kind, or a part of one.
#[derive(Clone, Copy)]
pub struct Message<'s> {
    pub(crate) schema: &'s Schema,
    pub(crate) data: &'s MessageData,
}

impl<'s> Message<'s> {
    /// The name under which servers publish the type: `io.k8s.api.core.v1.PodSpec`.
    pub fn name(self) -> String {
        format!("{}{}", self.data.prefix, self.data.short)
    }

    /// The last three parts of the name, which tell all types apart: `core.v1.PodSpec`.
    pub fn short_name(self) -> &'static str {
        self.data.short
    }

    pub(crate) fn is_named(self, name: &str) -> bool {
        name.strip_prefix(self.data.prefix) == Some(self.data.short)
    }

    /// Whether server-side apply replaces values of this type as a whole.
    pub fn is_atomic(self) -> bool {
        self.data.atomic
    }

    /// The fields as JSON has them, in its order: those of embedded types (`apiVersion` and `kind`, sources of volumes) stand
    /// where Go writes them.
    pub fn fields(self) -> Vec<Field<'s>> {
        let mut fields = Vec::with_capacity(self.data.fields.len());
        self.collect(&mut fields);
        fields
    }

    fn collect(self, fields: &mut Vec<Field<'s>>) {
        for field in self.own() {
            match field.message() {
                Some(embedded) if field.data.flags.inline => embedded.collect(fields),
                _ => fields.push(field),
            }
        }
    }

    /// Calls with each of the [fields](Self::fields), without a list of them.
    pub fn for_each_field(self, call: &mut impl FnMut(Field<'s>)) {
        for field in self.own() {
            match field.message() {
                Some(embedded) if field.data.flags.inline => embedded.for_each_field(call),
                _ => call(field),
            }
        }
    }

    fn own(self) -> impl Iterator<Item = Field<'s>> {
        let range = self.data.fields.start as usize..self.data.fields.end as usize;
        self.schema.fields[range].iter().map(move |data| Field { schema: self.schema, data })
    }

    /// The field of that name in JSON.
    pub fn field(self, name: &str) -> Option<Field<'s>> {
        let place = self.place(name)?;
        Some(Field { schema: self.schema, data: &self.schema.fields[place] })
    }

    /// The place of that field in the whole table: of an embedded type it is among that one's fields.
    pub(crate) fn place(self, name: &str) -> Option<usize> {
        let table = self.data.by_name.get_or_init(|| self.by_name());
        let mask = table.len() - 1;
        let mut at = slot(name) & mask;
        // At least half of the table is empty.
        while let Some(place) = usize::from(table[at]).checked_sub(1) {
            if self.schema.fields[place].name == name {
                return Some(place);
            }
            at = (at + 1) & mask;
        }
        None
    }

    fn by_name(self) -> Box<[u16]> {
        let mut places = Vec::new();
        self.places(&mut places);
        let mut table = vec![0; (2 * places.len()).next_power_of_two()];
        let mask = table.len() - 1;
        // Of two that have one name the first one is found first.
        for place in places {
            let name = self.schema.fields[place].name;
            let mut at = slot(name) & mask;
            while table[at] != 0 {
                at = (at + 1) & mask;
            }
            table[at] = u16::try_from(place + 1).expect("the table has some thousands of fields");
        }
        table.into()
    }

    /// The places of the [fields](Self::fields).
    fn places(self, places: &mut Vec<usize>) {
        let range = self.data.fields.start as usize..self.data.fields.end as usize;
        for place in range {
            let field = Field { schema: self.schema, data: &self.schema.fields[place] };
            match field.message() {
                Some(embedded) if field.data.flags.inline => embedded.places(places),
                _ => places.push(place),
            }
        }
    }

    /// The field of that number in protobuf. An embedded type is one field there.
    pub fn field_by_number(self, number: u32) -> Option<Field<'s>> {
        self.own().find(|field| field.number() == Some(number))
    }

    /// Whether two names are one type.
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
    /// Group, version and kind.
    pub fn gvk(self) -> Gvk {
        Gvk::new(self.data.group, self.data.version, self.data.kind)
    }

    /// The group; the core group is `""`.
    pub fn group(self) -> &'static str {
        self.data.group
    }

    /// The version.
    pub fn version(self) -> &'static str {
        self.data.version
    }

    /// The kind.
    pub fn name(self) -> &'static str {
        self.data.kind
    }

    /// The type of its objects.
    pub fn message(self) -> Message<'s> {
        self.schema.message_at(self.data.message)
    }

    /// The fields of its objects; see [`Message::fields`].
    pub fn fields(self) -> Vec<Field<'s>> {
        self.message().fields()
    }

    /// The field of that name in JSON.
    pub fn field(self, name: &str) -> Option<Field<'s>> {
        self.message().field(name)
    }

    /// Whether protobuf has this kind. `Table` is the one that it has not.
    pub fn has_protobuf(self) -> bool {
        self.schema.places_from_the_end(self.data.message).next().is_some()
    }

    /// The resource under which a server keeps objects of this kind; `None` for lists, options and other kinds that are only
    /// sent.
    pub fn resource(self) -> Option<Resource<'s>> {
        self.schema.resources().find(|resource| {
            (resource.group(), resource.version()) == (self.data.group, self.data.version)
                && resource.response_kind().kind == self.data.kind
                && resource.response_kind().version == self.data.version
        })
    }

    /// The kind of an object in a list of this kind; `None` where this is no list of built-in objects.
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
