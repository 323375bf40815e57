//! What a member owns at one time.

use std::sync::Arc;

use super::NotOwned;
use super::membership::Membership;
use super::peer::Claims;

/// So many views are remembered: a change of members makes about five of them.
const MAX_VIEWS: usize = 16;

/// Which keys this replica owns, as of one moment: to find what was gained between two of them.
///
/// To act on a key takes more than this, since time passes: see [`Sharding::enter`](super::Sharding::enter).
#[derive(Debug, Clone, Default)]
pub struct ShardView {
    pub(super) name: Arc<str>,
    /// Counts the views of a replica.
    pub(super) number: u64,
    /// The last ones, so that what was lost and gained again is seen by those who look seldom; the last is this one.
    pub(super) history: Vec<Arc<Assignment>>,
}

/// What a replica owns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Assignment {
    /// True while the lease holds.
    pub(super) active: bool,
    /// All of these have to give it a key.
    pub(super) memberships: Vec<Membership>,
    /// Members that may act by memberships of their own.
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
        let lost = |assignment: &Arc<Assignment>| assignment.check(&self.name, key).is_err();
        news > self.history.len() || !before.owns(key) || self.history.iter().rev().take(news).any(lost)
    }

    /// How many replicas share the keys, this one included.
    pub fn members(&self) -> usize {
        self.history
            .last()
            .and_then(|assignment| assignment.memberships.last())
            .map_or(0, |membership| membership.names().len())
    }

    /// True while this replica holds a lease.
    pub fn is_active(&self) -> bool {
        self.history.last().is_some_and(|assignment| assignment.active)
    }

    pub(super) fn check(&self, key: &str) -> Result<(), NotOwned> {
        self.history.last().map_or(Err(NotOwned::NoLease), |assignment| assignment.check(&self.name, key))
    }

    /// The view after this one; nothing where it is the same.
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
        // The last membership is the one that is to come: what it gives to others is theirs.
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
