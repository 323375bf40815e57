//! Records the byte offsets of the members of an object's `metadata` in its JSON.

use std::ops::Range;

use crate::prune::{Cuts, Members};

/// The maximum number of members of `metadata` whose offsets are recorded. `ObjectMeta` has 15 fields.
const MAX_MEMBERS: usize = 20;

/// How the client treats a member of `metadata`: it prunes managed fields, shares equal labels, annotations
/// and owner references between objects, and keeps other members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Role {
    #[default]
    Own,
    ManagedFields,
    Labels,
    Annotations,
    Owners,
}

/// The members of `metadata` that are usually equal in all objects of one workload, because they come from
/// its pod template.
const TEMPLATED: [Role; 3] = [Role::Labels, Role::Annotations, Role::Owners];

/// The byte offsets of the members of one `metadata` object, in the order of the JSON.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    begin: Option<usize>,
    members: [MemberSpan; MAX_MEMBERS],
    count: usize,
    /// True if the object has several `metadata` members, or `metadata` has more members than can be
    /// recorded. The recorded offsets are then incomplete and must not be used to cut members out.
    irregular: bool,
}

#[derive(Debug, Default)]
struct MemberSpan {
    role: Role,
    start: usize,
    end: usize,
}

impl Layout {
    pub(super) fn open(&mut self, begin: usize) {
        self.irregular |= self.begin.replace(begin).is_some();
        self.count = 0;
    }

    /// Records a member of `metadata`, from its key to the end of its value.
    pub(super) fn push(&mut self, role: Role, start: usize, end: usize) {
        match self.members.get_mut(self.count) {
            Some(member) => {
                *member = MemberSpan { role, start, end };
                self.count += 1;
            }
            None => self.irregular = true,
        }
    }

    fn members(&self) -> &[MemberSpan] {
        &self.members[..self.count]
    }

    /// Returns true if all member offsets are recorded, so that members can be cut out by offset.
    pub(crate) fn is_regular(&self) -> bool {
        self.begin.is_some() && !self.irregular
    }

    pub(crate) fn has_managed_fields(&self) -> bool {
        self.members().iter().any(|member| member.role == Role::ManagedFields)
    }

    /// Returns the ranges of the members `labels`, `annotations` and `ownerReferences` of `metadata`, in this
    /// order. A range includes the key. The range of an absent or duplicate member is `None`.
    pub(crate) fn templated(&self) -> [Option<Range<usize>>; 3] {
        TEMPLATED.map(|role| {
            let mut found = self.members().iter().filter(|member| member.role == role);
            let member = found.next()?;
            found.next().is_none().then_some(member.start..member.end)
        })
    }

    /// Returns the byte ranges to cut from an object for which [`is_regular`](Self::is_regular) is true: the
    /// managed fields, and those of labels, annotations and owner references (in this order) whose element of
    /// `chosen` is true.
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
