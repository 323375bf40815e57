//! The life cycle of a manager's groups, as pure state.
//!
//! ```text
//! Created ──start──▶ Starting(group) ──each group ready──▶ Running ──stop──▶ Stopping(group) ──nothing runs──▶ Stopped
//!                        │ stop, any time                                        └─ deadline: LastCall ─┘
//! ```
//!
//! # Invariants
//!
//! 1. A part starts when its group is open, and a group opens when all parts of the groups before it are ready. The last group,
//!    [`RunnableGroup::LeaderOnly`], opens no sooner than the elector says.
//! 2. A group is asked to stop when nothing of the groups behind it runs any more; at the last call all are.
//! 3. The elector is never asked to stop while leader-only work runs: that would release the lease under it. It is abandoned.
//! 4. After `Stopped` nothing happens any more.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::RunnableGroup;

#[cfg(test)]
mod tests;

/// What is left of the time for stopping when everything that was not asked yet is asked at once; a tenth of shorter times.
const LAST_CALL: Duration = Duration::from_secs(1);

/// A part of the manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PartId(u64);

/// What the driver is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Runs a part.
    Start(PartId),
    /// Cancels the token of a group.
    Stop(RunnableGroup),
    /// Drops the tasks of a group where they are.
    Abandon(RunnableGroup),
    /// Everything is over. What still runs is dropped where it is.
    Finish,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Created,
    /// Starting and running: the groups up to this index are open.
    Open(usize),
    /// The groups from this index on were asked to stop.
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
enum Step {
    Waiting,
    Starting,
    Ready,
}

#[derive(Debug)]
struct Part {
    name: String,
    group: RunnableGroup,
    step: Step,
}

/// The groups and what runs in them.
#[derive(Debug)]
pub(crate) struct ManagerState {
    phase: Phase,
    parts: BTreeMap<PartId, Part>,
    next: u64,
    leading: bool,
    effects: VecDeque<Effect>,
}

impl ManagerState {
    /// A manager that has not started. Without an election it leads from the beginning.
    pub(crate) fn new(elects: bool) -> Self {
        Self {
            phase: Phase::Created,
            parts: BTreeMap::new(),
            next: 0,
            leading: !elects,
            effects: VecDeque::new(),
        }
    }

    /// Takes a part. `None` once the manager stops.
    pub(crate) fn add(&mut self, name: String, group: RunnableGroup) -> Option<PartId> {
        let open = match self.phase {
            Phase::Created => false,
            Phase::Open(open) => index(group) <= open,
            _ => return None,
        };
        let id = PartId(self.next);
        self.next += 1;
        self.parts.insert(id, Part { name, group, step: Step::Waiting });
        if open {
            self.start_part(id);
        }
        Some(id)
    }

    /// Begins.
    pub(crate) fn start(&mut self) {
        if self.phase == Phase::Created {
            self.open(0);
            self.advance();
        }
    }

    /// A part is ready.
    pub(crate) fn ready(&mut self, id: PartId) {
        if let Some(part) = self.parts.get_mut(&id)
            && part.step == Step::Starting
        {
            part.step = Step::Ready;
            self.advance();
        }
    }

    /// The task of a part is over, however it ended.
    pub(crate) fn ended(&mut self, id: PartId) {
        if self.parts.remove(&id).is_some() {
            self.advance();
        }
    }

    /// This process leads.
    pub(crate) fn elected(&mut self) {
        self.leading = true;
        self.advance();
    }

