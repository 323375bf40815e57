//! Tests of medians, ratios and targets.

use super::{Limit, Samples, Target, judge};
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
fn median_ignores_one_disturbed_run() {
    let samples = samples(&[10.0, 900.0, 12.0], &[4.0, 2.0]);
    assert_eq!(samples.median("ours", CASE), Some(12.0));
    assert_eq!(samples.median("peer", CASE), Some(3.0));
    assert_eq!(samples.ratio("ours", "peer", CASE), Some(0.25));
    assert_eq!(samples.median("absent", CASE), None);
}

#[test]
fn limits_are_fractions_multiples_scaled_or_fixed() {
    let samples = samples(&[60.0], &[200.0]);
    assert!(!missed(&samples, Limit::Part { of: "peer", at_most: 1.0 / 3.0 }));
    assert!(missed(&samples, Limit::Part { of: "peer", at_most: 0.25 }));
    assert!(
        !missed(&samples, Limit::Scaled { at_most: 40.0, by: "peer", case: CASE, there: 100.0 }),
        "the limit is 80"
    );
    assert!(
        missed(&samples, Limit::Scaled { at_most: 40.0, by: "peer", case: CASE, there: 150.0 }),
        "the limit is 53"
    );
    assert!(missed(&samples, Limit::Times { of: "peer", at_least: 0.5 }));
    assert!(!missed(&samples, Limit::Times { of: "peer", at_least: 0.3 }));
    assert!(missed(&samples, Limit::Plain(59.0)));
    assert!(!missed(&samples, Limit::Plain(60.0)));
}

#[test]
fn target_without_its_peer_is_not_checked() {
    let samples = samples(&[60.0], &[]);
    assert!(!missed(&samples, Limit::Part { of: "peer", at_most: 0.1 }));
    assert!(!missed(&samples, Limit::Scaled { at_most: 1.0, by: "peer", case: CASE, there: 1.0 }));
}

#[test]
fn it_is_a_problem_if_no_target_can_be_checked() {
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
fn limit_may_be_another_case_of_the_same_program() {
    let mut samples = samples(&[60.0, 80.0], &[1.0]);
    samples.derive(CASE, 1e-3, "add, us");
    assert_eq!(samples.median("ours", "add, us"), Some(0.07));
    assert!(missed(&samples, Limit::Case("add, us")));
    samples.derive(CASE, 1.5, "get, ns");
    assert!(!missed(&samples, Limit::Case("get, ns")));
    assert!(!missed(&samples, Limit::Case("never measured")));
}

#[test]
fn problem_of_a_scaled_target_has_the_figure_the_limit_and_its_basis() {
    let samples = samples(&[182.0], &[513.0]);
    let limit = Limit::Scaled { at_most: 100.0, by: "peer", case: CASE, there: 285.0 };
    let mut report = Report::new("bench");
    Target { program: "ours", case: CASE, limit }.judge(&samples, &mut report);
    let expected = "add, ns: ours: 182 ns, limit at most 180 ns: 100 ns on a machine where peer takes 285 ns, \
                    scaled to its 513 ns here";
    assert_eq!(report.problems, [expected]);
    let limit = Limit::Part { of: "peer", at_most: 0.25 };
    Target { program: "ours", case: CASE, limit }.judge(&samples, &mut report);
    assert_eq!(report.targets[1].limit, "at most 128 ns: 0.25 times peer");
}
