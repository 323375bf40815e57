//! Medians, ratios and targets.

use super::{Limit, Samples, Target, judge, rounded};
use crate::report::Report;

const CASE: &str = "add, ns";

fn samples(ours: &[f64], peer: &[f64]) -> Samples {
    let mut samples = Samples::default();
    ours.iter().for_each(|&value| samples.push("ours", CASE.to_owned(), value));
    peer.iter().for_each(|&value| samples.push("peer", CASE.to_owned(), value));
    samples
}

fn missed(samples: &Samples, limit: Limit) -> bool {
    let mut report = Report::new("bench");
    Target { program: "ours", case: CASE, limit }.judge(samples, &mut report);
    !report.passed()
}

#[test]
fn a_median_ignores_one_run_that_was_disturbed() {
    let samples = samples(&[10.0, 900.0, 12.0], &[4.0, 2.0]);
    assert_eq!(samples.median("ours", CASE), Some(12.0));
    assert_eq!(samples.median("peer", CASE), Some(3.0));
    assert_eq!(samples.ratio("ours", "peer", CASE), Some(0.25));
    assert_eq!(samples.median("nobody", CASE), None);
}

#[test]
fn a_target_is_a_part_of_the_peer_or_moves_with_it_or_stays() {
    let samples = samples(&[60.0], &[200.0]);
    assert!(!missed(&samples, Limit::Part { of: "peer", at_most: 1.0 / 3.0 }));
    assert!(missed(&samples, Limit::Part { of: "peer", at_most: 0.25 }));
    assert!(
        !missed(&samples, Limit::Scaled { at_most: 40.0, by: "peer", case: CASE, there: 100.0 }),
        "80 here"
    );
    assert!(
        missed(&samples, Limit::Scaled { at_most: 40.0, by: "peer", case: CASE, there: 150.0 }),
        "53 here"
    );
    assert!(missed(&samples, Limit::Times { of: "peer", at_least: 0.5 }));
    assert!(!missed(&samples, Limit::Times { of: "peer", at_least: 0.3 }));
    assert!(missed(&samples, Limit::Plain(59.0)));
    assert!(!missed(&samples, Limit::Plain(60.0)));
}

#[test]
fn without_its_peer_a_target_is_not_judged() {
    let samples = samples(&[60.0], &[]);
    assert!(!missed(&samples, Limit::Part { of: "peer", at_most: 0.1 }));
    assert!(!missed(&samples, Limit::Scaled { at_most: 1.0, by: "peer", case: CASE, there: 1.0 }));
}

#[test]
fn targets_of_which_none_is_judged_show_nothing() {
    let samples = samples(&[60.0], &[]);
    let problems = |cases: &[&'static str]| {
        let of = |case: &&'static str| Target { program: "ours", case, limit: Limit::Plain(100.0) };
        let targets: Vec<Target> = cases.iter().map(of).collect();
        let mut report = Report::new("bench");
        judge(&targets, &samples, &mut report);
        report.problems.len()
    };
    assert_eq!(problems(&[CASE, "never measured"]), 0);
    assert_eq!(problems(&["never measured"]), 1);
}

#[test]
fn a_target_may_be_another_case_of_the_same_program() {
    let mut samples = samples(&[60.0, 80.0], &[1.0]);
    samples.derive(CASE, 1e-3, "add, us");
    assert_eq!(samples.median("ours", "add, us"), Some(0.07));
    assert!(missed(&samples, Limit::Case("add, us")));
    samples.derive(CASE, 1.5, "get, ns");
    assert!(!missed(&samples, Limit::Case("get, ns")));
    assert!(!missed(&samples, Limit::Case("never measured")));
}

#[test]
fn figures_keep_three_digits_and_whole_numbers_all() {
    let told = [0.0, 0.012_345, 0.9, 1.234_5, 12.345, 123.45, 101_080.4].map(rounded);
    assert_eq!(told, [0.0, 0.0123, 0.9, 1.23, 12.3, 123.0, 101_080.0]);
}
