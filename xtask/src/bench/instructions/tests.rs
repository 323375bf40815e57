//! Tests of the comparison with committed counts, and of the output of valgrind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::cases::Case;
use super::counts::{CommittedCounts, Toolchain, compare};
use super::valgrind::collected;
use super::{CountError, PROGRAM};

fn toolchain(rustc: &str) -> Toolchain {
    let verbose = format!("{rustc}\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\n");
    Toolchain::parse(&verbose, "glibc 2.36\n")
}

fn here() -> Toolchain {
    toolchain("rustc 1.95.0 (59807616e 2026-04-14)")
}

fn committed(counts: &[(&str, f64)]) -> CommittedCounts {
    let instructions = counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    CommittedCounts { toolchain: here(), instructions }
}

fn counts(counts: &[(Case, f64)]) -> BTreeMap<Case, f64> {
    counts.iter().copied().collect()
}

/// Returns the problem of a count of the case `lookup` whose committed count is 1,000.
fn problem(count: f64) -> Option<String> {
    let comparison =
        compare(Some(&committed(&[("lookup", 1000.0)])), &here(), &counts(&[(Case::Lookup, count)]));
    assert_eq!((comparison.compared, &comparison.note), (1, &None));
    assert!(comparison.problems.len() <= 1, "{comparison:?}");
    comparison.problems.into_iter().next()
}

#[test]
fn count_within_tolerance_passes() {
    for count in [980.0, 1000.0, 1020.0] {
        assert_eq!(problem(count), None);
    }
}

#[test]
fn count_above_tolerance_is_a_regression() {
    let problem = problem(1030.0).unwrap();
    assert!(
        problem.starts_with("lookup: 1030 instructions per read, 3.0 % more than the committed 1000"),
        "{problem}"
    );
    assert!(problem.contains("cargo xtask bench instructions --write"), "{problem}");
}

#[test]
fn count_below_tolerance_requires_new_committed_counts() {
    let problem = problem(900.0).unwrap();
    assert!(problem.contains("10.0 % less than the committed 1000"), "{problem}");
    assert!(problem.contains("cargo xtask bench instructions --write"), "{problem}");
}

#[test]
fn counts_of_another_compiler_are_not_compared() {
    let other = toolchain("rustc 1.96.0 (abc 2026-05-28)");
    let comparison =
        compare(Some(&committed(&[("lookup", 1.0)])), &other, &counts(&[(Case::Lookup, 1000.0)]));
    assert_eq!((comparison.compared, comparison.problems.len()), (0, 0));
    let note = comparison.note.unwrap();
    for part in ["not compared", "rustc 1.95.0", "rustc 1.96.0", "--write"] {
        assert!(note.contains(part), "{note}");
    }
}

#[test]
fn counts_of_another_target_or_libc_are_not_compared() {
    let file = committed(&[("lookup", 1.0)]);
    for other in [
        Toolchain { target: "aarch64-unknown-linux-gnu".to_owned(), ..here() },
        Toolchain { libc: "glibc 2.39".to_owned(), ..here() },
    ] {
        let comparison = compare(Some(&file), &other, &counts(&[(Case::Lookup, 1000.0)]));
        assert_eq!((comparison.compared, comparison.problems.len()), (0, 0));
        assert!(comparison.note.is_some());
    }
}

#[test]
fn case_without_a_committed_count_is_a_problem() {
    let measured = counts(&[(Case::Lookup, 1000.0), (Case::Queue, 10.0)]);
    let comparison = compare(Some(&committed(&[("lookup", 1000.0)])), &here(), &measured);
    assert_eq!(comparison.compared, 1);
    assert_eq!(
        comparison.problems,
        [
            "queue: benches/instructions.json has no count; add it with `cargo xtask bench instructions --write`"
        ]
    );
    let problems = compare(None, &here(), &measured).problems;
    assert!(problems[0].starts_with("benches/instructions.json does not exist"), "{problems:?}");
}

