//! `informer-bench` as it is timed: with mimalloc, as the program of kube-rs beside it. The libraries bring no allocator.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[path = "informers.rs"]
mod informers;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    informers::main()
}
