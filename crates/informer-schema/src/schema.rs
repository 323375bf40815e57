use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use informer_core::{Gvk, Gvr};

use crate::field::{Base, Extra, FieldData};
use crate::kind::{KindData, KindSchema, Message, MessageData, slot};
use crate::resource::{GroupVersionData, Resource, ResourceData};

pub(crate) mod extra;
mod load;

/// The table, as `cargo xtask schema` writes it; `docs/schema.md` tells its grammar.
const BUILTIN: &str = include_str!("builtin.txt");

/// The releases whose kinds and fields a schema has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Releases {
    /// Those of the recorded server.
    Served,
    /// Those of the newest types too.
    All,
}

/// The place of a message in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MessageId(pub(crate) u16);

/// The built-in kinds: their fields, their resources, and how they are written.
///
/// A value, not a global: reading the table takes about a millisecond, so make one and share it in an `Arc`. It never
/// changes.
pub struct Schema {
    pub(crate) messages: Vec<MessageData>,
    pub(crate) fields: Vec<FieldData>,
    /// What few fields have.
    pub(crate) extras: Vec<Extra>,
    /// For each message one run, indexed by protobuf field number: the field, counted from its message's first, plus 1.
    pub(crate) numbers: Vec<u8>,
    /// Sorted by group, version, kind.
    pub(crate) kinds: Vec<KindData>,
    pub(crate) resources: Vec<ResourceData>,
    pub(crate) groups: Vec<GroupVersionData>,
    pub(crate) server_version: &'static str,
    pub(crate) types_version: &'static str,
    by_name: HashMap<&'static str, MessageId>,
    /// The kinds by what they are called, each with its place plus 1: at least half of it is empty.
    by_kind: Box<[u16]>,
}

impl Schema {
    /// Reads the table that is part of this crate: the kinds and fields of the server of
    /// [`Schema::server_version`], and those of the newer types of [`Schema::types_version`]. For clients, which meet
    /// servers of any version.
    pub fn builtin() -> Self {
        load::parse(BUILTIN, Releases::All)
    }

    /// Reads the same table without the kinds and fields that the server of [`Schema::server_version`] does not have.
    /// For a server: it treats a field of a newer release as unknown.
    pub fn builtin_served() -> Self {
        load::parse(BUILTIN, Releases::Served)
    }

