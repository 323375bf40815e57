//! Benchmarks of the work queue, compared with those of client-go and controller-runtime.

use std::path::Path;

use super::peers::{BenchError, Limit, Program, Target, Turns, build_ours, in_turn, judge};
use super::sections;
use crate::go::{Go, GoError, Module};
use crate::report::Report;

const PLAIN: &str = "informer";
const PRIORITIES: &str = "informer with priorities";
const CLIENT_GO: &str = "client-go 0.37.2";
const RUNTIME: &str = "controller-runtime 0.25.2";

const GET_AND_DONE: &str = "get and done, CPU ns";
const CONTENTION: &str = "4 producers and 4 workers, ns a key";
const HAND_OVER: &str = "add to a waiting worker, p50 us";
const ADD_AFTER: &str = "add_after of a million keys, ns";
const OVERHEAD: &str = "overhead of a waiting key, bytes";

/// The case in which client-go's figure shows the speed of the machine. The target of 100 ns for this
/// library's `add_after` is scaled by it. client-go's case has 100,000 keys, the case of this library a
/// million. Both measure wall-clock time, so a busy machine slows both.
const ADD_AFTER_OF_FEW: &str = "add_after of 100,000 string keys, ns";
/// Time of one `AddAfter` of client-go, in ns, on the machine on which the target for this library's
/// `add_after` was set. It is the middle of the measured 217 and 352 ns.
const ADD_AFTER_THERE: f64 = 285.0;

const TARGETS: [Target; 8] = [
    target(PLAIN, GET_AND_DONE, Limit::Part { of: CLIENT_GO, at_most: 0.75 }),
    target(PRIORITIES, GET_AND_DONE, Limit::Part { of: CLIENT_GO, at_most: 0.75 }),
    target(PRIORITIES, GET_AND_DONE, Limit::Part { of: RUNTIME, at_most: 1.0 / 20.0 }),
    target(PLAIN, CONTENTION, Limit::Part { of: CLIENT_GO, at_most: 1.0 / 3.0 }),
    target(PRIORITIES, CONTENTION, Limit::Part { of: CLIENT_GO, at_most: 1.0 / 3.0 }),
    target(PLAIN, HAND_OVER, Limit::Plain(10.0)),
    target(
        PLAIN,
        ADD_AFTER,
        Limit::Scaled { at_most: 100.0, by: CLIENT_GO, case: ADD_AFTER_OF_FEW, there: ADD_AFTER_THERE },
    ),
    target(PLAIN, OVERHEAD, Limit::Plain(80.0)),
];

const fn target(program: &'static str, case: &'static str, limit: Limit) -> Target {
    Target { program, case, limit }
}

pub(crate) fn run(root: &Path, turns: Turns) -> Report {
    Report::of("bench workqueue", |report| measure(root, turns, report))
}

fn measure(root: &Path, turns: Turns, report: &mut Report) -> Result<(), BenchError> {
    let path = build_ours(root, "workqueue-bench")?;
    let mut programs = vec![
        Program { name: PLAIN, path: path.clone(), arguments: vec!["plain".to_owned()] },
        Program { name: PRIORITIES, path, arguments: vec!["priorities".to_owned()] },
    ];
    match Go::find(root).and_then(|go| go.build(Module::Peers, "workqueue-bench")) {
        Ok(path) => programs.extend([
            Program { name: CLIENT_GO, path: path.clone(), arguments: vec!["client-go".to_owned()] },
            Program { name: RUNTIME, path, arguments: vec!["controller-runtime".to_owned()] },
        ]),
        Err(GoError::Missing(_)) => println!("peers skipped: no Go"),
        Err(error) => report.problems.push(error.to_string()),
    }
    let samples = in_turn(&programs, turns)?;
    println!("{}\n", samples.table(&programs));
    turns.tell(report);
    samples.report(&[PLAIN, PRIORITIES], &[CLIENT_GO, RUNTIME], report);
    sections::by_case(&samples, &[PLAIN, PRIORITIES], &[CLIENT_GO, RUNTIME], report);
    judge(&TARGETS, &samples, report);
    Ok(())
}
