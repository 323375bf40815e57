//! Counts the work of a case: the allocator counts allocations, and valgrind counts instructions.

use std::alloc::System;
use std::future::Future;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::runtime::{Builder, Runtime};

use crate::Failure;

/// The system allocator executes the same instructions in each run. mimalloc does not, because it reads the
/// clock and random numbers.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The operations and allocations of a case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkCount {
    pub(crate) operations: usize,
    pub(crate) allocations: usize,
}

/// Runs the set-up and the counted work of a case on one thread, in paused time.
#[derive(Debug)]
pub(crate) struct Counter {
    runtime: Runtime,
}

impl Counter {
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self { runtime: Builder::new_current_thread().enable_time().start_paused(true).build()? })
    }

    /// Runs work that is not counted.
    pub(crate) fn set_up<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Runs and counts the work of a case, which performs a number of operations.
    pub(crate) fn count<T>(&self, operations: usize, work: impl Future<Output = T>) -> (T, WorkCount) {
        let (mut work, mut output) = (Some(work), None);
        let region = Region::new(ALLOCATOR);
        count_instructions(&mut || output = work.take().map(|work| self.runtime.block_on(work)));
        let change = region.change();
        let allocations = change.allocations + change.reallocations;
        let output = output.expect("`count_instructions` calls the closure");
        (output, WorkCount { operations, allocations })
    }
}

/// Calls a closure. `cargo xtask bench instructions` passes the name of this function to valgrind, which
/// counts only while the function runs. No other function may have this name as a part of its name.
#[inline(never)]
pub(crate) fn count_instructions(work: &mut dyn FnMut()) {
    work();
    // Without an instruction after the call, it would be a tail call, and the function would end before it.
    std::hint::black_box(());
}
