//! Where the members of an object's `metadata` stand in its text.

use std::ops::Range;

use crate::prune::{Cuts, Members};

/// Members whose places are kept. `ObjectMeta` has 15.
const MAX_MEMBERS: usize = 20;

/// What a member is, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Role {
    #[default]
    Own,
    ManagedFields,
    Labels,
    Annotations,
    Owners,
}

/// What a template gives all objects that are made from it.
const TEMPLATED: [Role; 3] = [Role::Labels, Role::Annotations, Role::Owners];

/// The members of one `metadata`, in their order.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    begin: Option<usize>,
    members: [Member; MAX_MEMBERS],
    count: usize,
    /// There is another `metadata` before this one, or members that have no place here.
    irregular: bool,
}

#[derive(Debug, Default)]
struct Member {
    role: Role,
    start: usize,
    end: usize,
}

impl Layout {
    /// Members may follow at `begin`.
    pub(super) fn open(&mut self, begin: usize) {
        self.irregular |= self.begin.replace(begin).is_some();
        self.count = 0;
    }

    /// A member from its key to the end of its value.
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

    /// Returns true if the place of every member is known.
    pub(crate) fn is_regular(&self) -> bool {
        self.begin.is_some() && !self.irregular
    }

    /// Returns true if there are managed fields.
    pub(crate) fn has_managed_fields(&self) -> bool {
        self.members().iter().any(|member| member.role == Role::ManagedFields)
    }

    /// Where labels, annotations and owners stand, from their keys on; `None` for one that is not there, or
    /// more than once.
    pub(crate) fn templated(&self) -> [Option<Range<usize>>; 3] {
        TEMPLATED.map(|role| {
            let mut found = self.members().iter().filter(|member| member.role == role);
            let member = found.next()?;
            found.next().is_none().then_some(member.start..member.end)
        })
    }

    /// What to leave out of a regular text, for an object without managed fields, and without those of
    /// [`templated`](Self::templated) that are chosen.
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
