//! The offsets of the members of an object's `metadata` in its JSON.

use std::ops::Range;

use crate::prune::{Cuts, Members};

/// The maximum number of recorded members. `ObjectMeta` has 15.
const MAX_MEMBERS: usize = 20;

/// How a member of `metadata` is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Role {
    #[default]
    Own,
    ManagedFields,
    Labels,
    Annotations,
    Owners,
}

/// The members that are equal in all objects created from one template.
const TEMPLATED: [Role; 3] = [Role::Labels, Role::Annotations, Role::Owners];

/// The members of one `metadata`, in their order.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    begin: Option<usize>,
    members: [Member; MAX_MEMBERS],
    count: usize,
    /// There is another `metadata` before this one, or more members than can be recorded.
    irregular: bool,
}

#[derive(Debug, Default)]
struct Member {
    role: Role,
    start: usize,
    end: usize,
}

impl Layout {
    /// Starts a `metadata` whose members begin at `begin`.
    pub(super) fn open(&mut self, begin: usize) {
        self.irregular |= self.begin.replace(begin).is_some();
        self.count = 0;
    }

    /// Records a member, from its key to the end of its value.
    pub(super) fn push(&mut self, role: Role, start: usize, end: usize) {
        match self.members.get_mut(self.count) {
            Some(member) => {
                *member = Member { role, start, end };
                self.count += 1;
            }
            None => self.irregular = true,
        }
    }

    fn members(&self) -> &[Member] {
        &self.members[..self.count]
    }

    /// Returns true if the offsets of all members are recorded.
    pub(crate) fn is_regular(&self) -> bool {
        self.begin.is_some() && !self.irregular
    }

    pub(crate) fn has_managed_fields(&self) -> bool {
        self.members().iter().any(|member| member.role == Role::ManagedFields)
    }

    /// Returns the ranges of labels, annotations and owners, in this order. A range includes the key. It is
    /// `None` for a member that is absent or duplicate.
    pub(crate) fn templated(&self) -> [Option<Range<usize>>; 3] {
        TEMPLATED.map(|role| {
            let mut found = self.members().iter().filter(|member| member.role == role);
            let member = found.next()?;
            found.next().is_none().then_some(member.start..member.end)
        })
    }

    /// Returns the ranges to cut from a regular object: managed fields, and each of labels, annotations and
    /// owners (in this order) whose element of `chosen` is true.
    pub(crate) fn cuts(&self, chosen: [bool; 3]) -> Cuts {
        let unwanted = |role| {
            let place = TEMPLATED.iter().position(|templated| *templated == role);
            role == Role::ManagedFields || place.is_some_and(|place| chosen[place])
        };
        let (mut cuts, mut members) = (Cuts::default(), Members::begin(self.begin.unwrap_or_default()));
        for member in self.members() {
            if unwanted(member.role) {
                members.cut(&mut cuts, member.end);
            } else {
                members.keep(&mut cuts, member.start);
                members.ended(member.end);
            }
        }
        cuts
    }
}
