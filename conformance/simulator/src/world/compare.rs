use std::sync::Arc;

use informer_core::Object;

use super::World;
use crate::check::{Checked, ensure};
use crate::object::{COLOURS, SimObject, key};

/// The tolerated number of lists per fault: the list itself, its fallback, its consistent variant, and one
/// more list because each of those may have a fault.
const LISTS_PER_HIT: u64 = 4;

impl World {
    pub(crate) fn compare(&mut self) -> Checked {
        self.compare_with_server()?;
        self.compare_indexes()?;
        for (index, handler) in self.handlers.iter().enumerate().filter(|(_, handler)| !handler.leaving) {
            let same =
                handler.view.iter().zip(&self.mirror).all(|(told, held)| same(told.as_ref(), held.as_ref()));
            ensure!("view-equals-store", same, "the events of handler {index} lead to {:?}", handler.view);
            ensure!("sync", handler.listener.has_synced(), "handler {index} is not synced");
        }
        for (index, handler) in self.handlers.iter().enumerate().filter(|(_, handler)| handler.leaving) {
            ensure!(
                "nothing-left",
                handler.has_ended(),
                "the task of handler {index} runs after the removal of the handler"
            );
        }
        for (number, (seen, held)) in self.work.reconciled.iter().zip(&self.mirror).enumerate() {
            let same = same(seen.as_ref(), held.as_ref());
            // A predicate that compares versions drops a change if a restored server has assigned the same
            // version again.
            let dropped = self.setup.predicate == 1 && self.server.restored;
            ensure!(
                "nothing-left-undone",
                same || dropped,
                "key {number}: the store has {held:?}, the last reconcile read {seen:?}"
            );
        }
        ensure!("sync", self.synced && self.queue.has_synced(), "the informer is not synced");
        let weight = self.queue.weight();
        ensure!("nothing-left", weight == 0, "the queue is empty, and its weight is {weight}");
        let held: usize = self.mirror.iter().flatten().map(|object| object.held_bytes()).sum();
        let counted = self.pump.counters().bytes;
        ensure!(
            "bytes",
            counted == held as u64,
            "the counter shows {counted} bytes, and the cached objects have {held}"
        );
        let (lists, hits) = (self.requests.lists, self.network.hits);
        ensure!("lists-bounded", lists <= 4 + LISTS_PER_HIT * hits, "{lists} lists after {hits} faults");
        Ok(())
    }

    fn compare_with_server(&self) -> Checked {
        let selector = self.network.selector;
        let unread = self.undecodable.entries();
        for (number, held) in self.mirror.iter().enumerate() {
            let shown = self.store.get(&key(number));
            ensure!("announced-is-stored", same(shown.as_ref(), held.as_ref()), "key {number}: {shown:?}");
            let object = self.server.objects[number].as_ref().filter(|object| object.in_view || !selector);
            let named = unread.iter().any(|entry| entry.key() == Some(&key(number)));
            match object {
                Some(object) if !object.readable => {
                    ensure!(
                        "unreadable-is-known",
                        named,
                        "{object:?} is undecodable, and is not in the log of undecodable objects"
                    );
                }
                object => {
                    let equal = object.map(|object| object.serial) == held.as_ref().map(|held| held.serial)
                        && object.map(|object| object.uid()) == held.as_ref().map(|held| held.uid());
                    ensure!(
                        "store-equals-server",
                        equal,
                        "the server has {object:?}, the store has {held:?}"
                    );
                    ensure!(
                        "unreadable-is-known",
                        !named,
                        "key {number} is decodable, and is in the log of undecodable objects"
                    );
                }
            }
        }
        let (stored, held) = (self.store.len(), self.mirror.iter().flatten().count());
        ensure!(
            "announced-is-stored",
            stored == held,
            "the store has {stored} objects, and the events lead to {held}"
        );
        Ok(())
    }

    fn compare_indexes(&self) -> Checked {
        let count = |wanted: &dyn Fn(&SimObject) -> bool| {
            self.mirror.iter().flatten().filter(|object| wanted(object)).count()
        };
        for colour in COLOURS {
            let found = self.store.by_index("colour", colour).unwrap_or_default();
            let right = found.iter().all(|object| object.colours().contains(&colour));
            let wanted = count(&|object| object.colours().contains(&colour));
            ensure!(
                "indexes",
                right && found.len() == wanted,
                "the index has {found:?} under {colour}, expected {wanted} objects"
            );
        }
        for parity in ["even", "odd"].into_iter().filter(|_| self.indexed_by_parity) {
            let found = self.store.by_index("parity", parity).unwrap_or_default();
            let wanted = count(&|object| object.parity() == parity);
            ensure!(
                "indexes",
                found.len() == wanted,
                "the index has {found:?} under {parity}, expected {wanted} objects"
            );
        }
        Ok(())
    }

    /// Stops the informer, its handlers and the controller, and checks that none of their objects and keys is
    /// left.
    pub(crate) fn stop(mut self) -> Checked<Self> {
        self.stop_informer()?;
        self.queue.close();
        let empty = self.queue.depth() == 0 && self.queue.is_closed();
        ensure!("nothing-left", empty, "the closed queue is not empty");
        self.work.stop(self.now)?;
        let counters = self.pump.counters();
        for (mark, count) in [
            ("stale events", counters.stale),
            ("unchanged objects", counters.unchanged),
            ("deletions of what was not held", counters.unknown_deletes),
            ("stale lists at the pump", counters.stale_lists),
            ("rewound", counters.rewound),
        ] {
            self.coverage.mark(mark, count);
        }
        Ok(self)
    }
}

fn same(a: Option<&Arc<SimObject>>, b: Option<&Arc<SimObject>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}
