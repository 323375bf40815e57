//! Waiting in `get`: the lock, the wake-ups and the timer.
//!
//! The queue starts no task. One of the waiting getters, the *keeper*, owns the timer. A queue therefore
//! needs one timer for any number of workers and waiting keys, has no task to stop, and works on every
//! runtime flavor. While no getter waits, no timer is needed: the next getter makes the keys ready whose
//! delay is over.
//!
//! # Invariants
//! 1. `sleepers` counts the getters that found no ready key and were not yet resumed or dropped.
//! 2. `keeper` is set iff one of the sleepers has armed a timer for the next deadline that it read under the
//!    lock.
//! 3. If getters sleep and keys wait, there is a keeper, or a woken sleeper is about to become it.
//! 4. A wake-up is sent after the state change it announces was made under the lock, and a getter enables its
//!    wake-up before its last check: no wake-up is lost. A getter that is dropped after it was woken passes
//!    the wake-up on (`tokio::sync::Notify` does so).
//!
//! # Lock order
//! A queue has one lock, which is never held across an await or a wake-up. The only user code that runs under
//! it is Eq and Clone of a key, and a user-defined [`Order`](super::Order).
//!
//! # Shutdown
//! 1. The phase changes under the lock. 2. All sleepers are woken. 3. Waiting keys are dropped, a few at a
//!    time.
//!
//! After shutdown, getters return `None` when no key is ready and no key in process was added again.

use std::pin::pin;

use parking_lot::MutexGuard;
use tokio::sync::Notify;
use tokio::time::sleep_until;

use super::lock::QueueLock;
use super::state::{Effect, Finished, Phase, State, Taken, Ticket};
use crate::clock::{Clock, Nanos};

pub(super) struct Inner<K> {
    pub(super) state: State<K>,
    sleepers: usize,
    keeper: bool,
    /// Number of callers of `WorkQueue::idle`, which wait until the queue is empty.
    idlers: usize,
}

/// The state of a queue, with its lock and its wake-ups. The rate limiter, the function for groups and the
/// metrics are in `WorkQueue`, because the lock must not be held while they run.
pub(super) struct Driver<K> {
    inner: QueueLock<Inner<K>>,
    clock: Clock,
    timed: bool,
    /// Wakes getters (tasks that wait in `get`) when a key is ready, when the queue is shut down, or when a
    /// getter has to take over the timer.
    wake: Notify,
    /// Wakes the keeper (the getter that owns the timer) when the next deadline has become earlier.
    rearm: Notify,
    /// Wakes callers that wait until a queue that is being drained has no unfinished keys.
    pub(super) drained: Notify,
    pub(super) closed: Notify,
    idle: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakeOutcome {
    Keys,
    Nothing,
    /// The queue is shut down, no key is ready, and no key will become ready.
    End,
}

/// The result of [`Driver::finish_and_take`].
pub(super) struct FinishedAndTaken<K> {
    /// The finished key; `None` if the hand-out was already finished.
    pub(super) finished: Option<Finished<K>>,
    pub(super) found: TakeOutcome,
    /// Number of keys that became ready because their delay was over.
    pub(super) became_ready: usize,
}

impl<K: Eq + Clone> Driver<K> {
    pub(super) fn new(state: State<K>, timed: bool) -> Self {
        let inner = QueueLock::new(Inner { state, sleepers: 0, keeper: false, idlers: 0 });
        let (wake, rearm) = (Notify::new(), Notify::new());
        let (drained, closed, idle) = (Notify::new(), Notify::new(), Notify::new());
        Self { inner, clock: Clock::start(), timed, wake, rearm, drained, closed, idle }
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock()
    }

    pub(super) fn lock_to_add(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock_to_add()
    }

    /// Returns the current time if the queue measures times for metrics, otherwise `None`. A queue without
    /// metrics reads the clock only if a key waits for a delay.
    pub(super) fn now(&self) -> Option<Nanos> {
        self.timed.then(|| self.clock.now())
    }

