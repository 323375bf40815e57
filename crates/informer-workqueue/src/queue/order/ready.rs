//! The ready keys of a queue, in an order that may be user-defined.
//!
//! # Invariants
//! 1. `len` counts the ready keys that are not in process, independently of the order.
//! 2. An order that failed is not called again; its keys are moved to a [`FifoOrder`].

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::{Depths, Entries, EntryId, FifoOrder, Order};
use crate::queue::slots::SlotId;

/// An order that panicked or violated its contract. The caller drops it after releasing the lock, because
/// dropping it runs user code.
pub(in crate::queue) struct OrderFailure {
    order: Box<dyn Order>,
    panic: Option<Box<dyn Any + Send>>,
}

impl OrderFailure {
    pub(in crate::queue) fn resume(self) {
        let Self { order, panic } = self;
        drop(order);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

pub(in crate::queue) struct ReadyKeys {
    order: Box<dyn Order>,
    /// True if `order` is implemented by this crate and not user-defined.
    trusted: bool,
    len: usize,
    failed: bool,
    failure: Option<OrderFailure>,
}

impl ReadyKeys {
    pub(in crate::queue) fn trusted(order: Box<dyn Order>) -> Self {
        Self { order, trusted: true, len: 0, failed: false, failure: None }
    }

    pub(in crate::queue) fn untrusted(order: Box<dyn Order>) -> Self {
        Self { trusted: false, ..Self::trusted(order) }
    }

    pub(in crate::queue) fn len(&self) -> usize {
        self.len
    }

    pub(in crate::queue) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Returns the failed order, if an order has failed. The caller drops it after releasing the lock.
    pub(in crate::queue) fn take_failure(&mut self) -> Option<OrderFailure> {
        self.failure.take()
    }

    #[inline]
    pub(in crate::queue) fn push(&mut self, entries: &mut Entries, id: SlotId) {
        self.len += 1;
        self.call(entries, |order, entries| order.push(entries, EntryId(id)));
    }

    #[inline]
    pub(in crate::queue) fn peek(&mut self, entries: &mut Entries) -> Option<SlotId> {
        if self.len == 0 {
            return None;
        }
        let named = self.call(entries, |order, entries| order.peek(entries)).flatten();
        if !self.trusted && named.is_none_or(|id| !entries.is_ready(id.0)) {
            self.fail(entries, None);
        }
        if self.failure.is_some() { self.order.peek(entries).map(|id| id.0) } else { named.map(|id| id.0) }
    }

    #[inline]
    pub(in crate::queue) fn take(&mut self, entries: &mut Entries, id: SlotId) {
        self.len -= 1;
        if self.call(entries, |order, entries| order.take(entries, EntryId(id))).is_none() {
            self.order.take(entries, EntryId(id));
        }
    }

    pub(in crate::queue) fn raised(&mut self, entries: &mut Entries, id: SlotId, before: i32) {
        self.call(entries, |order, entries| order.raised(entries, EntryId(id), before));
    }

    pub(in crate::queue) fn depths(&mut self, entries: &mut Entries, row: &mut Depths<'_>) {
        if self.trusted {
            return self.order.depths(row);
        }
        // Rows are buffered until the order returns, so that rows reported before a panic of the order can be
        // discarded.
        let mut rows = Vec::new();
        let mut keep = |priority, group, len| rows.push((priority, group, len));
        let called = self.call(entries, |order, _| order.depths(&mut keep));
        match called {
            Some(()) => rows.into_iter().for_each(|(priority, group, len)| row(priority, group, len)),
            None => row(None, None, self.len),
        }
    }

    /// Runs `f` on the order; returns `None` if the order panicked and was therefore replaced by FIFO.
    #[inline]
    fn call<T>(
        &mut self,
        entries: &mut Entries,
        call: impl FnOnce(&mut dyn Order, &mut Entries) -> T,
    ) -> Option<T> {
        if self.trusted {
            return Some(call(&mut *self.order, entries));
        }
        match catch_unwind(AssertUnwindSafe(|| call(&mut *self.order, entries))) {
            Ok(value) => Some(value),
            Err(panic) => {
                self.fail(entries, Some(panic));
                None
            }
        }
    }

    /// Replaces a failed order by FIFO. This happens at most once per queue.
    fn fail(&mut self, entries: &mut Entries, panic: Option<Box<dyn Any + Send>>) {
        let mut fifo = FifoOrder::default();
        for id in (0..entries.len()).filter_map(|id| SlotId::try_from(id).ok()) {
            if entries.is_ready(id) {
                fifo.push(entries, EntryId(id));
            }
        }
        let order = std::mem::replace(&mut self.order, Box::new(fifo));
        (self.trusted, self.failed) = (true, true);
        self.failure = Some(OrderFailure { order, panic });
    }
}
