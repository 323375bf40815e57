use std::sync::Arc;

use informer_cache::proto::{Applied, Input};
use informer_cache::{BufferPolicy, Change, Event};
use informer_core::Object;

use super::{Barrier, World, tell};
use crate::check::{Checked, ensure};
use crate::object::{SimObject, key};

const MAX_BATCH: usize = 12;

impl World {
    /// Runs the next step of the pump, which applies queued changes to the store. Returns false if there is
    /// nothing to do.
    pub(super) fn pump(&mut self) -> Checked<bool> {
        self.admit_handlers();
        if self.processor.next_resync().is_some_and(|due| due <= self.now) {
            self.resync()?;
            return Ok(true);
        }
        let most = 1 + self.random.below(MAX_BATCH);
        let Some(batch) = self.queue.pop_batch(most) else { return Ok(false) };
        let applied = self.apply(batch.changes)?;
        self.react(&applied)?;
        self.queue.done(batch.initial);
        if self.queue.depth() == 0 {
            self.queued = 0;
        }
        Ok(true)
    }

    /// Replays the cache to added handlers and drops removed ones. Runs between two batches of the pump.
    pub(super) fn admit_handlers(&mut self) {
        for handler in self.handlers.iter_mut().filter(|handler| !handler.joined) {
            handler.joined = true;
            handler.initial_complete = self.synced;
            let present = self.store.list();
            let replay = |object: &Arc<SimObject>| Event::Added { object: Arc::clone(object), initial: true };
            handler.was_given(&present.iter().map(replay).collect::<Vec<_>>());
            handler.resync_next = handler.resync.map(|period| self.now + period);
            let listener = Arc::clone(&handler.listener);
            self.processor.join(listener, handler.resync, present.into_iter(), self.now);
        }
        self.processor.remove_closed();
    }

    pub(super) fn apply(&mut self, changes: Vec<Change<SimObject>>) -> Checked<Applied<SimObject>> {
        self.steps += 1;
        tell!(self, "pump: takes {changes:?}");
        let listed = changes.iter().any(|change| matches!(change, Change::Replaced(_)));
        let before = self.store.resource_version();
        let mut applied = self.pump.apply(changes);
        let after = self.store.resource_version();
        let back = after.is_older_than(&before);
        ensure!(
            "store-version",
            listed || !back,
            "the version of the store decreased from {before} to {after}"
        );
        ensure!(
            "no-going-back",
            self.server.restored || !back,
            "the store went from {before} to {after}, although the server was never restored"
        );
        self.fold(&applied.events)?;
        self.check_barriers()?;
        for handler in &mut self.handlers {
            if handler.joined && !handler.listener.is_closed() {
                handler.was_given(&applied.events);
            }
        }
        self.steps += applied.events.len() as u64;
        self.processor.distribute(std::mem::take(&mut applied.events));
        self.check_depths()?;
        Ok(applied)
    }

    /// Reacts to an applied batch as the shipped informer does. Items of a previous run of the informer cause
    /// no reaction.
    fn react(&mut self, applied: &Applied<SimObject>) -> Checked {
        if applied.first_list {
            ensure!("sync-once", !self.synced, "the first list of a run was reported twice");
            self.synced = true;
            self.processor.initial_complete();
            self.handlers.iter_mut().for_each(|handler| handler.initial_complete = handler.joined);
            tell!(self, "informer: synced");
        }
        if applied.suspect {
            self.network.hits += 1;
            self.coverage.mark("suspect", 1);
            // As in the shipped driver, a request for a consistent list is not forwarded while such a list is
            // running.
            if !self.reflector.reads_truth() {
                self.tell(Input::RelistRequested)?;
            }
        }
        if applied.resync {
            self.resync()?;
        }
        self.handlers.iter().try_for_each(|handler| handler.check_sync())
    }

    /// Applies the events to the mirrored state, and checks that the result equals the store.
    fn fold(&mut self, events: &[Event<SimObject>]) -> Checked {
        for event in events {
            tell!(self, "pump: {event}");
            let object = event.object();
            let before = &mut self.mirror[object.number()];
            let fits = match (event, before.as_ref()) {
                (Event::Added { initial, .. }, None) => !initial || !self.synced,
                (Event::Updated { old, .. }, Some(before)) => Arc::ptr_eq(old, before),
                (Event::Deleted { last, .. }, Some(before)) => last.uid() == before.uid(),
                _ => false,
            };
            ensure!("announced-legally", fits, "{event}: the previous event announced {before:?}");
            *before = (!event.is_deleted()).then(|| Arc::clone(object));
        }
        let restored = self.server.restored;
        for event in events {
            let number = event.object().number();
            let (shown, told) = (self.store.get(event.key()), &self.mirror[number]);
            let same = match (&shown, told) {
                (None, None) => true,
                (Some(shown), Some(told)) => Arc::ptr_eq(shown, told),
                _ => false,
            };
            ensure!(
                "announced-is-stored",
                same,
                "{event}: the store has {shown:?}, the events lead to {told:?}"
            );
            if let Event::Updated { old, new, .. } = event {
                let back = new.version() < old.version();
                ensure!("no-going-back", restored || !back, "{event}");
                let again = new.version() == old.version();
                ensure!(
                    "announced-once",
                    restored || !again,
                    "{event}: the old and the new state have the same version"
                );
            }
            self.check_deletion(event)?;
        }
        // One of the objects is also looked up by its index.
        match events.last() {
            Some(event) => self.check_index(event.object().number()),
            None => Ok(()),
        }
    }