    /// Releases the lock, then notifies the waiters that `effect` concerns. Finally resumes a panic of a
    /// user-defined order that was caught under the lock.
    #[inline]
    pub(super) fn settle(&self, mut inner: MutexGuard<'_, Inner<K>>, effect: Effect) {
        let ended = inner.sleepers > 0 && inner.state.is_finished();
        let drained = inner.state.phase == Phase::Draining && inner.state.is_drained();
        let idle = inner.idlers > 0 && inner.state.is_empty();
        let rearm = effect.rearm && inner.keeper;
        let keeper = inner.sleepers > 0 && !inner.keeper && inner.state.next_due().is_some();
        let wakes = (effect.pushed as usize).max(usize::from(keeper)).min(inner.sleepers);
        let failure = inner.state.order.take_failure();
        drop(inner);
        if ended {
            self.wake.notify_waiters();
        }
        for _ in 0..wakes {
            self.wake.notify_one();
        }
        if rearm {
            self.rearm.notify_one();
        }
        if drained {
            self.drained.notify_waiters();
        }
        if idle {
            self.idle.notify_waiters();
        }
        if let Some(failure) = failure {
            failure.resume();
        }
    }

    pub(super) async fn idle(&self) {
        loop {
            let mut idle = pin!(self.idle.notified());
            idle.as_mut().enable();
            let Some(_idler) = self.wait_for_idle() else { return };
            idle.await;
        }
    }

    fn wait_for_idle(&self) -> Option<Idler<'_, K>> {
        let mut inner = self.lock();
        if inner.state.is_empty() {
            return None;
        }
        inner.idlers += 1;
        Some(Idler { driver: self })
    }

    /// Wakes all waiting callers, so that they check the phase of the queue.
    pub(super) fn wake_all(&self) {
        self.closed.notify_waiters();
        self.wake.notify_waiters();
        self.drained.notify_waiters();
    }

    /// Makes the waiting keys ready whose delay is over at `now`. If `now` is `None` and a key is waiting,
    /// reads the clock.
    #[inline]
    pub(super) fn promote(&self, inner: &mut Inner<K>, now: Option<Nanos>) -> Effect {
        if inner.state.next_due().is_none() {
            return Effect::default();
        }
        inner.state.promote(now.unwrap_or_else(|| self.clock.now()))
    }

    /// Takes up to `max` ready keys without waiting. Also returns how many keys became ready because their
    /// delay was over.
    pub(super) fn take(&self, max: usize, give: &mut impl FnMut(Taken<K>)) -> (TakeOutcome, usize) {
        self.look(&mut Sleeper { driver: self, asleep: None }, false, max, give)
    }

    /// Finishes a hand-out and takes the next key, while the lock is taken only once.
    #[inline]
    pub(super) fn finish_and_take(
        &self,
        ticket: Ticket,
        give: &mut impl FnMut(Taken<K>),
    ) -> FinishedAndTaken<K> {
        let _rescue = WakeOnPanic { driver: self };
        // `finished` is declared before the lock guard. The finished key is therefore dropped after the lock
        // is released, even if Clone of the next key panics.
        let finished;
        let mut inner = self.lock();
        let now = self.now();
        let mut effect = self.promote(&mut inner, now);
        let now = now.unwrap_or_default();
        finished = inner.state.finish(ticket, None, now);
        effect = finished.as_ref().map_or(effect, |finished| finished.effect.and(effect));
        let found = match inner.state.take(now) {
            Some(key) => {
                give(key);
                effect.pushed = effect.pushed.saturating_sub(1);
                TakeOutcome::Keys
            }
            None if inner.state.is_finished() => TakeOutcome::End,
            None => TakeOutcome::Nothing,
        };
        self.settle(inner, effect);
        FinishedAndTaken { finished, found, became_ready: effect.added as usize }
    }

