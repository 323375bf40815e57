//! Labels, annotations and owner references that are stored once for several objects, because objects created
//! from one pod template have equal ones. They are called the shared parts of these objects.
//!
//! The bytes stored for each object are then a valid Kubernetes object that lacks the shared members. Each
//! shared part is stored as a valid Kubernetes object that contains only that member. The same code therefore
//! reads the stored object and its shared parts.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::SeedableRandomState;
use informer_schema::Scan;

use super::body::Encoded;
use super::weak_table::WeakTable;

/// The minimum size of a shared part. Sharing a shorter part saves less memory than the pointer to it takes.
const MIN_PART_BYTES: usize = 32;

/// The number of members of `metadata` that can be shared: labels, annotations and owner references, in this
/// order.
const PARTS: usize = 3;

const NAMES: [&str; PARTS] = ["labels", "annotations", "ownerReferences"];

/// The labels, annotations and owner references that an object shares with other objects.
#[derive(Debug)]
pub(crate) struct Template {
    parts: [Option<Arc<SharedMember>>; PARTS],
}

/// One shared member of `metadata`, stored as a Kubernetes object that contains only this member.
#[derive(Debug)]
enum SharedMember {
    Json(Box<str>),
    Protobuf {
        object: Box<[u8]>,
        /// The offset in `object` at which the fields of `metadata` begin.
        head: usize,
    },
}

/// The bytes of the labels, annotations and owner references of one object, borrowed from its received bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PartBytes<'a> {
    Json([Option<&'a str>; PARTS]),
    Protobuf([Option<&'a [u8]>; PARTS]),
}

#[derive(Debug, Default)]
pub(super) struct Templates {
    hasher: SeedableRandomState,
    parts: WeakTable<SharedMember>,
    templates: WeakTable<Template>,
}

const JSON_HEAD: &str = r#"{"metadata":{"#;
const JSON_TAIL: &str = "}}";

impl Templates {
    /// Creates an empty set of shared parts whose hashes depend only on `seed`, so that a test finds the same
    /// hash collisions in each run.
    #[cfg(test)]
    pub(super) fn of_seed(seed: u64) -> Self {
        let hasher = SeedableRandomState::with_seed(seed, foldhash::SharedSeed::global_fixed());
        Self { hasher, ..Self::default() }
    }

    /// Returns the labels, annotations and owner references of an object that an earlier object also had, so
    /// that they can be shared. Parts that are seen for the first time are not shared, because most of them
    /// are unique.
    pub(super) fn of(&self, runs: PartBytes<'_>) -> Option<Arc<Template>> {
        let parts = match runs {
            PartBytes::Json(runs) => {
                runs.map(|run| self.part(run?.as_bytes(), || SharedMember::json(run.unwrap_or_default())))
            }
            PartBytes::Protobuf(runs) => {
                runs.map(|run| self.part(run?, || SharedMember::protobuf(run.unwrap_or_default())))
            }
        };
        if parts.iter().all(Option::is_none) {
            return None;
        }
        let addresses = parts.each_ref().map(address);
        let is_it = |common: &Template| common.parts.each_ref().map(address) == addresses;
        let hash = self.hasher.hash_one(addresses);
        Some(self.templates.find_or_insert(hash, is_it, || Template { parts: parts.clone() }))
    }

    fn part(&self, run: &[u8], new: impl FnOnce() -> SharedMember) -> Option<Arc<SharedMember>> {
        if run.len() < MIN_PART_BYTES {
            return None;
        }
        self.parts.find_or_insert_again(self.hasher.hash_one(run), |part| part.is(run), new)
    }
}

fn address(part: &Option<Arc<SharedMember>>) -> usize {
    part.as_ref().map_or(0, |part| Arc::as_ptr(part).addr())
}

impl SharedMember {
    fn json(member: &str) -> Self {
        Self::Json([JSON_HEAD, member, JSON_TAIL].concat().into())
    }

    fn protobuf(fields: &[u8]) -> Self {
        let object = Scan::object_of_metadata(fields);
        Self::Protobuf { head: object.len() - fields.len(), object: object.into() }
    }

    /// Returns true if this shared part was built from `run`, the received bytes of a member of `metadata`.
    fn is(&self, run: &[u8]) -> bool {
        match self {
            Self::Json(_) => self.member().is_some_and(|member| member.as_bytes() == run),
            Self::Protobuf { object, head } => &object[*head..] == run,
        }
    }

    /// Returns the JSON member, such as `"labels":{...}`, without the object around it; `None` for protobuf.
    fn member(&self) -> Option<&str> {
        match self {
            Self::Json(text) => text.strip_prefix(JSON_HEAD)?.strip_suffix(JSON_TAIL),
            Self::Protobuf { .. } => None,
        }
    }

    fn borrow(&self) -> Encoded<'_> {
        match self {
            Self::Json(text) => Encoded::Json { text, has_type: false },
            Self::Protobuf { object, .. } => Encoded::Protobuf(object),
        }
    }
}

impl Template {
    pub(crate) fn chosen(&self) -> [bool; PARTS] {
        self.parts.each_ref().map(Option::is_some)
    }

    pub(crate) fn len(&self) -> usize {
        self.encoded().map(|part| part.bytes().len()).sum()
    }

    /// Returns the shared part with this JSON name, such as `labels`, as a Kubernetes object that contains
    /// nothing else.
    pub(super) fn part(&self, name: &str) -> Option<Encoded<'_>> {
        let place = NAMES.iter().position(|known| *known == name)?;
        self.parts[place].as_deref().map(SharedMember::borrow)
    }

    /// Returns the parts of metadata that objects share, as JSON members such as `"labels":{...}`. They can
    /// be inserted into the JSON of an object. Parts that are stored as protobuf are skipped.
    pub(super) fn members(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flatten().filter_map(|part| part.member())
    }

    /// Returns the parts of metadata that objects share, each as the protobuf message of an object that
    /// contains only this part. Parts that are stored as JSON are skipped.
    pub(super) fn messages(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.encoded().filter_map(|part| match part {
            Encoded::Protobuf(message) => Some(message),
            Encoded::Json { .. } => None,
        })
    }

    fn encoded(&self) -> impl Iterator<Item = Encoded<'_>> + Clone {
        self.parts.iter().flatten().map(|part| part.borrow())
    }
}

#[cfg(test)]
mod tests;
