use std::collections::HashSet;
use std::path::Path;

use super::Source;
use crate::report::Report;

const PAGES: [&str; 2] = ["parity.md", "known-issues.md"];

/// Checks the tables of `docs/parity.md` and `docs/known-issues.md`: each test function in backticks in the
/// last column must exist.
pub(super) fn check(root: &Path, sources: &[Source], report: &mut Report) {
    let functions: HashSet<&str> = sources.iter().flat_map(|source| functions(&source.text)).collect();
    for page in PAGES {
        check_page(root, page, &functions, report);
    }
}

fn check_page(root: &Path, page: &str, functions: &HashSet<&str>, report: &mut Report) {
    let path = root.join("docs").join(page);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return report.problems.push(format!("cannot read {}: {error}", path.display())),
    };
    let mut rows = 0;
    for (number, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with("| ")) {
        rows += 1;
        for name in named(line) {
            if !functions.contains(name) {
                report.problems.push(format!("docs/{page}:{}: there is no fn {name}", number + 1));
            }
        }
    }
    report.figure(format!("rows of docs/{page}"), f64::from(rows));
}

fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.split("fn ").skip(1).filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
}

/// Returns the names in the row's last column that are in backticks and look like test functions: snake case
/// of at least three words, with or without a module path.
fn named(row: &str) -> impl Iterator<Item = &str> {
    let last = row.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default();
    let names = last.split('`').skip(1).step_by(2).filter_map(|name| name.rsplit("::").next());
    names.filter(|name| {
        let snake = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        snake && name.matches('_').count() > 1
    })
}
