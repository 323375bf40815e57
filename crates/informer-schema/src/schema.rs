use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use foldhash::fast::RandomState;
use informer_core::{Gvk, Gvr};

use crate::schema::field::{Base, Extra, FieldData};
use crate::schema::kind::{KindData, KindSchema, Message, MessageData, hash};
use crate::schema::resource::{GroupVersionData, Resource, ResourceData};

pub(crate) mod extra;
pub(crate) mod field;
pub(crate) mod kind;
mod load;
pub(crate) mod resource;

/// The schema table: the text that `cargo xtask schema` generates from a kube-apiserver and from Go types.
/// `docs/schema.md` describes its grammar.
const BUILTIN: &str = include_str!("builtin.txt");

/// Selects the Kubernetes releases whose kinds and fields a schema contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Releases {
    /// Kinds and fields of the kube-apiserver of [`Schema::server_version`].
    Served,
    /// Kinds and fields of the kube-apiserver of [`Schema::server_version`], and those that only the newer Go
    /// types of [`Schema::types_version`] have.
    All,
}

/// The index of a message type in the `messages` of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MessageId(pub(crate) u16);

/// Message types by the last three components of their names.
type Names = HashMap<&'static str, MessageId, RandomState>;

/// The built-in Kubernetes kinds, with their fields, resources and encodings.
///
/// A schema is immutable. [`builtin`](Self::builtin) and [`builtin_served`](Self::builtin_served) parse the
/// schema table once per process, because a test suite starts many clients and servers, and parsing takes a
/// millisecond, or tens of milliseconds without optimization. Both schemas stay in memory
/// until the process ends.
pub struct Schema {
    pub(crate) messages: Vec<MessageData>,
    pub(crate) fields: Vec<FieldData>,
    pub(crate) extras: Vec<Extra>,
    /// For each message, a range of entries that is indexed by protobuf field number. An entry is the index
    /// of the field in its message, plus 1; 0 means that the message has no field with this number.
    pub(crate) numbers: Vec<u8>,
    /// The kinds, sorted by group, version and kind.
    pub(crate) kinds: Vec<KindData>,
    pub(crate) resources: Vec<ResourceData>,
    pub(crate) groups: Vec<GroupVersionData>,
    pub(crate) server_version: &'static str,
    pub(crate) types_version: &'static str,
    by_name: Names,
    /// An open-addressing hash table from group, version and kind to the index of the kind in `kinds`, plus
    /// 1. At least half of its slots are empty.
    by_kind: Box<[u16]>,
}

impl Schema {
    /// Returns the schema that is compiled into this crate. It has the kinds and fields of the
    /// kube-apiserver of [`Schema::server_version`], and those that only the newer Go types of
    /// [`Schema::types_version`] have. Clients use this schema, because they send requests to servers of any
    /// version.
    pub fn builtin() -> Arc<Self> {
        static SCHEMA: LazyLock<Arc<Schema>> =
            LazyLock::new(|| Arc::new(load::parse(BUILTIN, Releases::All)));
        Arc::clone(&SCHEMA)
    }

    /// Returns the schema of [`builtin`](Self::builtin) without the kinds and fields that the
    /// kube-apiserver of [`Schema::server_version`] does not have. An embedded API server uses this schema to
    /// treat a field of a newer release as unknown, as that kube-apiserver does.
    pub fn builtin_served() -> Arc<Self> {
        static SCHEMA: LazyLock<Arc<Schema>> =
            LazyLock::new(|| Arc::new(load::parse(BUILTIN, Releases::Served)));
        Arc::clone(&SCHEMA)
    }

