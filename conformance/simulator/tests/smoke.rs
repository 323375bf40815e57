//! Runs some schedules of the simulator, and the scripts of the bugs that it found.

use std::path::{Path, PathBuf};

use informer_simulator::{
    Distribution, Fault, Plan, Script, TRANSITIONS, Verb, run, run_kube_rs_model, run_many,
    run_with_timeline, shrink, shrink_while,
};

/// Number of schedules; this many take some seconds in a debug build.
const SCHEDULES: u64 = 300;

#[test]
fn invariants_hold_under_all_faults() {
    let plan = Plan { seed: 7_000_000, schedules: SCHEDULES, time: None, threads: 2 };
    let tally = run_many(&plan, &|_| {});
    assert_eq!(tally.failure, None, "replay it with cargo xtask simulate --seed");
    assert_eq!(tally.schedules, SCHEDULES);
    let counted = |distribution: Distribution| -> u64 {
        let written = serde_json::to_value(distribution.named("", 1)).expect("strings and numbers are JSON");
        written["counts"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum()
    };
    assert_eq!(counted(tally.by_second.clone()), SCHEDULES);
    assert_eq!(counted(tally.by_steps.clone()), SCHEDULES);
    let count = |from: u64| from / tally.schedules;
    assert!(count(tally.verbs) >= 100 && count(tally.keys) >= 10 && count(tally.faults) >= 4);
    assert!(count(tally.steps) >= 100, "{} steps", tally.steps);
    let known: Vec<String> =
        TRANSITIONS.iter().map(|(from, to)| format!("transition {from} -> {to}")).collect();
    let seen = tally.coverage.rows().into_iter().map(|(name, _)| name);
    let strange: Vec<_> =
        seen.filter(|name| name.starts_with("transition ") && !known.contains(name)).collect();
    assert!(strange.is_empty(), "transitions that TRANSITIONS does not list: {strange:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 17, 99] {
        let timeline = |seed| run_with_timeline(&Script::of_seed(seed)).timeline;
        let (one, two) = (timeline(seed), timeline(seed));
        assert!(one.len() > 50 && one == two, "seed {seed}");
    }
}

#[test]
fn a_formatted_script_parses_to_the_same_script() {
    for seed in 0..200 {
        let script = Script::of_seed(seed);
        assert_eq!(script.to_string().parse::<Script>(), Ok(script));
    }
}

#[test]
fn an_invalid_script_is_rejected_with_its_line() {
    let refused = |text: &str| text.parse::<Script>().unwrap_err().to_string();
    assert!(refused("").contains("must be the setup"));
    assert!(refused("setup keys").contains("keys"));
    assert!(refused("setup colour=1").contains("colour"));
    assert!(refused("setup keys=10\nfault nobody 3").contains("nobody"));
    assert!(refused("setup keys=10\nwrite x").contains("write x"));
}

#[test]
fn schedules_have_the_expected_number_of_steps_and_faults() {
    let mut seen = vec![0; Fault::ALL.len()];
    for seed in 0..5000 {
        let script = Script::of_seed(seed);
        assert!(script.steps.len() >= 100 && script.faults() >= 4 && script.setup.keys >= 10);
        for step in &script.steps {
            if let Verb::Fault(fault) = step.verb {
                seen[fault as usize] += 1;
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
}

#[test]
fn a_script_without_steps_passes_and_shrinking_a_passing_script_changes_nothing() {
    let mut script = Script::of_seed(5);
    script.steps.clear();
    assert_eq!(run(&script).violation, None);
    let violation = informer_simulator::Violation { invariant: "none", text: String::new() };
    assert_eq!(shrink(&Script::of_seed(5), &violation), Script::of_seed(5));
}

#[test]
fn a_failing_script_is_shrunk_until_every_step_is_needed() {
    for bug in [
        "an object that is missing from a relist is never reported as deleted",
        "a streaming list is requested forever from a server without streaming lists",
    ] {
        let shows = |script: &Script| run_kube_rs_model(script).contains(&bug);
        let whole = (0..100).map(Script::of_seed).find(shows).expect("some schedule shows the bug");
        let short = shrink_while(&whole, shows);
        assert!(shows(&short) && short.setup == whole.setup);
        assert!(
            short.steps.len() <= 20,
            "{} of {} steps are left:\n{short}",
            short.steps.len(),
            whole.steps.len()
        );
        for at in 0..short.steps.len() {
            let mut less = short.clone();
            less.steps.remove(at);
            assert!(!shows(&less), "step {at} is not needed:\n{short}");
        }
    }
}

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let entries = std::fs::read_dir(folder).expect("the folder of scripts is readable");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("the folder is readable").path()).collect();
    paths.sort();
    paths
}

#[test]
fn scripts_of_fixed_bugs_pass() {
    let paths = scripts();
    assert!(!paths.is_empty());
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("the script is readable");
        let script: Script = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(run(&script).violation, None, "{}", path.display());
    }
}

#[test]
fn schedules_reveal_the_known_issues_of_the_kube_rs_watcher() {
    let found: std::collections::BTreeSet<_> =
        (0..1500).flat_map(|seed| run_kube_rs_model(&Script::of_seed(seed))).collect();
    for bug in [
        "a streaming list is requested forever from a server without streaming lists",
        "a watch whose version has expired (status 410) is repeated forever",
        "an object that is missing from a relist is never reported as deleted",
        "one undecodable object blocks the list forever",
        "the wait after failing lists does not grow",
    ] {
        assert!(found.contains(bug), "{bug}; found: {found:?}");
    }
}
