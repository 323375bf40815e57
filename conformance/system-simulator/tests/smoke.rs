//! Runs some scenarios of the simulator with fixed seeds.

use informer_system_simulator::{Scenario, run};

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
fn equal_seeds_give_equal_scenarios() {
    let text = |seed| format!("{:?}", Scenario::of_seed(seed));
    assert_eq!(text(3), text(3));
    assert_ne!(text(3), text(4));
    assert!((0..100).all(|seed| Scenario::of_seed(seed).steps.len() >= 40));
}
