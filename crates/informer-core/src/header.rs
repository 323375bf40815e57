use std::fmt;
use std::sync::Arc;

use crate::packed_strings::PackedStrings;
use crate::{Labels, ObjectKey, ResourceVersion};

/// Represents "no generation"; no server reaches this value.
pub(crate) const NO_GENERATION: i64 = i64::MIN;

/// The metadata that a cache reads from every object without decoding it.
///
/// Each representation of an object (lazy, typed, dynamic, metadata) contains a header. The decoder fills the
/// header in the same scan that finds the end of the object. Sources other than Kubernetes create headers
/// directly:
///
/// ```
/// use informer_core::{Header, Object, ObjectKey};
///
/// let header = Header::new(ObjectKey::new("default", "web")?).with_version("3").with_uid("u-1");
/// assert_eq!(*header.resource_version(), "3");
/// # Ok::<(), informer_core::ParseKeyError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub(crate) key: ObjectKey,
    pub(crate) uid: Box<str>,
    pub(crate) version: ResourceVersion,
    /// `metadata.generation`, or [`NO_GENERATION`] if the object has none. This encoding takes eight bytes
    /// less per object than an `Option`.
    pub(crate) generation: i64,
    pub(crate) deletion_timestamp: Option<Box<str>>,
    pub(crate) labels: Labels,
    pub(crate) owners: Arc<[OwnerReference]>,
}

impl Header {
    /// Returns a header with a key and no other metadata.
    pub fn new(key: ObjectKey) -> Self {
        Self {
            key,
            uid: Box::default(),
            version: ResourceVersion::unset(),
            generation: NO_GENERATION,
            deletion_timestamp: None,
            labels: Labels::default(),
            owners: Arc::default(),
        }
    }

    /// Sets `metadata.uid`.
    pub fn with_uid(mut self, uid: impl Into<Box<str>>) -> Self {
        self.uid = uid.into();
        self
    }

    /// Sets `metadata.resourceVersion`.
    pub fn with_version(mut self, version: impl Into<ResourceVersion>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets `metadata.generation`, which servers count from 1. The value `i64::MIN` means that there is no
    /// generation.
    pub fn with_generation(mut self, generation: Option<i64>) -> Self {
        self.generation = generation.unwrap_or(NO_GENERATION);
        self
    }

    /// Sets `metadata.deletionTimestamp`, in the format in which the server wrote it.
    pub fn with_deletion_timestamp(mut self, timestamp: Option<Box<str>>) -> Self {
        self.deletion_timestamp = timestamp;
        self
    }

    /// Sets `metadata.labels`.
    pub fn with_labels<K: AsRef<str>, V: AsRef<str>>(
        mut self,
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.labels = labels.into_iter().collect();
        self
    }

    /// Sets `metadata.ownerReferences`.
    pub fn with_owners(mut self, owners: impl Into<Arc<[OwnerReference]>>) -> Self {
        self.owners = owners.into();
        self
    }

    /// Replaces labels and owners by the results of two functions. The functions return equal values that are
    /// shared with other objects.
    ///
    /// Objects of one workload have equal labels and owners. A source that interns these values stores them
    /// once.
    pub fn sharing(
        mut self,
        labels: impl FnOnce(Labels) -> Labels,
        owners: impl FnOnce(Arc<[OwnerReference]>) -> Arc<[OwnerReference]>,
    ) -> Self {
        self.labels = labels(self.labels);
        self.owners = owners(self.owners);
        self
    }

    /// Returns the heap memory of the header in bytes. Labels and owners that are shared with other headers
    /// count in full.
    pub fn held_bytes(&self) -> usize {
        let owners: usize = self.owners.iter().map(OwnerReference::held_bytes).sum();
        self.key.as_str().len() + self.uid.len() + self.labels.held_bytes() + owners
    }
}

/// One entry of `metadata.ownerReferences`.
///
/// ```
/// use informer_core::OwnerReference;
///
/// let owner = OwnerReference::new("apps/v1", "ReplicaSet", "web-6d4b75cb6d", "u-1", true);
/// assert_eq!((owner.kind(), owner.name()), ("ReplicaSet", "web-6d4b75cb6d"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OwnerReference {
    /// The strings group and version, kind, name and uid of the owner, in this order.
    strings: PackedStrings,
    controller: bool,
}

impl OwnerReference {
    /// Returns an owner reference. `api_version` is group and version, such as `apps/v1`; `controller` is
    /// true for the one owner that manages the object.
    pub fn new(api_version: &str, kind: &str, name: &str, uid: &str, controller: bool) -> Self {
        Self { strings: PackedStrings::new([api_version, kind, name, uid].into_iter()), controller }
    }

    /// Returns the group and version of the owner, such as `apps/v1`.
    pub fn api_version(&self) -> &str {
        self.string(0)
    }

    /// Returns the kind of the owner.
    pub fn kind(&self) -> &str {
        self.string(1)
    }

    /// Returns the name of the owner, which is in the namespace of the object or cluster-scoped.
    pub fn name(&self) -> &str {
        self.string(2)
    }

    /// Returns the UID of the owner.
    pub fn uid(&self) -> &str {
        self.string(3)
    }

    /// Returns true if this owner has `controller: true`, so it manages the object.
    pub fn is_controller(&self) -> bool {
        self.controller
    }

    fn string(&self, index: usize) -> &str {
        self.strings.iter().nth(index).unwrap_or_default()
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.strings.held_bytes()
    }
}

impl fmt::Debug for OwnerReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerReference")
            .field("api_version", &self.api_version())
            .field("kind", &self.kind())
            .field("name", &self.name())
            .field("uid", &self.uid())
            .field("controller", &self.controller)
            .finish()
    }
}
