//! The program `informer-bench` with the allocator of the system, which on Linux is that of glibc or musl.

use std::process::ExitCode;

#[path = "informers.rs"]
mod informers;

fn main() -> ExitCode {
    informers::main()
}
