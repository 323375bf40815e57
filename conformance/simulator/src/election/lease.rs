use informer_control::election::{ElectionAction, ElectionResponse, Fence, LeaseRecord, LeaseWrite};
use informer_core::ResourceVersion;

use super::Micros;
use crate::check::{Checked, ensure};
use crate::random::Random;

#[derive(Debug, Default)]
pub(super) struct Lease {
    pub(super) record: Option<LeaseRecord>,
    pub(super) version: u64,
    /// The resourceVersion of the Lease when it was last deleted; 0 if it was never deleted.
    pub(super) deleted_at: u64,
    pub(super) deleted_when: Micros,
    pub(super) terms: u64,
    /// The `leaseTransitions` of the last term of this Lease, and the resourceVersion with which the term
    /// began.
    last_term: Option<(i32, u64)>,
}

impl Lease {
    /// Handles a request for the Lease as an API server does. `wall` is the time on the writer's wall clock.
    pub(super) fn serve(&mut self, action: &ElectionAction, wall: u64) -> Checked<ElectionResponse> {
        Ok(match (action, &self.record) {
            (ElectionAction::Get, Some(record)) => {
                ElectionResponse::Lease(record.clone(), ResourceVersion::from(self.version))
            }
            (ElectionAction::Get | ElectionAction::Update(..), None) => ElectionResponse::NotFound,
            (ElectionAction::Create(_), Some(_)) => ElectionResponse::Conflict,
            (ElectionAction::Update(version, _), _) if version.as_u64() != Some(self.version) => {
                ElectionResponse::Conflict
            }
            (ElectionAction::Create(write) | ElectionAction::Update(_, write), _) => {
                self.check_write(write)?;
                self.write(write, wall)
            }
        })
    }

    fn write(&mut self, write: &LeaseWrite, wall: u64) -> ElectionResponse {
        self.version += 1;
        let now = format!("at {wall}");
        let record = LeaseRecord {
            holder: write.holder.clone(),
            duration: u32::try_from(write.duration.as_secs()).ok(),
            transitions: write.transitions,
            acquired: Some(write.acquired.clone().unwrap_or_else(|| now.clone())),
            renewed: Some(now),
            preferred: String::new(),
        };
        self.record = Some(record.clone());
        ElectionResponse::Lease(record, ResourceVersion::from(self.version))
    }

    /// Checks `leaseTransitions`: the field counts each new holder once, and neither renewals nor releases.
    /// After the Lease was deleted, two candidates can lead; if one of them continues with the Lease that the
    /// other released, it is a new holder.
    fn check_write(&self, write: &LeaseWrite) -> Checked {
        let Some(before) = &self.record else {
            ensure!("transitions", write.transitions == 0, "the first write of a lease is {write:?}");
            return Ok(());
        };
        let another = !write.holder.is_empty() && write.holder != before.holder;
        let wanted = before.transitions + i32::from(another);
        ensure!("transitions", write.transitions == wanted, "after {before:?}, the write is {write:?}");
        // If the holder stays the same, its term continues and keeps its start.
        let goes_on = write.holder == before.holder;
        ensure!(
            "transitions",
            !goes_on || write.acquired == before.acquired,
            "after {before:?}, the write is {write:?}"
        );
        Ok(())
    }

    /// Starts a term. Its fencing token must be higher than those of all earlier terms, unless a deletion of
    /// the Lease has allowed two leaders.
    pub(super) fn begin_term(&mut self, fence: &Fence, forked: bool) -> Checked {
        self.terms += 1;
        let version = fence.version.as_u64().unwrap_or_default();
        if version <= self.deleted_at {
            // The term belongs to a deleted Lease. The transitions of that Lease are unrelated to those of
            // the present one.
            return Ok(());
        }
        let grows = self.last_term.is_none_or(|(transitions, last)| {
            // A holder that acquires the lease again after a restart does not increase `leaseTransitions`.
            fence.transitions >= transitions && version > last
        });
        ensure!("fences-grow", grows || forked, "{fence:?} after {:?}", self.last_term);
        self.last_term = Some((fence.transitions, version));
        Ok(())
    }

    /// Changes the Lease as another program might do. Returns whether the change removed the holder, which
    /// may continue to lead until the lease of its last write expires.
    pub(super) fn touch(&mut self, random: &mut Random) -> bool {
        self.version += 1;
        let Some(record) = &mut self.record else { return false };
        match random.below(4) {
            0 => record.duration = None,
            1 => record.duration = Some(0),
            2 => return !std::mem::take(&mut record.holder).is_empty(),
            _ => {}
        }
        false
    }

    pub(super) fn delete(&mut self, now: Micros) {
        (self.deleted_at, self.deleted_when) = (self.version, now);
        self.version += 1;
        (self.record, self.last_term) = (None, None);
    }
}
