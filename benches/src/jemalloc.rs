//! The program `informer-bench` with the allocator jemalloc.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

#[path = "informers.rs"]
mod informers;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    informers::main()
}
