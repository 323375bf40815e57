use std::time::Duration;

use informer_cache::proto::{Input, ReflectorState};
use informer_cache::reflector::RelistReason;
use informer_core::ResourceVersion;
use informer_store::borrowed;

use super::{World, tell};
use crate::check::{Checked, ensure};
use crate::connection::Open;
use crate::fault::Fault;
use crate::object::by_parity;
use crate::work::Ending;

const MAX_HANDLERS: usize = 6;

impl World {
    pub(super) fn suffer(&mut self, fault: Fault) -> Checked {
        self.steps += 1;
        tell!(self, "fault: {}", fault.as_str());
        match fault {
            fault if fault.is_of_request() || fault.is_of_stream() => {
                if matches!(fault, Fault::EventsSwapped) {
                    // If a newer event arrives before an older one, the client's version is too new for its
                    // state. No client can detect that.
                    self.disordered = true;
                }
                self.network.arm(fault, &mut self.random);
            }
            fault if fault.is_of_election() => {
                self.tell_election();
                let went = self.election.suffer(fault, &mut self.random, &mut self.coverage);
                self.tell_election();
                self.steps += went?;
            }
            Fault::Down => {
                let seconds = self.random.between(1, 300) as u64;
                self.server.down_until = Some(self.now + Duration::from_secs(seconds));
                self.open.cut();
                self.network.hits += 1;
            }
            Fault::Bookmarks => self.toggle(fault, |network| network.bookmarks ^= true),
            Fault::Streaming => {
                self.toggle(fault, |network| network.streaming ^= true);
                // The open connections are cut, because another server process responds to all later
                // requests.
                self.open.cut();
            }
            Fault::HandlerPanics
            | Fault::HandlerStuck
            | Fault::HandlerLeaves
            | Fault::HandlerJoins
            | Fault::WorkerCancelled
            | Fault::WorkerFails
            | Fault::WorkerFailsForGood
            | Fault::WorkerPanics
            | Fault::WorkerTimesOut => self.trouble_users(fault),
            Fault::InformerRestarts | Fault::ReflectorReplaced => self.restart_informer(fault)?,
            Fault::HeldUp | Fault::ClockJump => self.trouble_time(fault),
            Fault::IndexAdded => self.add_index()?,
            Fault::ControllerRestarts => self.restart_controller()?,
            Fault::RelistRequested => {
                self.hit(fault);
                if !self.reflector.reads_truth() {
                    self.tell(Input::RelistRequested)?;
                }
            }
            fault => self.trouble_server(fault),
        }
        Ok(())
    }

    fn toggle(&mut self, fault: Fault, toggle: impl FnOnce(&mut crate::connection::Network)) {
        toggle(&mut self.network);
        self.hit(fault);
    }

    fn trouble_server(&mut self, fault: Fault) {
        match fault {
            Fault::Compaction => self.server.compact(&mut self.random),
            Fault::ReplicaLags if !self.server.lag_or_catch_up(&mut self.random) => return,
            Fault::ReplicaLags => {}
            Fault::VersionJump if self.server.restored => return,
            Fault::VersionJump => self.server.jump(self.random.pick(&[1 << 10, 1 << 32, (1 << 53) + 1])),
            Fault::Unreadable => {
                if self.is_held_back() {
                    return;
                }
                let key = self.key_to_change();
                self.server.put(key, false, &mut self.random);
                tell!(self, "server: key {key} becomes undecodable @{}", self.server.version);
            }
            // No further restore is injected until the informer has noticed the last rewind.
            _ if self.is_held_back() => return,
            Fault::Restore => self.server.restore(true),
            Fault::Rewind => self.server.restore(false),
            Fault::Wiped => self.server.wipe(),
            _ => self.server.restart(),
        }
        if matches!(fault, Fault::Restore | Fault::Rewind | Fault::Wiped | Fault::Restart) {
            self.open.cut();
            self.barriers.clear();
            tell!(self, "server: restarts @{}", self.server.version);
        }
        self.hit(fault);
    }

    fn trouble_users(&mut self, fault: Fault) {
        let which = self.random.below(self.handlers.len());
        match fault {
            Fault::HandlerPanics => self.handlers[which].panic_next(self.random.one_in(2)),
            Fault::HandlerStuck => self.handlers[which].stuck ^= true,
            // The first handler is never removed, because it adds keys to the work queue.
            Fault::HandlerLeaves if self.handlers.len() < 2 => return,
            Fault::HandlerLeaves => {
                let handler = &mut self.handlers[which.max(1)];
                handler.leaving = true;
                handler.listener.close();
            }
            Fault::HandlerJoins if self.handlers.len() < MAX_HANDLERS => {
                let handler = self.new_handler(which as u32);
                self.handlers.push(handler);
            }
            Fault::HandlerJoins => return,
            Fault::WorkerCancelled => self.work.endings.push_back(Ending::Cancelled),
            Fault::WorkerFailsForGood => self.work.endings.push_back(Ending::FailsForGood),
            Fault::WorkerPanics => self.work.endings.push_back(Ending::Panics),
            Fault::WorkerTimesOut => self.work.endings.push_back(Ending::TimesOut),
            _ => self.work.endings.push_back(Ending::Fails),
        }
        self.hit(fault);
    }

