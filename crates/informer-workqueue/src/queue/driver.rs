//! How getters wait: the lock, the wake-ups and the one timer.
//!
//! The queue starts no task. Its timer is kept by one of the getters that wait, the *keeper*: so there is one timer
//! whatever the number of workers and of waiting keys, nothing has to be stopped, and the queue works on every
//! runtime flavour. While nobody waits for a key no timer is needed: the next getter makes ready what is due.
//!
//! # Invariants
//! 1. `sleepers` counts the getters that found nothing and were not yet resumed or dropped.
//! 2. `keeper` iff one of the sleepers has armed a timer for the next deadline that it read under the lock.
//! 3. Where getters sleep and keys wait, there is a keeper, or a sleeper has been woken and becomes it.
//! 4. A wake-up is sent after what it announces was written under the lock, and a getter enables its wake-up
//!    before it looks for the last time: none is lost. A getter that is dropped after it was woken passes the
//!    wake-up on (`tokio::sync::Notify` does so).
//!
//! # Lock order
//! The one lock, never held over an await or a wake-up. Of the user's code only Eq and Clone of a key run under it, and an
//! [`Order`](super::Order) of the user's own.
//!
//! # Shutdown
//! 1. The phase changes under the lock. 2. All sleepers are woken. 3. What waits for a deadline is dropped, a few
//!    keys at a time.
//!
//! Getters leave when nothing is ready and no key in process is to be handed out again.

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
    /// Those who wait until the queue is empty.
    idlers: usize,
}

/// The queue without what concerns single keys: rate limiter, groups, metrics.
pub(super) struct Driver<K> {
    inner: QueueLock<Inner<K>>,
    clock: Clock,
    timed: bool,
    /// For getters: a key is ready, the queue is shut down, or a keeper is needed.
    wake: Notify,
    /// For the keeper: the next deadline came nearer.
    rearm: Notify,
    /// For those who wait for the end of a drain.
    pub(super) drained: Notify,
    /// For those who wait for a shutdown.
    pub(super) closed: Notify,
    /// For those who wait until the queue is empty.
    idle: Notify,
}

/// What a getter found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Keys,
    Nothing,
    /// Nothing, and nothing will come.
    End,
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

    /// The time, where somebody will look at it: a queue without metrics or delays never reads a clock.
    pub(super) fn now(&self) -> Option<Nanos> {
        self.timed.then(|| self.clock.now())
    }

    /// Releases the lock and wakes those whom the change concerns. Last, goes on with a panic of the order.
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

    /// Waits until the queue holds no key at all.
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

    /// Wakes everybody who waits, so that they look at the phase.
    pub(super) fn wake_all(&self) {
        self.closed.notify_waiters();
        self.wake.notify_waiters();
        self.drained.notify_waiters();
    }

    /// Makes ready what is due, at a time that the caller has read if it had to.
    #[inline]
    pub(super) fn promote(&self, inner: &mut Inner<K>, now: Option<Nanos>) -> Effect {
        if inner.state.next_due().is_none() {
            return Effect::default();
        }
        inner.state.promote(now.unwrap_or_else(|| self.clock.now()))
    }

    /// Takes up to `max` keys that are ready, without waiting. Returns also how many keys became ready by their delay.
    pub(super) fn take(&self, max: usize, give: &mut impl FnMut(Taken<K>)) -> (Found, usize) {
        self.look(&mut Sleeper { driver: self, asleep: None }, false, max, give)
    }

    /// Ends a hand-out and takes the next key, in one hold of the lock.
    #[inline]
    pub(super) fn finish_and_take(
        &self,
        ticket: Ticket,
        give: &mut impl FnMut(Taken<K>),
    ) -> (Option<Finished<K>>, Found, usize) {
        let _rescue = WakeOnPanic { driver: self };
        // Its key is dropped after the lock is released, also where Clone of the next one panics: so it comes first.
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
                Found::Keys
            }
            None if inner.state.is_finished() => Found::End,
            None => Found::Nothing,
        };
        self.settle(inner, effect);
        (finished, found, effect.added as usize)
    }

    /// Waits until at least one key is given, or until the queue has ended. Cancel safe: a key is taken in the last
    /// step, without an await after it. `became_ready` hears how many keys became ready by their delay.
    pub(super) async fn wait(
        &self,
        max: usize,
        give: &mut (impl FnMut(Taken<K>) + Send),
        became_ready: &(dyn Fn(usize) + Sync),
    ) {
        // A worker that never finds the queue empty must still let other tasks run.
        tokio::task::coop::consume_budget().await;
        let (found, ready) = self.take(max, give);
        became_ready(ready);
        if found != Found::Nothing {
            return;
        }
        let mut sleeper = Sleeper { driver: self, asleep: None };
        loop {
            let mut wake = pin!(self.wake.notified());
            wake.as_mut().enable();
            let (found, ready) = self.look(&mut sleeper, true, max, give);
            became_ready(ready);
            if found != Found::Nothing {
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

    /// Looks for keys as a getter that is awake now, and that sleeps again if it finds nothing and `may_sleep`.
    fn look(
        &self,
        sleeper: &mut Sleeper<'_, K>,
        may_sleep: bool,
        max: usize,
        give: &mut impl FnMut(Taken<K>),
    ) -> (Found, usize) {
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
            0 if inner.state.is_finished() => Found::End,
            0 => Found::Nothing,
            _ => Found::Keys,
        };
        if may_sleep && found == Found::Nothing {
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

/// A getter whose key panics in Clone has used up a wake-up, and may have made other keys ready: everybody looks.
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
    /// Somebody else keeps the timer, or nothing waits.
    Plain,
    /// Keeps the timer for this deadline.
    Keeper(Nanos),
}

/// A getter; dropped asleep, it leaves the counts right and hands the timer over.
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
