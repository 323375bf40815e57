//! Detects sources whose resource versions cannot be compared.

use hashbrown::HashMap;
use informer_core::{Object, ObjectKey, ResourceVersion};

/// After this many consecutive lists that contradict the order of versions, versions are no longer compared.
/// A single such list is not enough: a server that was restored from a backup and has moved its versions
/// ahead may also send one.
pub(super) const MAX_CONTRADICTIONS: u32 = 3;

/// The maximum number of rejected events that are remembered until the next list. A few of them are enough to
/// detect a list that contradicts the order of versions.
const MAX_STALE_EVENTS: usize = 64;

/// Finds out whether the versions of a source are ordered.
///
/// An event whose version is older than the cache is rejected, and a consistent list is requested. If
/// versions are ordered, the event was delivered late, and a list that is not older than the cache does not
/// show the state of the event: it shows a later one, or the object does not exist. A list that shows exactly
/// that state contradicts the order. Some aggregated APIs number each object separately, or by a clock;
/// without this check every new object would cause a list.
#[derive(Debug, Default)]
pub(super) struct VersionOrder {
    /// The uid and the resourceVersion in each event that was rejected since the last list, by the key of its
    /// object. If the next list shows an object in exactly such a state, the versions are not ordered.
    refused: HashMap<ObjectKey, (Box<str>, ResourceVersion)>,
    /// Number of consecutive lists that contradicted the order of resource versions. A list is compared, and
    /// can change this number, only if events were rejected before it.
    contradictions: u32,
}

impl VersionOrder {
    /// Returns true until [`MAX_CONTRADICTIONS`] consecutive lists have contradicted the order of resource
    /// versions. After that, the pump compares no versions of this source.
    pub(super) fn is_trusted(&self) -> bool {
        self.contradictions < MAX_CONTRADICTIONS
    }

    /// Returns true if the resourceVersion `version` is older than `than`, so that a change with `version`
    /// must not replace one with `than`. Always returns false once the versions of the source have turned out
    /// to be unordered, because then no change can be recognized as old.
    pub(super) fn is_older(&self, version: &ResourceVersion, than: &ResourceVersion) -> bool {
        self.is_trusted() && version.is_older_than(than)
    }

    /// Records an event that the pump rejected because its version is older than that of the cache. The next
    /// list is compared with the recorded events.
    pub(super) fn refuse(&mut self, object: &impl Object) {
        if self.refused.len() < MAX_STALE_EVENTS {
            let state = (object.uid().into(), object.resource_version().clone());
            self.refused.insert(object.key().clone(), state);
        }
    }

    /// Compares a list with the events that were rejected since the last list. If `rewound` is true, the list
    /// is older than the cache and proves nothing about the order of versions. Returns true if this list is
    /// the one after which versions are no longer compared.
    pub(super) fn list<'a, O: Object + 'a>(
        &mut self,
        objects: impl Iterator<Item = &'a O>,
        rewound: bool,
    ) -> bool {
        if self.refused.is_empty() || !self.is_trusted() {
            return false;
        }
        let refused = std::mem::take(&mut self.refused);
        let shows = |object: &O| {
            let state = refused.get(object.key());
            state.is_some_and(|(uid, version)| **uid == *object.uid() && version == object.resource_version())
        };
        let contradicts = !rewound && objects.into_iter().any(shows);
        self.contradictions = if contradicts { self.contradictions + 1 } else { 0 };
        !self.is_trusted()
    }
}
