use super::{FaultScript, RunFault};
use crate::faults::shrink::MAX_SHRINK_RUNS;
use crate::faults::{ScriptInjector, ScriptShrinker};

fn script(text: &str) -> FaultScript {
    text.parse().expect("a valid script")
}

#[test]
fn script_is_parsed_from_its_own_text() {
    let all = "schedule 7; lag pods 3s at write 0; crash before write 1; crash after write 2; 409 at write 3; \
               500 at write 4; lost response at write 5; cut pods at write 6; expire pods at write 7; \
               isolate 40s at write 8; stale pods 8s at write 9";
    assert_eq!(script(all).to_string(), all);
    let unordered = script("409 at write 3; 500 at write 1");
    let ordered = FaultScript::new(unordered.schedule(), unordered.faults().to_vec());
    assert_eq!(ordered.to_string(), "500 at write 1; 409 at write 3");
}

#[test]
fn invalid_script_is_rejected_with_its_part() {
    for text in [
        "crash",
        "409 at write x",
        "409 at write 0",
        "lag pods 3 at write 1",
        "stale pods at write 1",
        "409 at write 1; schedule 3",
    ] {
        let error = text.parse::<FaultScript>().expect_err("an invalid script").to_string();
        assert!(error.contains("is not a fault"), "{error}");
    }
}

#[test]
fn fault_is_injected_once_at_its_write() {
    let mut injector =
        ScriptInjector::new(&script("lag pods 3s at write 0; 409 at write 2; cut pods at write 2"));
    assert_eq!(injector.start().len(), 1);
    assert_eq!(injector.write().request, None);
    let injected = injector.write();
    assert_eq!((injected.write, injected.request, injected.watches.len()), (2, Some(RunFault::Conflict), 1));
    assert_eq!(injector.write().request, None);
    assert_eq!((injector.writes(), injector.fired()), (3, 3));
}

#[test]
fn disabled_faults_are_not_injected() {
    let mut injector = ScriptInjector::new(&script("409 at write 1"));
    injector.disable();
    assert_eq!(injector.write().request, None);
}

/// Shrinks a script that fails as long as it contains all of `needed`.
fn shrink(found: &str, needed: &[&str]) -> (String, usize) {
    let mut shrinker = ScriptShrinker::new(script(found));
    while let Some(candidate) = shrinker.candidate() {
        let text = candidate.to_string();
        let fails = needed.iter().all(|part| text.contains(part));
        shrinker.handle(candidate, fails);
    }
    let runs = shrinker.runs();
    (shrinker.finish().to_string(), runs)
}

#[test]
fn shrinker_keeps_only_the_parts_that_fail() {
    let found = "schedule 9; 409 at write 1; crash after write 2; 500 at write 3; cut pods at write 4";
    assert_eq!(shrink(found, &["crash after write 2"]).0, "crash after write 2");
    assert_eq!(shrink(found, &["409", "cut"]).0, "409 at write 1; cut pods at write 4");
    assert_eq!(shrink(found, &["schedule 9"]).0, "schedule 9");
    assert_eq!(shrink("409 at write 1", &[]), ("409 at write 1".to_owned(), 0));
}

#[test]
fn shrinker_ends_after_its_maximum_of_runs() {
    let long: Vec<String> = (1..100).map(|write| format!("409 at write {write}")).collect();
    assert_eq!(shrink(&long.join("; "), &["409 at write 1;"]).1, MAX_SHRINK_RUNS);
}
