//! The work queue with its workers, the runtime's reaction to the result of each reconcile, and a naive model
//! with which both are compared.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_control::controller::{
    CANCEL_GRACE, ControllerLifecycle, ControllerPhase, DrainStep, Outcome, ReconcileEnd, Requeue,
    RequeueDecision, SourceStart,
};
use informer_workqueue::proto::{Handout, QueueEffect, QueueState};
use informer_workqueue::{Aging, ExponentialPerItem, RateLimiter};

use crate::check::{Checked, ensure};
use crate::object::SimObject;
use crate::random::Random;
use crate::script::Setup;

struct Worker {
    handout: Option<Handout<usize>>,
    asleep: bool,
    /// True if the worker is busy with something else and takes no keys. The worker that finishes a key then
    /// need not take the next one.
    away: bool,
    /// The state of the worker's key that its current reconcile has read.
    seen: Option<Arc<SimObject>>,
}

#[derive(Clone, Copy, Default)]
struct Key {
    ready: bool,
    processing: bool,
    due: Option<Instant>,
    failures: u32,
    /// The highest priority with which the key was added since it was last handed out.
    priority: i32,
}

impl Key {
    /// Returns the delay after which the key is due again according to the documentation of
    /// `informer_control::controller::Outcome`; `None` if the key is not requeued.
    fn promise(&mut self, ending: Ending) -> Option<Duration> {
        match ending {
            Ending::FailsForGood => None,
            Ending::Done | Ending::Later(_) => {
                self.failures = 0;
                match ending {
                    Ending::Later(seconds) if seconds > 0 => Some(Duration::from_secs(seconds)),
                    _ => None,
                }
            }
            _ => {
                let (first, longest) = RETRIES;
                let delay = first.saturating_mul(1 << self.failures.min(20)).min(longest);
                self.failures += 1;
                Some(delay)
            }
        }
    }

    fn ask(&mut self, priority: i32) {
        let asked = self.ready || self.due.is_some();
        self.priority = if asked { self.priority.max(priority) } else { priority };
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    /// The reconcile requests a requeue after this number of seconds.
    Later(u64),
    /// The reconcile requests a requeue without a failure.
    Again,
    Fails,
    FailsForGood,
    Panics,
    TimesOut,
    /// The future of the reconcile is dropped without a result.
    Cancelled,
}

pub(crate) struct Work {
    life: ControllerLifecycle,
    /// Model state: true if the source of the controller has delivered the initial objects.
    fed: bool,
    /// Model state: true if the queue of the controller is shut down.
    closed: bool,
    queue: QueueState<usize>,
    limiter: ExponentialPerItem<usize>,
    /// True if keys of higher priority always come first, however long other keys have waited.
    strict: bool,
    workers: Vec<Worker>,
    keys: Vec<Key>,
    /// For each key, the state that the last finished reconcile of the key has read.
    pub(crate) reconciled: Vec<Option<Arc<SimObject>>>,
    /// The deadline of the timer that one of the sleeping workers has armed.
    timer: Option<Instant>,
    /// The sleeping workers, in the order in which they are woken.
    sleepers: VecDeque<usize>,
    pub(crate) endings: VecDeque<Ending>,
}

/// The time within which running reconciles may finish after the controller is stopped.
const DRAIN_WITHIN: Duration = Duration::from_secs(20);

/// The first and the longest backoff of a failed key, as in the runtime's controller.
const RETRIES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1000));

impl Worker {
    fn is_awake(&self) -> bool {
        !self.asleep && !self.away
    }
}

impl Work {
    pub(crate) fn new(setup: &Setup, now: Instant) -> Self {
        let worker = |_| Worker { handout: None, asleep: false, away: false, seen: None };
        let mut life = ControllerLifecycle::new(DRAIN_WITHIN);
        // The controller's source is the first handler of the informer, which the world adds after it has
        // created the controller.
        let _ = (life.run(), life.start_sources());
        Self {
            life,
            fed: false,
            closed: false,
            queue: match setup.priorities {
                0 => QueueState::new(now),
                1 => QueueState::with_priorities(Aging::Off, now),
                _ => QueueState::with_priorities(Aging::default(), now),
            },
            limiter: ExponentialPerItem::new(RETRIES.0, RETRIES.1),
            strict: setup.priorities == 1,
            workers: (0..setup.workers).map(worker).collect(),
            keys: vec![Key::default(); setup.keys as usize],
            reconciled: vec![None; setup.keys as usize],
            timer: None,
            sleepers: VecDeque::new(),
            endings: VecDeque::new(),
        }
    }

    pub(crate) fn add(
        &mut self,
        key: usize,
        priority: i32,
        after: Option<Duration>,
        now: Instant,
    ) -> Checked {
        let effect = self.queue.add(key, after, priority, now);
        let Some(effect) = effect else {
            ensure!("queue-forgets-nothing", false, "the open queue rejected a key");
            return Ok(());
        };
        self.promote(now);
        let model = &mut self.keys[key];
        model.ask(priority);
        match after {
            None => (model.ready, model.due) = (true, None),
            Some(_) if model.ready => {}
            Some(delay) => model.due = Some(model.due.map_or(now + delay, |due| due.min(now + delay))),
        }
        self.settle(effect, now);
        self.check(now)
    }

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
        // While workers sleep and a key waits for a deadline, one of the sleeping workers must have armed a
        // timer.
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