    /// Checks that an object reported as deleted does not exist on the server any more. An undecodable object
    /// also counts as existing.
    fn check_deletion(&self, event: &Event<SimObject>) -> Checked {
        let Event::Deleted { last, .. } = event else { return Ok(()) };
        if self.server.restored || self.network.selector {
            return Ok(());
        }
        let there = self.server.objects[last.number()].as_ref().filter(|object| object.uid() == last.uid());
        ensure!("no-false-deletion", there.is_none(), "{event}: the server still has {there:?}");
        Ok(())
    }

    fn check_index(&self, number: usize) -> Checked {
        let shown = self.mirror[number].as_ref();
        for colour in crate::object::COLOURS {
            let keys = self.store.index_keys("colour", colour).unwrap_or_default();
            let listed = keys.iter().any(|indexed| *indexed == key(number));
            let wanted = shown.is_some_and(|object| object.colours().contains(&colour));
            ensure!(
                "indexes",
                listed == wanted,
                "key {number}: listed in the index under {colour}: {listed}, expected {wanted}"
            );
        }
        Ok(())
    }

    /// Checks that a caller that waits for the version of its own write finds that write in the store.
    fn check_barriers(&mut self) -> Checked {
        let Some(store) = self.store.resource_version().as_u64() else { return Ok(()) };
        if self.is_held_back() || self.disordered {
            self.barriers.clear();
        }
        while let Some(barrier) = self.barriers.front().filter(|barrier| barrier.version <= store) {
            let Barrier { key: number, version, present } = *barrier;
            self.barriers.pop_front();
            self.coverage.mark("barrier", 1);
            let later = version < self.server.compacted || self.server.happened_to(number, version, store);
            let unread = self.undecodable.entries().iter().any(|entry| entry.key() == Some(&key(number)));
            if later || unread {
                continue;
            }
            let shown = &self.mirror[number];
            let there = shown.as_ref().is_some_and(|object| object.version() >= version);
            ensure!(
                "barrier",
                there == present && (present || shown.is_none()),
                "the store is at {store}, key {number} was written at {version}, and the store has {shown:?}"
            );
        }
        Ok(())
    }

    /// Checks that the buffer of a handler that merges events holds at most two events for each key.
    fn check_depths(&self) -> Checked {
        let most = 2 * self.mirror.len();
        for handler in &self.handlers {
            if handler.policy == BufferPolicy::Coalesce {
                let depth = handler.listener.state().depth;
                ensure!(
                    "merged-is-bounded",
                    depth <= most,
                    "{depth} events are queued, and the maximum is {most}"
                );
            }
        }
        Ok(())
    }

    fn resync(&mut self) -> Checked {
        self.steps += 1;
        self.coverage.mark("resync", 1);
        let depths: Vec<_> = self.handlers.iter().map(|handler| handler.listener.state().depth).collect();
        let (store, now) = (self.store.clone(), self.now);
        self.processor.resync(|| store.list(), now);
        let objects = self.store.len();
        for (handler, before) in self.handlers.iter_mut().zip(depths) {
            let due = handler.resync_next.is_some_and(|next| next <= now) && !handler.leaving;
            if let (true, Some(period)) = (due, handler.resync) {
                // If several resync periods have passed, only one resync follows.
                let next = handler.resync_next.map_or(now, |next| next + period);
                handler.resync_next = Some(if next > now { next } else { now + period });
            }
            let after = handler.listener.state().depth;
            let wanted = match (due, handler.policy) {
                (false, _) => after == before,
                (true, BufferPolicy::Unbounded) => after == before + objects,
                (true, BufferPolicy::Coalesce) => after >= objects.max(before),
            };
            ensure!(
                "resync",
                wanted,
                "resync due: {due}; {before} events were queued, {after} are queued now, {objects} objects"
            );
        }
        let due =
            self.handlers.iter().filter(|handler| !handler.leaving).filter_map(|it| it.resync_next).min();
        let said = self.processor.next_resync();
        ensure!("resync", said.is_none() || said == due, "the next resync is due at another time");
        Ok(())
    }
}
