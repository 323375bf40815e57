//! The work queue with its workers, and a naive model of both.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_workqueue::{Ageing, Handout, QueueEffect, QueueState};

use crate::check::{Checked, ensure};
use crate::object::SimObject;
use crate::random::Random;
use crate::script::Setup;

struct Worker {
    handout: Option<Handout<usize>>,
    /// It waits for a wake-up.
    asleep: bool,
    /// It does something else, and takes no keys: who is done with a key need not be who takes the next.
    away: bool,
    /// What it saw of its key.
    seen: Option<Arc<SimObject>>,
}

/// A key as a naive queue would have it.
#[derive(Clone, Copy, Default)]
struct Key {
    ready: bool,
    processing: bool,
    due: Option<Instant>,
    failures: u32,
}

/// How a piece of work ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    Fails,
    Later,
    Cancelled,
}

pub(crate) struct Work {
    queue: QueueState<usize>,
    workers: Vec<Worker>,
    keys: Vec<Key>,
    /// What the last worker that was done with a key saw of it.
    pub(crate) reconciled: Vec<Option<Arc<SimObject>>>,
    /// The timer that one of the sleepers keeps.
    timer: Option<Instant>,
    /// Who sleeps, first come first woken.
    sleepers: VecDeque<usize>,
    /// The workers that are next to be cancelled, or to fail.
    pub(crate) endings: VecDeque<Ending>,
}

const PRIORITY_LOW: i32 = -100;

impl Worker {
    fn is_awake(&self) -> bool {
        !self.asleep && !self.away
    }
}

impl Work {
    pub(crate) fn new(setup: &Setup, now: Instant) -> Self {
        let worker = |_| Worker { handout: None, asleep: false, away: false, seen: None };
        Self {
            queue: match setup.priorities {
                0 => QueueState::new(now),
                _ => QueueState::with_priorities(Ageing::default(), now),
            },
            workers: (0..setup.workers).map(worker).collect(),
            keys: vec![Key::default(); setup.keys as usize],
            reconciled: vec![None; setup.keys as usize],
            timer: None,
            sleepers: VecDeque::new(),
            endings: VecDeque::new(),
        }
    }

    /// A handler saw something of a key.
    pub(crate) fn add(&mut self, key: usize, urgent: bool, after: Option<Duration>, now: Instant) -> Checked {
        let priority = if urgent { 0 } else { PRIORITY_LOW };
        let effect = self.queue.add(key, after, priority, now);
        let Some(effect) = effect else {
            ensure!("queue-forgets-nothing", false, "a queue that is open refused a key");
            return Ok(());
        };
        self.promote(now);
        let model = &mut self.keys[key];
        match after {
            None => (model.ready, model.due) = (true, None),
            Some(_) if model.ready => {}
            Some(delay) => model.due = Some(model.due.map_or(now + delay, |due| due.min(now + delay))),
        }
        self.settle(effect, now);
        self.check(now)
    }

    /// What is due is ready.
    fn promote(&mut self, now: Instant) {
        for key in &mut self.keys {
            if key.due.is_some_and(|due| due <= now) {
                (key.ready, key.due) = (true, None);
            }
        }
    }

    fn settle(&mut self, effect: QueueEffect, now: Instant) {
        if effect.rearm && self.timer.is_some() {
            self.timer = self.queue.next_due();
        }
        for _ in 0..effect.pushed {
            self.wake();
        }
        // Somebody must keep the timer.
        if self.timer.is_none() && self.queue.next_due().is_some() && !self.sleepers.is_empty() {
            self.wake();
        }
        let _ = now;
    }

    fn wake(&mut self) {
        if let Some(sleeper) = self.sleepers.pop_front() {
            self.workers[sleeper].asleep = false;
        }
    }