    /// Waits until at least one key is taken, or the queue has ended. Cancel safe: taking a key is the last
    /// step, with no await after it. `became_ready` receives the number of keys that became ready because
    /// their delay was over.
    pub(super) async fn wait(
        &self,
        max: usize,
        give: &mut (impl FnMut(Taken<K>) + Send),
        became_ready: &(dyn Fn(usize) + Sync),
    ) {
        // Yields to other tasks also if the queue always has a ready key and `get` never has to wait.
        tokio::task::coop::consume_budget().await;
        let (found, ready) = self.take(max, give);
        became_ready(ready);
        if found != TakeOutcome::Nothing {
            return;
        }
        let mut sleeper = Sleeper { driver: self, asleep: None };
        loop {
            let mut wake = pin!(self.wake.notified());
            wake.as_mut().enable();
            let (found, ready) = self.look(&mut sleeper, true, max, give);
            became_ready(ready);
            if found != TakeOutcome::Nothing {
                return;
            }
            match sleeper.asleep {
                Some(Sleep::Keeper(due)) => tokio::select! {
                    biased;
                    () = wake => {}
                    () = self.rearm.notified() => {}
                    () = sleep_until(self.clock.instant(due)) => {}
                },
                _ => wake.await,
            }
        }
    }

    /// Looks for ready keys on behalf of a getter that is awake. If there is no ready key and `may_sleep` is
    /// set, the getter is counted as a sleeper again.
    fn look(
        &self,
        sleeper: &mut Sleeper<'_, K>,
        may_sleep: bool,
        max: usize,
        give: &mut impl FnMut(Taken<K>),
    ) -> (TakeOutcome, usize) {
        let _rescue = WakeOnPanic { driver: self };
        let mut inner = self.lock();
        sleeper.wake_up(&mut inner);
        let now = self.now();
        let mut effect = self.promote(&mut inner, now);
        let now = now.unwrap_or_default();
        let mut taken = 0;
        while taken < max
            && let Some(key) = inner.state.take(now)
        {
            give(key);
            taken += 1;
        }
        let found = match taken {
            0 if inner.state.is_finished() => TakeOutcome::End,
            0 => TakeOutcome::Nothing,
            _ => TakeOutcome::Keys,
        };
        if may_sleep && found == TakeOutcome::Nothing {
            sleeper.fall_asleep(&mut inner);
        }
        effect.pushed = effect.pushed.saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX));
        self.settle(inner, effect);
        (found, effect.added as usize)
    }
}

struct Idler<'d, K> {
    driver: &'d Driver<K>,
}

impl<K> Drop for Idler<'_, K> {
    fn drop(&mut self) {
        self.driver.inner.lock().idlers -= 1;
    }
}

/// A guard that wakes all getters if a getter panics in `Clone` of a key. That getter has consumed a wake-up
/// and may have made other keys ready.
struct WakeOnPanic<'d, K: Eq + Clone> {
    driver: &'d Driver<K>,
}

impl<K: Eq + Clone> Drop for WakeOnPanic<'_, K> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.driver.wake.notify_waiters();
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Sleep {
    /// The getter (a task that waits in `get`) sleeps without a timer, because another getter owns the timer
    /// or no key waits for a delay.
    Plain,
    /// The getter (a task that waits in `get`) owns the timer and sleeps until this deadline at the latest.
    Keeper(Nanos),
}

/// A sleeping getter. Dropping it while it sleeps corrects the counts of getters and passes the timer to
/// another getter.
struct Sleeper<'d, K: Eq + Clone> {
    driver: &'d Driver<K>,
    asleep: Option<Sleep>,
}

impl<K: Eq + Clone> Sleeper<'_, K> {
    fn wake_up(&mut self, inner: &mut Inner<K>) {
        let asleep = self.asleep.take();
        inner.sleepers -= usize::from(asleep.is_some());
        if let Some(Sleep::Keeper(_)) = asleep {
            inner.keeper = false;
        }
    }

    fn fall_asleep(&mut self, inner: &mut Inner<K>) {
        inner.sleepers += 1;
        self.asleep = Some(match inner.state.next_due() {
            Some(due) if !inner.keeper => {
                inner.keeper = true;
                Sleep::Keeper(due)
            }
            _ => Sleep::Plain,
        });
    }
}

impl<K: Eq + Clone> Drop for Sleeper<'_, K> {
    fn drop(&mut self) {
        if self.asleep.is_some() {
            let mut inner = self.driver.lock();
            self.wake_up(&mut inner);
            self.driver.settle(inner, Effect::default());
        }
    }
}
