use std::time::Duration;

use informer_cache::reflector::ReflectorPhase;

use super::{World, tell};
use crate::check::{Checked, ensure};
use crate::connection::{Open, Peer};

/// The time within which all parts must have nothing left to do after the last fault. It is twice the longest
/// silence before a watch is considered dead, plus the backoffs of earlier failures.
const MAX_REST: Duration = Duration::from_secs(30 * 60);

/// The maximum number of rounds until all parts have nothing left to do. It is far above the number that any
/// schedule needs.
const MAX_ROUNDS: u32 = 5000;

/// The maximum number of steps of a schedule, far above what any schedule needs. It detects parts that keep
/// each other busy forever.
const MAX_STEPS: u64 = 1_000_000;

impl World {
    /// Runs all parts, without further faults and writes, until none of them has anything left to do.
    pub(crate) fn come_to_rest(&mut self) -> Checked {
        self.random = crate::random::Random::new(u64::from(self.setup.seed) << 7);
        tell!(self, "the last fault is over");
        self.network.heal();
        self.server.catch_up();
        self.server.down_until = None;
        self.handlers.iter_mut().for_each(|handler| handler.stuck = false);
        self.tell_election();
        let went = self.election.come_to_rest(&mut self.random, &mut self.coverage);
        self.tell_election();
        self.steps += went?;
        let begin = self.now;
        for _ in 0..MAX_ROUNDS {
            let mut busy = self.reflect()?;
            while self.pump()? {
                busy = true;
                self.check_effort()?;
            }
            for index in 0..self.handlers.len() {
                while self.handle(index, 100)? {
                    busy = true;
                    self.check_effort()?;
                }
            }
            // Workers that were busy with something else take keys again, since time has passed.
            self.work.come_back();
            while self.work()? {
                busy = true;
                self.check_effort()?;
            }
            let passed = self.now.saturating_duration_since(begin);
            ensure!(
                "liveness",
                passed <= MAX_REST,
                "not idle after {passed:?}: {:?}",
                self.reflector.status()
            );
            if busy {
                continue;
            }
            if self.is_at_rest() {
                return Ok(());
            }
            match self.next_due() {
                Some(due) => self.pass(due.saturating_duration_since(self.now)),
                None => ensure!("liveness", false, "no timer is due, and the world is not idle"),
            }
        }
        ensure!("liveness", false, "the reflector never becomes idle: {:?}", self.reflector.status());
        Ok(())
    }

    fn check_effort(&self) -> Checked {
        ensure!("liveness", self.steps < MAX_STEPS, "not idle after {MAX_STEPS} steps");
        Ok(())
    }

    fn is_at_rest(&mut self) -> bool {
        let peer = Peer {
            server: &self.server,
            now: self.now,
            random: &mut self.random,
            coverage: &mut self.coverage,
        };
        let drained = match &self.open {
            Open::Watch(body) => body.is_drained(self.network.selector, &peer) && !body.is_ahead(&peer),
            _ => false,
        };
        drained
            && self.reflector.status().phase == ReflectorPhase::Watching
            && self.queue.depth() == 0
            && self.work.is_idle()
            && self.work.runs()
            && self.handlers.iter().all(|handler| handler.joined && handler.is_idle())
    }
}
