//! Runs one fixed workload, and counts its operations and allocations. Prints them as one line of JSON:
//! `{"operations": NUMBER, "allocations": NUMBER}`.
//!
//! `cargo xtask bench instructions` runs each case below `valgrind --tool=callgrind`, which counts the
//! instructions that the function [`count_instructions`](count::count_instructions) executes, and divides
//! them by the number of operations. The set-up of a case is not counted.
//!
//! The counts must be the same in each run. The program therefore has one thread, no sockets, paused time and
//! generated objects, and the API server has a clock that does not advance. Hash tables still have random
//! seeds.

#[path = "informers/arguments.rs"]
mod arguments;
#[expect(dead_code, reason = "xtask needs more of the cases")]
#[path = "instructions/cases.rs"]
mod cases;
#[path = "instructions/client.rs"]
mod client;
#[path = "instructions/count.rs"]
mod count;
#[expect(dead_code, reason = "the objects are those of `informer-bench`, which needs more of them")]
#[path = "informers/objects.rs"]
mod objects;
#[path = "instructions/replay.rs"]
mod replay;
#[path = "instructions/server.rs"]
mod server;
#[path = "instructions/workqueue.rs"]
mod workqueue;

use std::process::ExitCode;

use clap::Parser;
use informer_core::random::SeededThread;
use serde_json::json;

use cases::Case;
use count::{Counter, WorkCount};

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Parser)]
struct Arguments {
    /// The workload to run.
    #[arg(value_enum)]
    case: Case,
}

fn main() -> ExitCode {
    let case = Arguments::parse().case;
    let _seeded = SeededThread::new(1);
    match Counter::new().and_then(|counter| run(case, &counter)) {
        Ok(WorkCount { operations, allocations }) => {
            println!("{}", json!({"operations": operations, "allocations": allocations}));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("run {}: {error}", case.name());
            ExitCode::FAILURE
        }
    }
}

fn run(case: Case, counter: &Counter) -> Result<WorkCount, Failure> {
    match case {
        Case::SyncProtobuf => client::sync_protobuf(counter),
        Case::SyncJson => client::sync_json(counter),
        Case::Relist => client::relist(counter),
        Case::Event => client::event(counter),
        Case::Lookup => client::lookup(counter),
        Case::Index => client::index(counter),
        Case::Queue => workqueue::queue(counter),
        Case::Create => server::create(counter),
        Case::ListJson => server::list_json(counter),
        Case::ListProtobuf => server::list_protobuf(counter),
        Case::Watch => server::watch(counter),
    }
}
