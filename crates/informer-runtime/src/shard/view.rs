//! What a member owns at one time.

use std::sync::Arc;

use super::NotOwned;
use super::peer::Claims;
use super::ring::Ring;

/// So many views are remembered: a change of members makes about five of them.
const REMEMBERED_MAX: usize = 16;

/// Which keys this replica owns, as of one moment: to find what was gained between two of them.
///
/// To act on a key takes more than this, since time passes: see [`Sharding::enter`](super::Sharding::enter).
#[derive(Debug, Clone, Default)]
pub struct ShardView {
    pub(super) name: Arc<str>,
    /// Counts the views of a replica.
    pub(super) number: u64,
    /// The last ones, so that what was lost and gained again is seen by those who look seldom; the last is this one.
    pub(super) shares: Vec<Arc<Share>>,
}

/// What a replica owns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
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

    /// True where a key was gained since `before`, and has to be enqueued: one that is owned and was not, or not all the time. Where too
    /// many views lie between the two, that may be any.
    pub fn gained_since(&self, before: &Self, key: &str) -> bool {
        let news = usize::try_from(self.number.saturating_sub(before.number)).unwrap_or(usize::MAX);
        if news == 0 || !self.owns(key) {
            return false;
        }
        let lost = |share: &Arc<Share>| share.check(&self.name, key).is_err();
        news > self.shares.len() || !before.owns(key) || self.shares.iter().rev().take(news).any(lost)
    }

    /// How many replicas share the keys, this one included.
    pub fn members(&self) -> usize {
        self.shares.last().and_then(|share| share.rings.last()).map_or(0, |ring| ring.names().len())
    }

    /// True while this replica holds a lease.
    pub fn is_active(&self) -> bool {
        self.shares.last().is_some_and(|share| share.active)
    }

    pub(super) fn check(&self, key: &str) -> Result<(), NotOwned> {
        self.shares.last().map_or(Err(NotOwned::NoLease), |share| share.check(&self.name, key))
    }

    /// The view after this one; nothing where it is the same.
    pub(super) fn next(&self, share: Share) -> Option<Self> {
        if self.shares.last().is_some_and(|last| **last == share) {
            return None;
        }
        let mut shares = self.shares.clone();
        if shares.len() == REMEMBERED_MAX {
            shares.remove(0);
        }
        shares.push(Arc::new(share));
        Some(Self { name: Arc::clone(&self.name), number: self.number + 1, shares })
    }
}

impl Share {
    fn check(&self, name: &str, key: &str) -> Result<(), NotOwned> {
        if !self.active {
            return Err(NotOwned::NoLease);
        }
        // The last ring is the one that is to come: what it gives to others is theirs.
        if !self.rings.last().is_some_and(|ring| ring.gives(key, name)) {
            return Err(NotOwned::Elsewhere);
        }
        let claimed = |(member, claims): &(Arc<str>, Claims)| match claims {
            Claims::Share(ring) => ring.gives(key, member),
            Claims::Unreadable => true,
        };
        if self.rings.iter().all(|ring| ring.gives(key, name)) && !self.others.iter().any(claimed) {
            Ok(())
        } else {
            Err(NotOwned::HandOver)
        }
    }
}
