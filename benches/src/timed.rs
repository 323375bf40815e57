//! The program `informer-bench` for measurements of time. It uses the allocator mimalloc, like the kube-rs
//! program; the libraries contain no allocator.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[path = "informers.rs"]
mod informers;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    informers::main()
}