    /// Ends everything, in `timeout`. When it stops already, the earlier deadline holds.
    pub(crate) fn stop(&mut self, now: Instant, timeout: Duration) {
        let deadline = now.checked_add(timeout);
        let reserve = LAST_CALL.min(timeout / 10);
        let last_call = deadline.map(|deadline| deadline.checked_sub(reserve).unwrap_or(now));
        match &mut self.phase {
            Phase::Created | Phase::Open(_) => {
                self.parts.retain(|_, part| part.step != Step::Waiting);
                let group = RunnableGroup::ALL.len();
                self.phase = Phase::Stopping { group, deadline, last_call };
            }
            Phase::Stopping { deadline: old, last_call: old_call, .. } => {
                if let Some(new) = deadline
                    && old.is_none_or(|old| new < old)
                {
                    (*old, *old_call) = (deadline, last_call);
                }
            }
            Phase::LastCall { deadline: old } => *old = deadline.map_or(*old, |new| new.min(*old)),
            Phase::Stopped => {}
        }
        self.advance();
        self.tick(now);
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Instant) {
        if let Phase::Stopping { group, deadline: Some(deadline), last_call: Some(call) } = self.phase
            && call <= now
        {
            self.last_call(group);
            self.phase = Phase::LastCall { deadline };
        }
        if let Phase::LastCall { deadline } = self.phase
            && deadline <= now
        {
            self.finish();
        }
    }

    /// When [`tick`](Self::tick) has to be called.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Stopping { last_call, .. } => last_call,
            Phase::LastCall { deadline } => Some(deadline),
            _ => None,
        }
    }

    /// The next thing to do.
    pub(crate) fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// What runs, in the order in which it came.
    pub(crate) fn running(&self) -> impl Iterator<Item = &str> {
        self.parts.values().filter(|part| part.step != Step::Waiting).map(|part| part.name.as_str())
    }

    /// The name of a part that has not ended.
    pub(crate) fn name(&self, id: PartId) -> Option<&str> {
        self.parts.get(&id).map(|part| part.name.as_str())
    }

    /// The group of a part that has not ended.
    pub(crate) fn group(&self, id: PartId) -> Option<RunnableGroup> {
        self.parts.get(&id).map(|part| part.group)
    }

    /// True where all parts of the groups up to `group` are ready, and the group is open.
    pub(crate) fn is_ready(&self, group: RunnableGroup) -> bool {
        match self.phase {
            Phase::Open(open) => index(group) <= open && self.settled(index(group)),
            _ => false,
        }
    }

    /// True from the first call of [`stop`](Self::stop) on.
    pub(crate) fn is_stopping(&self) -> bool {
        !matches!(self.phase, Phase::Created | Phase::Open(_))
    }

    fn advance(&mut self) {
        match self.phase {
            Phase::Open(open) => self.open_next(open),
            Phase::Stopping { group, .. } => self.stop_next(group),
            Phase::LastCall { .. } if self.parts.is_empty() => self.finish(),
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
        self.phase = Phase::Open(group);
        let waiting: Vec<PartId> =
            self.members(group).filter(|(_, p)| p.step == Step::Waiting).map(|(id, _)| id).collect();
        for id in waiting {
            self.start_part(id);
        }
    }

    fn start_part(&mut self, id: PartId) {
        if let Some(part) = self.parts.get_mut(&id) {
            part.step = Step::Starting;
            self.effects.push_back(Effect::Start(id));
        }
    }

    fn stop_next(&mut self, mut group: usize) {
        while self.members(group).next().is_none() {
            let Some(next) = group.checked_sub(1) else { return self.finish() };
            group = next;
            self.effects.push_back(Effect::Stop(RunnableGroup::ALL[group]));
            if let Phase::Stopping { group: current, .. } = &mut self.phase {
                *current = group;
            }
        }
    }

    /// Asks all groups below `asked` that were not asked yet.
    fn last_call(&mut self, asked: usize) {
        let leaders = self.members(index(RunnableGroup::LeaderOnly)).next().is_some();
        for group in RunnableGroup::ALL[..asked].iter().rev().copied() {
            let abandon = leaders && group == RunnableGroup::LeaderElection;
            self.effects.push_back(if abandon { Effect::Abandon(group) } else { Effect::Stop(group) });
        }
    }

    fn finish(&mut self) {
        self.phase = Phase::Stopped;
        self.effects.push_back(Effect::Finish);
    }

    fn members(&self, group: usize) -> impl Iterator<Item = (PartId, &Part)> {
        self.parts.iter().filter(move |(_, part)| index(part.group) == group).map(|(id, part)| (*id, part))
    }

    fn settled(&self, group: usize) -> bool {
        self.parts.values().all(|part| index(part.group) > group || part.step == Step::Ready)
    }
}

fn index(group: RunnableGroup) -> usize {
    group as usize
}