    /// Informs the controller when its source has delivered the initial objects.
    pub(crate) fn feed(&mut self, delivered: bool) -> Checked {
        if delivered && !self.fed {
            self.fed = true;
            self.life.sources_started(true);
            let works = self.life.start_reconciling() && self.life.start_sources() == SourceStart::Started;
            ensure!(
                "controller-runs",
                works,
                "the source has delivered its initial objects, but the controller does not run: {:?}",
                self.life
            );
        }
        Ok(())
    }

    pub(crate) fn runs(&self) -> bool {
        self.life.phase() == ControllerPhase::Running
    }

    /// Makes workers that were busy with something else take keys again.
    pub(crate) fn come_back(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.away = false);
    }

    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        self.timer
    }

    /// Runs the next step of a worker that is not asleep or busy. Returns false if there is no such worker.
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
        let works = matches!(self.life.phase(), ControllerPhase::Running | ControllerPhase::Stopping);
        let awake = self.workers.iter().filter(|worker| worker.is_awake() && works).count();
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
                ensure!(
                    "queue-one-at-a-time",
                    !key.processing,
                    "key {number} was handed out while another worker processes it"
                );
                ensure!(
                    "queue-forgets-nothing",
                    key.ready,
                    "key {number} was handed out, although it was not added"
                );
                let takes = self.life.accepts_requests();
                ensure!(
                    "no-work-before-sync",
                    !takes || self.fed,
                    "key {number} is reconciled before the initial sync"
                );
                ensure!(
                    "no-work-after-stop",
                    !takes || !self.closed,
                    "key {number} is reconciled after the stop"
                );
                if !takes {
                    // The controller skips the key after a stop. This loses no change, because a restarted
                    // controller reconciles every object.
                    *key = Key { ready: false, ..*key };
                    let (_, effect) = self.queue.finish(handout, None, now);
                    self.settle(effect, now);
                    return Ok(());
                }
                let (got, wanted) = (handout.priority(), key.priority);
                ensure!(
                    "priorities-kept",
                    got == wanted,
                    "key {number} has priority {got}, expected {wanted}"
                );
                *key = Key { ready: false, processing: true, ..*key };
                let ready = self.keys.iter().filter(|key| key.ready && !key.processing);
                let first = ready.map(|key| key.priority).max().unwrap_or(i32::MIN);
                let in_order = !self.strict || got >= first;
                ensure!(
                    "news-come-first",
                    in_order,
                    "key {number} with priority {got} was handed out before one with {first}"
                );
                self.workers[index].seen = look(number);
                self.workers[index].handout = Some(handout);
            }
            None => {
                let ready = self.keys.iter().any(|key| key.ready && !key.processing);
                ensure!("queue-forgets-nothing", !ready, "a key is ready, but a worker received none");
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
        let ordinary = match random.below(20) {
            0 | 1 => Ending::Later(random.below(20) as u64),
            2 => Ending::Again,
            _ => Ending::Done,
        };
        let ending = self.endings.pop_front().unwrap_or(ordinary);
        let wanted = random.one_in(3).then(|| random.below(7) as i32 - 3);
        let (delay, priority) = self.settle_outcome(number, handout.priority(), (ending, wanted), now);
        self.promote(now);
        let key = &mut self.keys[number];
        let promised = key.promise(ending);
        ensure!(
            "retries-as-promised",
            delay == promised,
            "key {number} ended with {ending:?}: requeued after {delay:?}, expected {promised:?}"
        );
        if matches!(ending, Ending::Done | Ending::Later(_) | Ending::FailsForGood) {
            self.reconciled[number] = self.workers[index].seen.take();
        }
        self.workers[index].seen = None;
        key.processing = false;
        if let Some(delay) = delay.filter(|_| !self.closed) {
            let kept =
                if let Ending::Again | Ending::Fails | Ending::Later(_) = ending { wanted } else { None };
            key.ask(kept.unwrap_or(handout.priority()));
            match delay.is_zero() {
                true => (key.ready, key.due) = (true, None),
                false if !key.ready => {
                    key.due = Some(key.due.map_or(now + delay, |due| due.min(now + delay)));
                }
                false => {}
            }
        }
        let comes_again = key.ready || key.due.is_some();
        let (kept, effect) = self.queue.finish(handout, delay.map(|delay| (delay, priority)), now);
        ensure!(
            "queue-forgets-nothing",
            kept == comes_again,
            "key {number}: the reconcile requires a requeue: {comes_again}"
        );
        self.workers[index].away = random.one_in(4);
        self.settle(effect, now);
        Ok(())
    }

    /// Applies the runtime's reaction to the end of a reconcile: it decides when the key is due again, and
    /// with which priority.
    fn settle_outcome(
        &self,
        number: usize,
        had: i32,
        (ending, wanted): (Ending, Option<i32>),
        now: Instant,
    ) -> (Option<Duration>, i32) {
        let with = |outcome: Outcome| wanted.map_or(outcome, |wanted| outcome.with_priority(wanted));
        let again_later = || Some(self.limiter.when(&number, tokio::time::Instant::from_std(now)));
        let ended = match ending {
            Ending::Done => ReconcileEnd::Succeeded(Outcome::Done),
            Ending::Later(seconds) => {
                ReconcileEnd::Succeeded(with(Outcome::requeue_after(Duration::from_secs(seconds))))
            }
            Ending::Again => ReconcileEnd::Succeeded(with(Outcome::requeue())),
            Ending::Fails => ReconcileEnd::Failed { terminal: false, priority: wanted },
            Ending::FailsForGood => ReconcileEnd::Failed { terminal: true, priority: wanted },
            Ending::Panics => ReconcileEnd::Panicked,
            Ending::TimesOut => ReconcileEnd::TimedOut,
            // A cancelled reconcile drops its item, which the queue treats as a failure.
            Ending::Cancelled => return (again_later(), had),
        };
        let decision = RequeueDecision::of(ended);
        if decision.forget {
            self.limiter.forget(&number);
        }
        let delay = match decision.requeue {
            Requeue::Never => None,
            Requeue::After(delay) => Some(delay),
            Requeue::RateLimited => again_later(),
        };
        (delay, decision.priority.unwrap_or(had))
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
            "ready, delayed, processing: {counts:?}, in the model {:?}",
            (ready, waiting, processing)
        );
        ensure!(
            "queue-as-model",
            queue.next_due() == due,
            "the next deadline differs from that of the model"
        );
        let idle = self.workers.iter().filter(|worker| worker.handout.is_none() && !worker.away);
        let awake = idle.clone().filter(|worker| !worker.asleep).count();
        let wanted = ready.min(idle.count());
        ensure!(
            "queue-wakes-workers",
            awake >= wanted,
            "{ready} keys are ready, and {awake} workers are awake"
        );
        let timed = self.timer.map_or(awake > 0 || self.sleepers.is_empty(), |timer| {
            due.is_none_or(|due| timer <= due || timer <= now)
        });
        ensure!("queue-wakes-workers", timed || due.is_none(), "a key becomes due, but no timer is set");
        Ok(())
    }

    /// Stops the controller. Running reconciles finish within the allowed time or are cancelled, and waiting
    /// keys are not started. Returns how the controller ended.
    pub(crate) fn drain(&mut self, now: Instant, random: &mut Random) -> Checked<(&'static str, Duration)> {
        let ran = self.runs();
        self.life.stop(now);
        self.queue.shut_down(now);
        self.promote(now);
        self.closed = true;
        self.keys.iter_mut().for_each(|key| key.due = None);
        self.timer = None;
        self.come_back();
        let (mut time, mut how) = (now, if ran { "drained" } else { "stopped" });
        let slow = random.below(self.workers.len() + 1);
        for index in slow..self.workers.len() {
            self.end_reconcile(index, time, random)?;
        }
        while let Some(deadline) = self.life.next_deadline().filter(|_| self.queue.processing() > 0) {
            time = time.max(deadline);
            match self.life.tick(time) {
                Some(DrainStep::Cancel) => {
                    how = "cancelled";
                    for index in 0..random.below(slow + 1) {
                        self.end_reconcile(index, time, random)?;
                    }
                }
                Some(DrainStep::Drop) => {
                    how = "dropped";
                    for index in 0..self.workers.len() {
                        self.endings.push_front(Ending::Cancelled);
                        self.end_reconcile(index, time, random)?;
                        self.endings.pop_front();
                    }
                }
                None => {}
            }
        }
        while self.queue.ready() > 0 {
            self.get(0, time, |_| None)?;
        }
        let took = time.saturating_duration_since(now);
        ensure!(
            "drains-in-time",
            took <= DRAIN_WITHIN + CANCEL_GRACE,
            "the controller took {took:?} to stop"
        );
        self.stop(time)?;
        self.life.end();
        let over = self.life.phase() == ControllerPhase::Stopped && !self.life.run();
        ensure!("drains-in-time", over, "the stopped controller is in the state {:?}", self.life);
        Ok((how, took))
    }

    fn end_reconcile(&mut self, index: usize, now: Instant, random: &mut Random) -> Checked {
        match self.workers[index].handout.take() {
            Some(handout) => self.finish(index, handout, now, random),
            None => Ok(()),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Checks that no key and no timer is left after the queue is shut down.
    pub(crate) fn stop(&mut self, now: Instant) -> Checked {
        self.queue.shut_down(now);
        ensure!(
            "nothing-left",
            self.queue.is_finished(),
            "the queue is empty and shut down, but not finished"
        );
        ensure!(
            "nothing-left",
            self.queue.add(0, None, 0, now).is_none(),
            "the queue accepts keys after its shutdown"
        );
        Ok(())
    }
}
