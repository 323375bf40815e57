//! The program `informer-bench` with an allocator that counts every allocation. Do not use it to measure
//! time.

use std::alloc::System;
use std::process::ExitCode;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[path = "informers.rs"]
mod informers;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    informers::main()
}