    /// Returns a kind. The kinds of `meta/v1` that exist in every group (`DeleteOptions`, `Status`,
    /// `PartialObjectMetadata`, ...) are found in each group.
    pub fn kind(&self, gvk: &Gvk) -> Option<KindSchema<'_>> {
        self.kind_of(&gvk.group, &gvk.version, &gvk.kind)
    }

    /// Returns a kind by the `apiVersion` and `kind` of an object.
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
            let mut at = kind_hash(group, version, kind) & mask;
            while let Some(index) = usize::from(self.by_kind[at]).checked_sub(1) {
                let data = &self.kinds[index];
                if (data.kind, data.version, data.group) == (kind, version, group) {
                    return Some(index);
                }
                at = (at + 1) & mask;
            }
            None
        };
        find(group, version).or_else(|| find("meta.k8s.io", "v1"))
    }

    /// Returns a kind that shares ownership of the schema. Unlike [`kind`](Self::kind), the result does not
    /// borrow the schema, so a value of any lifetime can contain it.
    ///
    /// ```
    /// use informer_core::Gvk;
    /// use informer_schema::Schema;
    ///
    /// let pods = Schema::builtin().shared_kind(&Gvk::new("", "v1", "Pod")).ok_or("no such kind")?;
    /// assert_eq!(pods.kind().name(), "Pod");
    /// # Ok::<(), &str>(())
    /// ```
    pub fn shared_kind(self: &Arc<Self>, gvk: &Gvk) -> Option<SharedKindSchema> {
        let index = self.index_of(&gvk.group, &gvk.version, &gvk.kind)?;
        Some(SharedKindSchema { schema: Arc::clone(self), index })
    }

    /// Returns all kinds, sorted by group, version and kind.
    pub fn kinds(&self) -> impl ExactSizeIterator<Item = KindSchema<'_>> {
        self.kinds.iter().map(|data| KindSchema { schema: self, data })
    }

    /// Returns a type by its published name (`io.k8s.api.core.v1.PodSpec`) or by the last three components of
    /// that name (`core.v1.PodSpec`).
    pub fn message(&self, name: &str) -> Option<Message<'_>> {
        let short = name.rmatch_indices('.').nth(2).map_or(name, |(at, _)| &name[at + 1..]);
        let message = self.message_at(*self.by_name.get(short)?);
        (name == short || message.is_named(name)).then_some(message)
    }

    /// Returns all types, sorted by the last three components of their names.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = Message<'_>> {
        self.messages.iter().map(|data| Message { schema: self, data })
    }

    /// Returns the resource for a group, version and plural name.
    pub fn resource(&self, gvr: &Gvr) -> Option<Resource<'_>> {
        self.resources().find(|resource| {
            resource.group() == gvr.group
                && resource.version() == gvr.version
                && resource.plural() == gvr.resource
        })
    }

    /// Returns all resources in the order of discovery, which is the server's order of preference for groups
    /// and versions.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = Resource<'_>> {
        self.resources.iter().map(|data| Resource { schema: self, data })
    }

    /// Returns all groups and versions in the server's order of preference. The core group, `""`, is first.
    pub fn group_versions(&self) -> impl ExactSizeIterator<Item = (&'static str, &'static str)> {
        self.groups.iter().map(|data| (data.group, data.version))
    }

    /// Returns the version of the kube-apiserver from which the schema table was generated, such as
    /// `v1.36.3`.
    pub fn server_version(&self) -> &'static str {
        self.server_version
    }

    /// Returns the version of the newest Go modules (`k8s.io/api`) whose types are in the schema table, such
    /// as `v0.37.2` for Kubernetes 1.37.
    pub fn types_version(&self) -> &'static str {
        self.types_version
    }

    pub(crate) fn message_at(&self, id: MessageId) -> Message<'_> {
        Message { schema: self, data: &self.messages[usize::from(id.0)] }
    }

    /// Returns the fields of a message, in the order in which JSON contains them.
    pub(crate) fn fields_of(&self, id: MessageId) -> &[FieldData] {
        &self.fields[self.range_of(id)]
    }

    fn range_of(&self, id: MessageId) -> Range<usize> {
        let data = &self.messages[usize::from(id.0)];
        data.fields.start as usize..data.fields.end as usize
    }

    /// Returns the index of a field in its message, by protobuf field number.
    pub(crate) fn index_by_number(&self, id: MessageId, number: u32) -> Option<usize> {
        let run = &self.messages[usize::from(id.0)].numbers;
        let run = &self.numbers[run.start as usize..run.end as usize];
        usize::from(*run.get(number as usize)?).checked_sub(1)
    }

    /// Returns the index of a field in its own message, by JSON name.
    #[cfg(feature = "server")]
    pub(crate) fn index_by_name(&self, id: MessageId, name: &str) -> Option<usize> {
        let range = self.range_of(id);
        match self.message_at(id).index(name) {
            Some(index) if range.contains(&index) => Some(index - range.start),
            // `Message::index` has found the field of an embedded Go struct with the same name; the message's
            // own field is looked up here.
            Some(_) => self.fields[range].iter().position(|field| field.name == name && !field.flags.inline),
            None => None,
        }
    }

    /// Returns a table of the fields of a message, indexed by protobuf field number. An entry is the index of
    /// the field in its message, plus 1; 0 means no field.
    pub(crate) fn numbers_of(&self, id: MessageId) -> &[u8] {
        let run = &self.messages[usize::from(id.0)].numbers;
        &self.numbers[run.start as usize..run.end as usize]
    }

    /// Returns the indexes of the fields that protobuf messages contain, in descending order of their field
    /// numbers: messages are written from the last field to the first.
    pub(crate) fn indexes_by_descending_number(&self, id: MessageId) -> impl Iterator<Item = usize> {
        let run = &self.messages[usize::from(id.0)].numbers;
        self.numbers[run.start as usize..run.end as usize]
            .iter()
            .rev()
            .filter_map(|index| usize::from(*index).checked_sub(1))
    }

    pub(crate) fn message_of(&self, base: Base) -> Option<Message<'_>> {
        match base {
            Base::Message(id) => Some(self.message_at(id)),
            _ => None,
        }
    }
}

fn kind_hash(group: &str, version: &str, kind: &str) -> usize {
    hash(kind) * 3 + hash(version) * 5 + hash(group) * 7
}

/// A [`KindSchema`] that shares ownership of the [`Schema`].
#[derive(Clone)]
pub struct SharedKindSchema {
    schema: Arc<Schema>,
    index: usize,
}

impl SharedKindSchema {
    /// Returns the kind.
    pub fn kind(&self) -> KindSchema<'_> {
        KindSchema { schema: &self.schema, data: &self.schema.kinds[self.index] }
    }

    /// Returns the schema that contains the kind.
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