#[test]
fn committed_count_of_an_unknown_case_is_a_problem() {
    let file = committed(&[("lookup", 1000.0), ("removed-case", 5.0)]);
    let comparison = compare(Some(&file), &here(), &counts(&[(Case::Lookup, 1000.0)]));
    assert_eq!(comparison.problems.len(), 1);
    assert!(comparison.problems[0].starts_with("removed-case: "), "{comparison:?}");
}

#[test]
fn write_of_one_case_keeps_the_counts_of_other_cases() {
    let file = committed(&[("lookup", 1000.0), ("queue", 10.0), ("removed-case", 5.0)]);
    let path = Path::new("counts.json");
    let updated =
        CommittedCounts::updated(Some(file), path, here(), &counts(&[(Case::Lookup, 900.0)])).unwrap();
    assert_eq!(updated, committed(&[("lookup", 900.0), ("queue", 10.0)]));
}

#[test]
fn write_does_not_mix_counts_of_two_compilers() {
    let file = committed(&[("lookup", 1000.0), ("queue", 10.0)]);
    let (path, other) = (Path::new("counts.json"), toolchain("rustc 1.96.0"));
    let one = counts(&[(Case::Lookup, 900.0)]);
    let error = CommittedCounts::updated(Some(file.clone()), path, other.clone(), &one).unwrap_err();
    assert!(matches!(error, CountError::MixedToolchains { .. }), "{error}");
    let both = counts(&[(Case::Lookup, 900.0), (Case::Queue, 9.0)]);
    let updated = CommittedCounts::updated(Some(file), path, other.clone(), &both).unwrap();
    assert_eq!((updated.toolchain, updated.instructions.len()), (other, 2));
}

#[test]
fn written_counts_are_read_again() {
    let folder = std::env::temp_dir().join(format!("informer-xtask-instructions-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("counts.json");
    assert_eq!(CommittedCounts::read(&path).unwrap(), None);
    let file = committed(&[("lookup", 152.3)]);
    file.write(&path).unwrap();
    assert_eq!(CommittedCounts::read(&path).unwrap(), Some(file));
    std::fs::write(&path, "{").unwrap();
    assert!(matches!(CommittedCounts::read(&path), Err(CountError::Decode { .. })));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn toolchain_is_parsed_from_verbose_version() {
    let Toolchain { rustc, target, libc } = here();
    assert_eq!(
        [&*rustc, &target, &libc],
        ["rustc 1.95.0 (59807616e 2026-04-14)", "x86_64-unknown-linux-gnu", "glibc 2.36"]
    );
    assert_eq!(Toolchain::parse("rustc 1.95.0\n", "").libc, "unknown libc");
}

#[test]
fn count_is_parsed_from_output_of_callgrind() {
    let log = "==7== Callgrind, a call-graph generating cache profiler\n==7== \n==7== Events    : Ir\n\
               ==7== Collected : 118230452\n==7== \n==7== I   refs:      118,230,452\n";
    assert_eq!(collected(log), Some(118_230_452));
    let with_cache = "==7== Events    : Ir Dr Dw\n==7== Collected : 12 3 4\n";
    assert_eq!(collected(with_cache), Some(12));
}

#[test]
fn output_without_counted_instructions_has_no_count() {
    assert_eq!(collected("==7== Events    : Ir\n==7== Collected : 0\n"), None);
    assert_eq!(collected("valgrind: failed to start tool 'callgrind'"), None);
    assert_eq!(collected(""), None);
}

#[test]
fn ci_builds_the_program_with_the_same_packages() {
    let script = std::fs::read_to_string(crate::root().join(".ci/run")).unwrap();
    let packages = |text: &str| {
        let words = text.split(|character: char| character.is_whitespace() || "()".contains(character));
        let packages = words.filter(|word| word.starts_with("--package=")).map(str::to_owned);
        packages.collect::<BTreeSet<_>>()
    };
    let selected = format!("--package={} {}", PROGRAM.package, PROGRAM.selection.join(" "));
    assert_eq!(packages(&script), packages(&selected));
}
