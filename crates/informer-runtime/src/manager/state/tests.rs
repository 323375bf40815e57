use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{Effect, ManagerState, RunnableId};
use crate::RunnableGroup;

#[derive(Debug, Clone)]
enum Action {
    Add(RunnableGroup),
    Start,
    Ready(prop::sample::Index),
    End(prop::sample::Index),
    Elect,
    Stop(u64),
    Pass(u64),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let one = prop_oneof![
        6 => prop::sample::select(RunnableGroup::ALL.to_vec()).prop_map(Action::Add),
        2 => Just(Action::Start),
        8 => any::<prop::sample::Index>().prop_map(Action::Ready),
        3 => any::<prop::sample::Index>().prop_map(Action::End),
        1 => Just(Action::Elect),
        1 => (0_u64..40_000).prop_map(Action::Stop),
        1 => (0_u64..40_000).prop_map(Action::Pass),
    ];
    prop::collection::vec(one, 0..60)
}

#[derive(Default)]
struct Model {
    groups: HashMap<RunnableId, RunnableGroup>,
    running: HashSet<RunnableId>,
    ready: HashSet<RunnableId>,
    /// The number of groups that were opened, with or without runnables. The model expects that a runnable
    /// starts immediately if its group is open.
    open: usize,
    asked: HashSet<RunnableGroup>,
    elected: bool,
    last_call: bool,
    finished: bool,
}

impl Model {
    fn see(&mut self, effect: &Effect) {
        assert!(!self.finished, "an effect after the end: {effect:?}");
        match effect {
            Effect::Start(id) => {
                let group = self.groups[id];
                assert!(self.asked.is_empty(), "a runnable starts while the manager stops");
                assert!(group != RunnableGroup::LeaderOnly || self.elected, "leader-only work of a standby");
                if super::index(group) >= self.open {
                    let early = self.running.iter().filter(|id| self.groups[id] < group);
                    assert!(early.clone().all(|id| self.ready.contains(id)), "{group:?} starts too soon");
                }
                self.running.insert(*id);
            }
            Effect::Stop(group) => {
                assert!(self.asked.insert(*group), "{group:?} is stopped twice");
                let later = self.running.iter().any(|id| self.groups[id] > *group);
                assert!(!later || self.last_call, "{group:?} is stopped too soon");
                let leads = self.running.iter().any(|id| self.groups[id] == RunnableGroup::LeaderOnly);
                assert!(
                    !leads || *group != RunnableGroup::LeaderElection,
                    "the lease is released while leader-only work runs"
                );
            }
            Effect::Abandon(group) => assert_eq!(*group, RunnableGroup::LeaderElection),
            Effect::Finish => self.finished = true,
        }
    }

    fn pick(&self, index: prop::sample::Index) -> Option<RunnableId> {
        let mut running: Vec<RunnableId> = self.running.iter().copied().collect();
        running.sort();
        (!running.is_empty()).then(|| running[index.index(running.len())])
    }
}

fn apply(state: &mut ManagerState, model: &mut Model, now: &mut Instant, action: Action) {
    if let super::ManagerPhase::Open(open) = state.phase {
        model.open = open + 1;
    }
    match action {
        Action::Add(group) => {
            if let Some(id) = state.add(format!("{group:?}"), group) {
                model.groups.insert(id, group);
            }
        }
        Action::Start => state.start(),
        Action::Ready(index) => {
            if let Some(id) = model.pick(index) {
                model.ready.insert(id);
                state.ready(id);
            }
        }
        Action::End(index) => {
            if let Some(id) = model.pick(index) {
                model.running.remove(&id);
                state.ended(id);
            }
        }
        Action::Elect => {
            model.elected = true;
            state.elected();
        }
        Action::Stop(millis) => state.stop(*now, Duration::from_millis(millis)),
        Action::Pass(millis) => {
            *now += Duration::from_millis(millis);
            state.tick(*now);
        }
    }
    model.last_call =
        matches!(state.phase, super::ManagerPhase::LastCall { .. } | super::ManagerPhase::Stopped);
    while let Some(effect) = state.poll_effect() {
        model.see(&effect);
    }
}

fn start() -> Instant {
    tokio::time::Instant::now().into_std()
}

proptest! {
    #[test]
    fn groups_start_in_order_stop_in_reverse_and_always_end(actions in actions(), elects: bool) {
        let (mut state, mut now) = (ManagerState::new(elects), start());
        let mut model = Model { elected: !elects, ..Model::default() };
        for action in actions {
            apply(&mut state, &mut model, &mut now, action);
        }
        // After any sequence of actions, a stop ends all runnables at the latest after two deadlines: the one
        // that cancels all groups, and the one that drops their tasks.
        apply(&mut state, &mut model, &mut now, Action::Stop(30_000));
        for _ in 0..2 {
            if let Some(deadline) = state.next_deadline() {
                now = now.max(deadline);
                apply(&mut state, &mut model, &mut now, Action::Pass(0));
            }
        }
        prop_assert!(model.finished);
        prop_assert_eq!(state.next_deadline(), None);
    }
}

#[test]
fn earlier_stop_deadline_replaces_later_one() {
    let (mut state, now) = (ManagerState::new(false), start());
    state.add("hangs".to_owned(), RunnableGroup::Others);
    state.start();
    state.stop(now, Duration::MAX);
    assert_eq!(state.next_deadline(), None, "no deadline");
    state.stop(now, Duration::from_secs(20));
    assert_eq!(state.next_deadline(), Some(now + Duration::from_secs(19)), "the last call");
    state.stop(now, Duration::from_secs(40));
    assert_eq!(state.next_deadline(), Some(now + Duration::from_secs(19)));
}

#[test]
fn elector_is_abandoned_while_leader_only_work_hangs() {
    let (mut state, now) = (ManagerState::new(true), start());
    let elector =
        state.add("elector".to_owned(), RunnableGroup::LeaderElection).expect("it accepts runnables");
    state.add("work".to_owned(), RunnableGroup::LeaderOnly);
    state.start();
    state.ready(elector);
    state.elected();
    state.stop(now, Duration::from_secs(10));
    state.tick(now + Duration::from_secs(9));
    let effects: Vec<Effect> = std::iter::from_fn(|| state.poll_effect()).collect();
    assert!(effects.contains(&Effect::Abandon(RunnableGroup::LeaderElection)), "{effects:?}");
    assert!(!effects.contains(&Effect::Stop(RunnableGroup::LeaderElection)), "{effects:?}");
}