    /// Those who do something else look for keys again.
    pub(crate) fn come_back(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.away = false);
    }

    /// When something becomes due by itself.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        self.timer
    }

    /// The next step of a worker that can take one. False where none can.
    pub(crate) fn step(
        &mut self,
        now: Instant,
        random: &mut Random,
        look: impl Fn(usize) -> Option<Arc<SimObject>>,
    ) -> Checked<bool> {
        if self.timer.is_some_and(|timer| timer <= now) {
            self.timer = None;
            self.wake();
        }
        if random.one_in(2)
            && let Some(worker) = self.workers.iter_mut().find(|worker| worker.away)
        {
            worker.away = false;
            return Ok(true);
        }
        let awake = self.workers.iter().filter(|worker| worker.is_awake()).count();
        let Some(nth) = awake.checked_sub(1).map(|_| random.below(awake)) else { return Ok(false) };
        let index = self.workers.iter().enumerate().filter(|(_, worker)| worker.is_awake()).nth(nth);
        let index = index.map_or(0, |(index, _)| index);
        match self.workers[index].handout.take() {
            Some(handout) => self.finish(index, handout, now, random)?,
            None => self.get(index, now, look)?,
        }
        self.check(now)?;
        Ok(true)
    }

    fn get(&mut self, index: usize, now: Instant, look: impl Fn(usize) -> Option<Arc<SimObject>>) -> Checked {
        let (handout, effect) = self.queue.take(now);
        self.promote(now);
        match handout {
            Some(handout) => {
                let number = *handout.key();
                let key = &mut self.keys[number];
                ensure!("queue-one-at-a-time", !key.processing, "key {number} was handed out twice");
                ensure!("queue-forgets-nothing", key.ready, "key {number} was handed out and nobody asked");
                *key = Key { ready: false, processing: true, ..*key };
                self.workers[index].seen = look(number);
                self.workers[index].handout = Some(handout);
            }
            None => {
                let ready = self.keys.iter().any(|key| key.ready && !key.processing);
                ensure!("queue-forgets-nothing", !ready, "a key is ready, and a worker got none");
                self.workers[index].asleep = true;
                self.sleepers.push_back(index);
                if self.timer.is_none() {
                    self.timer = self.queue.next_due();
                }
            }
        }
        self.settle(effect, now);
        Ok(())
    }

    fn finish(
        &mut self,
        index: usize,
        handout: Handout<usize>,
        now: Instant,
        random: &mut Random,
    ) -> Checked {
        let number = *handout.key();
        let ordinary = if random.one_in(10) { Ending::Later } else { Ending::Done };
        let ending = self.endings.pop_front().unwrap_or(ordinary);
        self.promote(now);
        let key = &mut self.keys[number];
        let delay = match ending {
            Ending::Done => None,
            Ending::Later => Some(Duration::from_secs(random.below(20) as u64)),
            Ending::Fails | Ending::Cancelled => {
                key.failures += 1;
                Some(Duration::from_millis(5 << key.failures.min(16)))
            }
        };
        if matches!(ending, Ending::Done | Ending::Later) {
            key.failures = 0;
            self.reconciled[number] = self.workers[index].seen.take();
        }
        self.workers[index].seen = None;
        key.processing = false;
        match delay {
            Some(delay) if delay.is_zero() => (key.ready, key.due) = (true, None),
            Some(delay) if !key.ready => {
                key.due = Some(key.due.map_or(now + delay, |due| due.min(now + delay)));
            }
            _ => {}
        }
        let comes_again = key.ready || key.due.is_some();
        let priority = handout.priority();
        let (kept, effect) = self.queue.finish(handout, delay.map(|delay| (delay, priority)), now);
        ensure!("queue-forgets-nothing", kept == comes_again, "key {number} is to come again: {comes_again}");
        self.workers[index].away = random.one_in(4);
        self.settle(effect, now);
        Ok(())
    }

    fn check(&self, now: Instant) -> Checked {
        let (queue, keys) = (&self.queue, &self.keys);
        let ready = keys.iter().filter(|key| key.ready && !key.processing).count();
        let waiting = keys.iter().filter(|key| key.due.is_some()).count();
        let processing = keys.iter().filter(|key| key.processing).count();
        let due = keys.iter().filter_map(|key| key.due).min();
        let counts = (queue.ready(), queue.waiting(), queue.processing());
        ensure!(
            "queue-as-model",
            counts == (ready, waiting, processing),
            "ready, waiting, in process: {counts:?}, and by the model {:?}",
            (ready, waiting, processing)
        );
        ensure!("queue-as-model", queue.next_due() == due, "the next deadline is not that of the model");
        let idle = self.workers.iter().filter(|worker| worker.handout.is_none() && !worker.away);
        let awake = idle.clone().filter(|worker| !worker.asleep).count();
        let wanted = ready.min(idle.count());
        ensure!("queue-wakes-workers", awake >= wanted, "{ready} keys are ready, and {awake} workers look");
        let timed = self.timer.map_or(awake > 0 || self.sleepers.is_empty(), |timer| {
            due.is_none_or(|due| timer <= due || timer <= now)
        });
        ensure!("queue-wakes-workers", timed || due.is_none(), "a key is due at a time that no timer knows");
        Ok(())
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn is_awake(&self, now: Instant) -> bool {
        self.workers.iter().any(|worker| !worker.asleep) || self.timer.is_some_and(|timer| timer <= now)
    }

    /// Nothing is left after a shutdown.
    pub(crate) fn stop(&mut self, now: Instant) -> Checked {
        self.queue.shut_down(now);
        ensure!(
            "nothing-left",
            self.queue.is_finished(),
            "a queue that is empty and shut down is not finished"
        );
        ensure!(
            "nothing-left",
            self.queue.add(0, None, 0, now).is_none(),
            "a queue that is shut down takes keys"
        );
        Ok(())
    }
}
