use std::process::Command;
use std::time::Duration;

use super::{Sort, ended, missing, read};

#[test]
fn script_is_parsed_into_steps() {
    let steps = read("# a comment\n\n$ get pods\n> one\n> two\n! get x\n& get -w\n").unwrap();
    let sorts: Vec<_> = steps.iter().map(|step| (step.line, step.sort, step.shows.len())).collect();
    assert_eq!(sorts, [(3, Sort::Succeeds, 2), (6, Sort::Fails, 0), (7, Sort::GoesOn, 0)]);
    assert_eq!(steps[0].arguments, "get pods");
    assert!(read("> nothing yet").is_err());
    assert!(read("get pods").is_err());
    assert!(read("# nothing").is_err());
}

#[test]
fn expected_strings_must_occur_in_order() {
    let texts = ["a".to_owned(), "b".to_owned()];
    assert_eq!(missing("a and b", &texts), None);
    assert_eq!(missing("b and a", &texts), Some("b"));
}

#[test]
fn program_that_exceeds_its_time_limit_is_killed() {
    let folder = std::env::temp_dir().join(format!("xtask-kubectl-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&folder).unwrap();
    let run = |line: &str, seconds| {
        let limit = Duration::from_secs(seconds);
        ended(Command::new("sh").args(["-c", line]), &folder, limit)
    };
    let (status, shown) = run("echo wrong >&2; echo right; exit 3", 60).unwrap();
    assert_eq!((status.code(), shown.as_str()), (Some(3), "right\nwrong\n"));
    assert!(run("echo so far; exec sleep 600", 0).unwrap_err().contains("has not ended within 0ns"));
    std::fs::remove_dir_all(&folder).unwrap();
}
