//! Runs some scenarios of the simulator with fixed seeds.

use informer_system_simulator::{Fault, Plan, Scenario, run, run_many};

/// The seeds. There are so few that the test takes only some seconds in a build without optimization.
const SEEDS: std::ops::Range<u64> = 9_000..9_005;

#[test]
fn invariants_hold_for_fixed_seeds() {
    for seed in SEEDS {
        let outcome = run(&Scenario::of_seed(seed));
        assert_eq!(outcome.violations, [], "replay it with cargo xtask simulate --system --replay {seed}");
    }
}

#[test]
fn faults_are_counted_by_kind() {
    let plan = Plan { seed: SEEDS.start, schedules: 2, time: None, threads: 1, keep_going: false };
    let tally = run_many(&plan);
    assert_eq!(tally.faults_by_kind.len(), Fault::ALL.len());
    assert_eq!(tally.faults_by_kind.values().sum::<u64>(), tally.faults);
    assert!(tally.faults_by_kind.contains_key("watch-ends"));
}

#[test]
fn equal_seeds_give_equal_scenarios() {
    let text = |seed| format!("{:?}", Scenario::of_seed(seed));
    assert_eq!(text(3), text(3));
    assert_ne!(text(3), text(4));
    assert!((0..100).all(|seed| Scenario::of_seed(seed).steps.len() >= 40));
}