    /// A kind. Those of `meta/v1` that are in every group (`DeleteOptions`, `Status`, `PartialObjectMetadata`, ...) are found in
    /// any of them.
    pub fn kind(&self, gvk: &Gvk) -> Option<KindSchema<'_>> {
        self.kind_of(&gvk.group, &gvk.version, &gvk.kind)
    }

    /// The same, with `apiVersion` as objects have it.
    pub fn kind_by_api_version(&self, api_version: &str, kind: &str) -> Option<KindSchema<'_>> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        self.kind_of(group, version, kind)
    }

    fn kind_of(&self, group: &str, version: &str, kind: &str) -> Option<KindSchema<'_>> {
        let index = self.index_of(group, version, kind)?;
        Some(KindSchema { schema: self, data: &self.kinds[index] })
    }

    fn index_of(&self, group: &str, version: &str, kind: &str) -> Option<usize> {
        let find = |group: &str, version: &str| {
            let mask = self.by_kind.len() - 1;
            let mut at = kind_slot(group, version, kind) & mask;
            while let Some(place) = usize::from(self.by_kind[at]).checked_sub(1) {
                let data = &self.kinds[place];
                if (data.kind, data.version, data.group) == (kind, version, group) {
                    return Some(place);
                }
                at = (at + 1) & mask;
            }
            None
        };
        find(group, version).or_else(|| find("meta.k8s.io", "v1"))
    }

    /// A kind that keeps its table: for objects that are read long after they came.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use informer_core::Gvk;
    /// use informer_schema::Schema;
    ///
    /// let pods = Arc::new(Schema::builtin()).shared_kind(&Gvk::new("", "v1", "Pod")).ok_or("no such kind")?;
    /// assert_eq!(pods.kind().name(), "Pod");
    /// # Ok::<(), &str>(())
    /// ```
    pub fn shared_kind(self: &Arc<Self>, gvk: &Gvk) -> Option<SharedKindSchema> {
        let index = self.index_of(&gvk.group, &gvk.version, &gvk.kind)?;
        Some(SharedKindSchema { schema: Arc::clone(self), index })
    }

    /// All kinds, sorted by group, version and kind.
    pub fn kinds(&self) -> impl ExactSizeIterator<Item = KindSchema<'_>> {
        self.kinds.iter().map(|data| KindSchema { schema: self, data })
    }

    /// A type by the name under which servers publish it (`io.k8s.api.core.v1.PodSpec`), or by the last three parts of
    /// that (`core.v1.PodSpec`).
    pub fn message(&self, name: &str) -> Option<Message<'_>> {
        let short = name.rmatch_indices('.').nth(2).map_or(name, |(at, _)| &name[at + 1..]);
        let message = self.message_at(*self.by_name.get(short)?);
        (name == short || message.is_named(name)).then_some(message)
    }

    /// All types, sorted by the last three parts of their names.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = Message<'_>> {
        self.messages.iter().map(|data| Message { schema: self, data })
    }

    /// The resource that a path names.
    pub fn resource(&self, gvr: &Gvr) -> Option<Resource<'_>> {
        self.resources().find(|resource| {
            resource.group() == gvr.group
                && resource.version() == gvr.version
                && resource.plural() == gvr.resource
        })
    }

    /// All resources in the order of discovery: groups and versions as the server prefers them.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = Resource<'_>> {
        self.resources.iter().map(|data| Resource { schema: self, data })
    }

    /// All groups and versions that a server has, in its order of preference; the core group, `""`, is first.
    pub fn group_versions(&self) -> impl ExactSizeIterator<Item = (&'static str, &'static str)> {
        self.groups.iter().map(|data| (data.group, data.version))
    }

    /// The version of the server that the resources were read from, as `v1.36.3`.
    pub fn server_version(&self) -> &'static str {
        self.server_version
    }

    /// The version of the newest Go modules that the types were read from, as `v0.37.2`: those of Kubernetes 1.37.
    pub fn types_version(&self) -> &'static str {
        self.types_version
    }

    pub(crate) fn message_at(&self, id: MessageId) -> Message<'_> {
        Message { schema: self, data: &self.messages[usize::from(id.0)] }
    }

    /// The fields of a message, in the order of JSON.
    pub(crate) fn fields_of(&self, id: MessageId) -> &[FieldData] {
        &self.fields[self.range_of(id)]
    }

    fn range_of(&self, id: MessageId) -> Range<usize> {
        let data = &self.messages[usize::from(id.0)];
        data.fields.start as usize..data.fields.end as usize
    }

    /// The place of a field in its message, by its protobuf number.
    pub(crate) fn place_of(&self, id: MessageId, number: u32) -> Option<usize> {
        let run = &self.messages[usize::from(id.0)].numbers;
        let run = &self.numbers[run.start as usize..run.end as usize];
        usize::from(*run.get(number as usize)?).checked_sub(1)
    }

    /// The place of a message's own field in it, by its name in JSON.
    pub(crate) fn place_named(&self, id: MessageId, name: &str) -> Option<usize> {
        let range = self.range_of(id);
        match self.message_at(id).place(name) {
            Some(place) if range.contains(&place) => Some(place - range.start),
            // An embedded type has one of that name, and may come before this one's own.
            Some(_) => self.fields[range].iter().position(|field| field.name == name && !field.flags.inline),
            None => None,
        }
    }

    /// For each protobuf number the place of the field in its message, plus 1.
    pub(crate) fn numbers_of(&self, id: MessageId) -> &[u8] {
        let run = &self.messages[usize::from(id.0)].numbers;
        &self.numbers[run.start as usize..run.end as usize]
    }

    /// Places of the fields that the wire has, from the highest number down.
    pub(crate) fn places_from_the_end(&self, id: MessageId) -> impl Iterator<Item = usize> {
        let run = &self.messages[usize::from(id.0)].numbers;
        self.numbers[run.start as usize..run.end as usize]
            .iter()
            .rev()
            .filter_map(|place| usize::from(*place).checked_sub(1))
    }

    /// The message that a base type is.
    pub(crate) fn message_of(&self, base: Base) -> Option<Message<'_>> {
        match base {
            Base::Message(id) => Some(self.message_at(id)),
            _ => None,
        }
    }
}

/// Where the search for a kind begins.
fn kind_slot(group: &str, version: &str, kind: &str) -> usize {
    slot(kind) * 3 + slot(version) * 5 + slot(group) * 7
}

/// A [`KindSchema`] with a share of its table.
#[derive(Clone)]
pub struct SharedKindSchema {
    schema: Arc<Schema>,
    index: usize,
}

impl SharedKindSchema {
    /// The kind.
    pub fn kind(&self) -> KindSchema<'_> {
        KindSchema { schema: &self.schema, data: &self.schema.kinds[self.index] }
    }

    /// The table.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }
}

impl std::fmt::Debug for SharedKindSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.kind().fmt(f)
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema")
            .field("server_version", &self.server_version)
            .field("kinds", &self.kinds.len())
            .field("messages", &self.messages.len())
            .finish_non_exhaustive()
    }
}
