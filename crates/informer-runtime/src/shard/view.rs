//! What a member owns at one time.

use std::sync::Arc;

use super::NotOwned;
use super::peer::Claims;
use super::ring::Ring;

/// Which keys this replica owns, as of one moment: to find what was gained or lost between two of them.
///
/// To act on a key takes more than this, since time passes: see [`Sharding::enter`](super::Sharding::enter).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardView {
    pub(super) name: Arc<str>,
    /// True while the lease holds.
    pub(super) active: bool,
    /// All of these have to give it a key.
    pub(super) rings: Vec<Ring>,
    /// Members that may act by rings of their own.
    pub(super) others: Vec<(Arc<str>, Claims)>,
}

impl ShardView {
    /// True where this replica owns the key.
    pub fn owns(&self, key: &str) -> bool {
        self.check(key).is_ok()
    }

    /// How many replicas share the keys, this one included.
    pub fn members(&self) -> usize {
        self.rings.last().map_or(0, |ring| ring.names().len())
    }

    pub(super) fn check(&self, key: &str) -> Result<(), NotOwned> {
        if !self.active {
            return Err(NotOwned::NoLease);
        }
        // The last ring is the one that is to come: what it gives to others is theirs.
        if !self.rings.last().is_some_and(|ring| ring.gives(key, &self.name)) {
            return Err(NotOwned::Elsewhere);
        }
        let gives = |ring: &Ring| ring.gives(key, &self.name);
        let claimed = |(member, claims): &(Arc<str>, Claims)| match claims {
            Claims::Share(ring) => ring.gives(key, member),
            Claims::Unreadable => true,
        };
        if self.rings.iter().all(gives) && !self.others.iter().any(claimed) {
            Ok(())
        } else {
            Err(NotOwned::HandOver)
        }
    }
}
