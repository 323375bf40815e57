//! The lifecycle of a manager and its groups of runnables, as a pure state machine.
//!
//! ```text
//! Created ──start──▶ Starting(group) ──each group ready──▶ Running ──stop──▶ Stopping(group) ──nothing runs──▶ Stopped
//!                        │ stop, any time                                        └─ deadline: LastCall ─┘
//! ```
//!
//! # Invariants
//!
//! 1. A runnable starts when its group is open. A group opens when all runnables of earlier groups are ready.
//!    The last group, [`RunnableGroup::LeaderOnly`], also waits until the election has made this process the
//!    leader.
//! 2. A group is cancelled when all runnables of later groups have ended. Shortly before the stop deadline
//!    (`LastCall`), all remaining groups are cancelled; at the deadline, runnables that still run are
//!    dropped.
//! 3. The elector is never cancelled while leader-only work runs, since it would release the lease too early.
//!    If that work does not end, the elector is dropped without releasing the lease.
//! 4. The phase `Stopped` is final.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::RunnableGroup;

#[cfg(test)]
mod tests;

/// The time before the stop deadline of a manager at which all remaining groups are cancelled, so that their
/// runnables have a last chance to stop. It is at most a tenth of the stop timeout.
const LAST_CALL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunnableId(u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    Start(RunnableId),
    /// Cancels the token of a group, so that its runnables stop.
    Stop(RunnableGroup),
    /// Drops the tasks of a group without waiting for its runnables to stop.
    Abandon(RunnableGroup),
    /// Ends the run of the manager, and drops all running tasks.
    Finish,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ManagerPhase {
    Created,
    /// The manager is starting or running. The groups up to this index of `RunnableGroup::ALL` have been
    /// opened: their runnables may run.
    Open(usize),
    /// The manager is stopping. The groups of `RunnableGroup::ALL` from the index `group` on have been
    /// cancelled.
    Stopping {
        group: usize,
        deadline: Option<Instant>,
        last_call: Option<Instant>,
    },
    LastCall {
        deadline: Instant,
    },
    Stopped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupPhase {
    Waiting,
    Starting,
    Ready,
}

#[derive(Debug)]
struct RunnableEntry {
    name: String,
    group: RunnableGroup,
    step: GroupPhase,
}

#[derive(Debug)]
pub(crate) struct ManagerState {
    phase: ManagerPhase,
    runnables: BTreeMap<RunnableId, RunnableEntry>,
    next: u64,
    leading: bool,
    effects: VecDeque<Effect>,
}

impl ManagerState {
    /// Creates the state of a manager that was not started. `elects` is true if the manager has leader
    /// election; without it, the process counts as the leader from the start.
    pub(crate) fn new(elects: bool) -> Self {
        Self {
            phase: ManagerPhase::Created,
            runnables: BTreeMap::new(),
            next: 0,
            leading: !elects,
            effects: VecDeque::new(),
        }
    }

    /// Adds a runnable to its group, and starts it if the group is open. Returns `None` if the manager is
    /// stopping.
    pub(crate) fn add(&mut self, name: String, group: RunnableGroup) -> Option<RunnableId> {
        let open = match self.phase {
            ManagerPhase::Created => false,
            ManagerPhase::Open(open) => index(group) <= open,
            _ => return None,
        };
        let id = RunnableId(self.next);
        self.next += 1;
        self.runnables.insert(id, RunnableEntry { name, group, step: GroupPhase::Waiting });
        if open {
            self.start_runnable(id);
        }
        Some(id)
    }

    pub(crate) fn start(&mut self) {
        if self.phase == ManagerPhase::Created {
            self.open(0);
            self.advance();
        }
    }

    pub(crate) fn ready(&mut self, id: RunnableId) {
        if let Some(runnable) = self.runnables.get_mut(&id)
            && runnable.step == GroupPhase::Starting
        {
            runnable.step = GroupPhase::Ready;
            self.advance();
        }
    }

    /// Reports that the task of a runnable has ended, by returning or by a panic. If it was the last one of a
    /// stopping group, the next group is cancelled.
    pub(crate) fn ended(&mut self, id: RunnableId) {
        if self.runnables.remove(&id).is_some() {
            self.advance();
        }
    }

    pub(crate) fn elected(&mut self) {
        self.leading = true;
        self.advance();
    }

    /// Begins to stop the manager, with `timeout` from now as the deadline. If the manager is already
    /// stopping, the earlier of the two deadlines applies.
    pub(crate) fn stop(&mut self, now: Instant, timeout: Duration) {
        let deadline = now.checked_add(timeout);
        let reserve = LAST_CALL.min(timeout / 10);
        let last_call = deadline.map(|deadline| deadline.checked_sub(reserve).unwrap_or(now));
        match &mut self.phase {
            ManagerPhase::Created | ManagerPhase::Open(_) => {
                self.runnables.retain(|_, runnable| runnable.step != GroupPhase::Waiting);
                let group = RunnableGroup::ALL.len();
                self.phase = ManagerPhase::Stopping { group, deadline, last_call };
            }
            ManagerPhase::Stopping { deadline: old, last_call: old_call, .. } => {
                if let Some(new) = deadline
                    && old.is_none_or(|old| new < old)
                {
                    (*old, *old_call) = (deadline, last_call);
                }
            }
            ManagerPhase::LastCall { deadline: old } => *old = deadline.map_or(*old, |new| new.min(*old)),
            ManagerPhase::Stopped => {}
        }
        self.advance();
        self.tick(now);
    }

    pub(crate) fn tick(&mut self, now: Instant) {
        if let ManagerPhase::Stopping { group, deadline: Some(deadline), last_call: Some(call) } = self.phase
            && call <= now
        {
            self.last_call(group);
            self.phase = ManagerPhase::LastCall { deadline };
        }
        if let ManagerPhase::LastCall { deadline } = self.phase
            && deadline <= now
        {
            self.finish();
        }
    }

    /// Returns the next deadline of a stopping manager, at which [`tick`](Self::tick) must be called. Returns
    /// `None` if there is no deadline.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            ManagerPhase::Stopping { last_call, .. } => last_call,
            ManagerPhase::LastCall { deadline } => Some(deadline),
            _ => None,
        }
    }

    pub(crate) fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Returns the names of runnables that were started and have not ended, in insertion order.
    pub(crate) fn running(&self) -> impl Iterator<Item = &str> {
        self.runnables
            .values()
            .filter(|runnable| runnable.step != GroupPhase::Waiting)
            .map(|runnable| runnable.name.as_str())
    }

    /// Returns the name of a runnable by its id; `None` if the runnable has ended.
    pub(crate) fn name(&self, id: RunnableId) -> Option<&str> {
        self.runnables.get(&id).map(|runnable| runnable.name.as_str())
    }

    pub(crate) fn group(&self, id: RunnableId) -> Option<RunnableGroup> {
        self.runnables.get(&id).map(|runnable| runnable.group)
    }

    /// Returns true if this group was opened, and the runnables of this group and of all earlier ones are
    /// ready.
    pub(crate) fn is_ready(&self, group: RunnableGroup) -> bool {
        match self.phase {
            ManagerPhase::Open(open) => index(group) <= open && self.settled(index(group)),
            _ => false,
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        !matches!(self.phase, ManagerPhase::Created | ManagerPhase::Open(_))
    }

    fn advance(&mut self) {
        match self.phase {
            ManagerPhase::Open(open) => self.open_next(open),
            ManagerPhase::Stopping { group, .. } => self.stop_next(group),
            ManagerPhase::LastCall { .. } if self.runnables.is_empty() => self.finish(),
            _ => {}
        }
    }

    fn open_next(&mut self, mut open: usize) {
        let last = RunnableGroup::ALL.len() - 1;
        while open < last && self.settled(open) && (open + 1 < last || self.leading) {
            open += 1;
            self.open(open);
        }
    }

    fn open(&mut self, group: usize) {
        self.phase = ManagerPhase::Open(group);
        let waiting: Vec<RunnableId> =
            self.members(group).filter(|(_, p)| p.step == GroupPhase::Waiting).map(|(id, _)| id).collect();
        for id in waiting {
            self.start_runnable(id);
        }
    }

    fn start_runnable(&mut self, id: RunnableId) {
        if let Some(runnable) = self.runnables.get_mut(&id) {
            runnable.step = GroupPhase::Starting;
            self.effects.push_back(Effect::Start(id));
        }
    }

    fn stop_next(&mut self, mut group: usize) {
        while self.members(group).next().is_none() {
            let Some(next) = group.checked_sub(1) else { return self.finish() };
            group = next;
            self.effects.push_back(Effect::Stop(RunnableGroup::ALL[group]));
            if let ManagerPhase::Stopping { group: current, .. } = &mut self.phase {
                *current = group;
            }
        }
    }

    /// Shortly before the stop deadline, cancels all groups that are not cancelled yet, which are those with
    /// an index below `first_cancelled`. The leader elector is dropped instead if leader-only work still
    /// runs, because a cancelled elector releases the lease.
    fn last_call(&mut self, first_cancelled: usize) {
        let leaders = self.members(index(RunnableGroup::LeaderOnly)).next().is_some();
        for group in RunnableGroup::ALL[..first_cancelled].iter().rev().copied() {
            let abandon = leaders && group == RunnableGroup::LeaderElection;
            self.effects.push_back(if abandon { Effect::Abandon(group) } else { Effect::Stop(group) });
        }
    }

    fn finish(&mut self) {
        self.phase = ManagerPhase::Stopped;
        self.effects.push_back(Effect::Finish);
    }

    fn members(&self, group: usize) -> impl Iterator<Item = (RunnableId, &RunnableEntry)> {
        self.runnables
            .iter()
            .filter(move |(_, runnable)| index(runnable.group) == group)
            .map(|(id, runnable)| (*id, runnable))
    }

    fn settled(&self, group: usize) -> bool {
        self.runnables
            .values()
            .all(|runnable| index(runnable.group) > group || runnable.step == GroupPhase::Ready)
    }
}

fn index(group: RunnableGroup) -> usize {
    group as usize
}
