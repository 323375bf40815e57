//! The program `informer-bench` for measurements of time. It uses the allocator mimalloc, like the program of
//! kube-rs that it is compared with. The libraries of this project do not choose an allocator.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[path = "informers.rs"]
mod informers;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    informers::main()
}
