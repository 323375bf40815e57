use std::process::Command;
use std::sync::Barrier;

use super::*;

fn ended(code: i32) -> ExitStatus {
    Command::new("sh").args(["-c", &format!("exit {code}")]).status().expect("sh is installed")
}

#[test]
fn targets_run_in_parallel_and_outcomes_keep_their_order() {
    // The two items of a pair wait for each other at a barrier. If a single thread processed all items, the
    // test would hang.
    let pair = Barrier::new(2);
    let outcomes = side_by_side(&[4, 3, 2, 1], 2, |item| {
        pair.wait();
        item * 10
    });
    assert_eq!(outcomes, [40, 30, 20, 10]);
}

#[test]
fn number_of_parallel_targets_is_limited_by_jobs() {
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    side_by_side(&[0; 100], 3, |_| {
        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::yield_now();
        running.fetch_sub(1, Ordering::SeqCst);
    });
    assert!((1..=3).contains(&most.into_inner()));
}

#[test]
fn no_targets_yield_no_outcomes() {
    assert!(side_by_side(&[0; 0], 4, |item| *item).is_empty());
}

#[test]
fn failed_target_is_a_problem() {
    let said = br#"{"crashed":true,"executions":{"keys":70}}"#;
    let outcome = outcome_of("keys", said, ended(1));
    assert_eq!(outcome.executions, Some(70.0));
    assert!(outcome.problem.expect("the target failed").starts_with("keys failed"));
}

#[test]
fn target_without_figures_is_a_problem_for_any_exit_code() {
    for code in [0, 1, 101] {
        let outcome = outcome_of("keys", b"", ended(code));
        assert!(outcome.problem.expect("the output is empty").contains("without figures"), "{code}");
    }
    let of_another = br#"{"crashed":false,"executions":{"list":1}}"#;
    assert_ne!(outcome_of("keys", of_another, ended(0)).problem, None);
}

#[test]
fn successful_target_is_no_problem() {
    let said = b"a line\n{\"crashed\":false,\"executions\":{\"keys\":7}}\n";
    assert_eq!(outcome_of("keys", said, ended(0)), Outcome { executions: Some(7.0), problem: None });
}
