//! Immutable views of the keys that a member of a shard group owns at one time.

use std::sync::Arc;

use super::NotOwned;
use super::membership::Membership;
use super::peer::Claims;

/// The maximum number of assignments of keys in the history of a [`ShardView`]. When a replica joins or
/// leaves, each view gets about five new assignments, so the history covers several such changes.
const MAX_VIEWS: usize = 16;

/// An immutable view of the keys that this replica owns at one moment. Two views are compared to find the
/// keys that the replica has gained.
///
/// A view is not sufficient to act on a key, since it may be outdated: see
/// [`Sharding::enter`](super::Sharding::enter).
#[derive(Debug, Clone, Default)]
pub struct ShardView {
    pub(super) name: Arc<str>,
    /// The number of this view. The views of a replica are numbered in order, so the difference is the number
    /// of changes between two views.
    pub(super) number: u64,
    /// The latest assignments of keys, the current one last. The earlier ones show whether a key was lost and
    /// gained again between two reads of the view.
    pub(super) history: Vec<Arc<Assignment>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Assignment {
    /// True while the lease of this replica is valid, so that it may own keys.
    pub(super) active: bool,
    /// The memberships that the Lease of this replica may contain, and the one that it will publish next,
    /// which is the last. The replica owns a key only if all of them assign the key to it.
    pub(super) memberships: Vec<Membership>,
    /// Other members whose published memberships differ from those of this replica, so that they may act on
    /// keys that these assign to this replica.
    pub(super) others: Vec<(Arc<str>, Claims)>,
}

impl ShardView {
    /// Returns true if this replica owns the key in this view.
    pub fn owns(&self, key: &str) -> bool {
        self.check(key).is_ok()
    }

    /// Returns true if a key was gained since `before` and must be enqueued: the replica owns the key now and
    /// did not own it at some time in between. If too many views were skipped between the two, returns true
    /// for every owned key.
    pub fn gained_since(&self, before: &Self, key: &str) -> bool {
        let news = usize::try_from(self.number.saturating_sub(before.number)).unwrap_or(usize::MAX);
        if news == 0 || !self.owns(key) {
            return false;
        }
        let lost = |assignment: &Arc<Assignment>| assignment.check(&self.name, key).is_err();
        news > self.history.len() || !before.owns(key) || self.history.iter().rev().take(news).any(lost)
    }

    /// Returns the number of replicas in the shard group, including this one.
    pub fn members(&self) -> usize {
        self.history
            .last()
            .and_then(|assignment| assignment.memberships.last())
            .map_or(0, |membership| membership.names().len())
    }

    /// Returns true if this replica has a valid lease in this view, so that it may own keys.
    pub fn is_active(&self) -> bool {
        self.history.last().is_some_and(|assignment| assignment.active)
    }

    pub(super) fn check(&self, key: &str) -> Result<(), NotOwned> {
        self.history.last().map_or(Err(NotOwned::NoLease), |assignment| assignment.check(&self.name, key))
    }

    pub(super) fn next(&self, assignment: Assignment) -> Option<Self> {
        if self.history.last().is_some_and(|last| **last == assignment) {
            return None;
        }
        let mut history = self.history.clone();
        if history.len() == MAX_VIEWS {
            history.remove(0);
        }
        history.push(Arc::new(assignment));
        Some(Self { name: Arc::clone(&self.name), number: self.number + 1, history })
    }
}

impl Assignment {
    fn check(&self, name: &str, key: &str) -> Result<(), NotOwned> {
        if !self.active {
            return Err(NotOwned::NoLease);
        }
        // The last membership is the one that the replica will publish next. Keys that it assigns to other
        // members do not belong to this replica any more.
        if !self.memberships.last().is_some_and(|membership| membership.assigns(key, name)) {
            return Err(NotOwned::Elsewhere);
        }
        let claimed = |(member, claims): &(Arc<str>, Claims)| match claims {
            Claims::Members(membership) => membership.assigns(key, member),
            Claims::Unreadable => true,
        };
        if self.memberships.iter().all(|membership| membership.assigns(key, name))
            && !self.others.iter().any(claimed)
        {
            Ok(())
        } else {
            Err(NotOwned::HandOver)
        }
    }
}
