//! Subjects of commits: `area: what the commit does`, in the imperative, at most 72 characters.

use std::path::Path;
use std::process::Command;

use crate::report::Report;

/// The maximum length of a subject, in characters. Git's manual recommends short subjects, and GitHub and
/// other tools cut longer ones.
const MAX_SUBJECT: usize = 72;

/// Imperatives that end in `-ed` or `-ing`. Other first words with these endings are rejected, such as
/// `added`.
const IMPERATIVES: [&str; 9] =
    ["bring", "embed", "exceed", "feed", "need", "seed", "speed", "spread", "string"];

/// Checks the subjects of the commits in `range`, which has the syntax of `git log`. Merge commits are
/// skipped.
pub(super) fn check(root: &Path, range: &str, report: &mut Report) {
    let log = Command::new("git")
        .args(["log", "--no-merges", "--format=%h %s", range, "--"])
        .current_dir(root)
        .output();
    let log = match log {
        Ok(log) if log.status.success() => log.stdout,
        Ok(log) => {
            let why = String::from_utf8_lossy(&log.stderr);
            return report.problems.push(format!("list the commits {range}: {}", why.trim()));
        }
        Err(error) => return report.problems.push(format!("list the commits {range}: run git: {error}")),
    };
    let text = String::from_utf8_lossy(&log);
    let commits: Vec<_> = text.lines().filter_map(|line| line.split_once(' ')).collect();
    report.figure("commits", commits.len() as f64);
    for (commit, subject) in commits {
        if let Some(problem) = problem(subject) {
            report.problems.push(format!("commit {commit}: \"{subject}\": {problem}"));
        }
    }
}

fn problem(subject: &str) -> Option<String> {
    let length = subject.chars().count();
    if length > MAX_SUBJECT {
        return Some(format!("it has {length} characters; write at most {MAX_SUBJECT}"));
    }
    if subject.ends_with('.') {
        return Some("it ends with a period; remove it".to_owned());
    }
    let Some((_area, action)) = subject.split_once(": ") else {
        return Some("it names no area; write `area: what the commit does`".to_owned());
    };
    let verb = action.split_whitespace().next().unwrap_or_default();
    let is_other_form = ["ed", "ing"].iter().any(|end| verb.ends_with(end)) && !IMPERATIVES.contains(&verb);
    is_other_form.then(|| format!("\"{verb}\" is not an imperative; write `add`, not `added` or `adding`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_in_the_imperative_with_an_area_are_accepted() {
        for subject in ["cache: add an index", "client, schema: feed the parser", "docs: name the limits"] {
            assert_eq!(problem(subject), None, "{subject}");
        }
    }

    #[test]
    fn other_subjects_are_rejected_with_the_rule() {
        let long = format!("cache: {}", "word ".repeat(14));
        let cases = [
            (long.as_str(), "characters"),
            ("cache: add an index.", "period"),
            ("add an index", "area"),
            ("cache: added an index", "imperative"),
            ("cache: adding an index", "imperative"),
        ];
        for (subject, expected) in cases {
            let found = problem(subject);
            assert!(found.as_ref().is_some_and(|found| found.contains(expected)), "{subject}: {found:?}");
        }
    }
}