    fn trouble_time(&mut self, fault: Fault) {
        let time = Duration::from_secs(match fault {
            Fault::HeldUp => self.random.between(1, 120) as u64,
            _ => self.random.between(600, 100_000) as u64,
        });
        self.pass(time);
        if fault == Fault::HeldUp {
            self.reflector.held_up(time, self.now);
        }
        self.hit(fault);
    }

    fn add_index(&mut self) -> Checked {
        let added = self.store.add_index("parity", borrowed(by_parity)).is_ok();
        ensure!("indexes", added != self.indexed_by_parity, "an index was added: {added}");
        self.indexed_by_parity = true;
        self.hit(Fault::IndexAdded);
        Ok(())
    }

    /// Stops and restarts the informer, as the shipped informer does after a panic. Its store keeps its
    /// content.
    fn restart_informer(&mut self, fault: Fault) -> Checked {
        self.stop_informer()?;
        let last_version = self.reflector.status().last_version.clone();
        let last_version =
            if fault == Fault::ReflectorReplaced { ResourceVersion::unset() } else { last_version };
        self.synced = false;
        self.handlers.retain(|handler| !handler.leaving);
        self.handlers.iter_mut().for_each(super::Handler::begin_run);
        // Items that the previous run left in the queue are older than the next list, and are applied before
        // it.
        while let Some(batch) = self.queue.pop_batch(usize::MAX) {
            self.apply(batch.changes)?;
            self.queue.done(batch.initial);
        }
        self.pump.begin_run();
        self.processor.begin_run(self.now);
        for handler in self.handlers.iter_mut().filter(|handler| handler.joined) {
            handler.resync_next = handler.resync.map(|period| self.now + period);
        }
        self.reflector = ReflectorState::resume(self.config.clone(), self.now, last_version);
        self.requests.begin_anew();
        tell!(self, "informer: restarts");
        self.hit(fault);
        Ok(())
    }

    fn restart_controller(&mut self) -> Checked {
        self.work.feed(self.handlers[0].joined && self.handlers[0].listener.has_synced())?;
        let from = if self.work.runs() { "controller runs" } else { "controller starts" };
        let (how, took) = self.work.drain(self.now, &mut self.random)?;
        self.coverage.passed(from, how);
        tell!(self, "controller: {how}");
        self.pass(took);
        let endings = std::mem::take(&mut self.work.endings);
        self.work = crate::work::Work::new(&self.setup, self.now);
        self.work.endings = endings;
        let fresh = self.new_handler(0);
        let mut old = std::mem::replace(&mut self.handlers[0], fresh);
        old.leaving = true;
        old.listener.close();
        self.handlers.push(old);
        self.hit(Fault::ControllerRestarts);
        Ok(())
    }

    /// Stops the reflector and the tasks of the handlers. A running call of a handler returns first.
    pub(super) fn stop_informer(&mut self) -> Checked {
        self.note_reflector();
        self.tell(Input::Stop)?;
        let step = self.reflector.step();
        let done = step.action == informer_cache::proto::ReflectorAction::Done;
        ensure!("nothing-left", done, "the reflector runs after it was stopped");
        (self.open, self.hanging) = (Open::Nothing, None);
        for index in 0..self.handlers.len() {
            self.handlers[index].cancel();
            let stuck = std::mem::take(&mut self.handlers[index].stuck);
            self.handle(index, 1)?;
            let ended = self.handlers[index].has_ended();
            ensure!("nothing-left", ended, "the task of handler {index} runs after the informer has stopped");
            self.handlers[index].stuck = stuck;
        }
        Ok(())
    }

    /// Adds the counters of the reflector to those of the schedule, before the reflector is dropped.
    pub(super) fn note_reflector(&mut self) {
        let status = self.reflector.status();
        for reason in RelistReason::ALL {
            self.coverage.reason(reason, status.relists.get(reason));
        }
        let marks = [
            ("short watches", status.short_watches),
            ("older versions", status.older_versions),
            ("undecodable objects", status.undecodable),
            ("resyncs of the reflector", status.resyncs),
        ];
        marks.into_iter().for_each(|(mark, count)| self.coverage.mark(mark, count));
    }
}
