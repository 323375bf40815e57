use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::report::Report;

/// Where the deliberate defects of the simulator are.
const FOLDER: &str = "conformance/simulator/mutants";

/// Where it is said how soon each was found.
const PAGE: &str = "docs/simulator.md";

/// Holds the deliberate defects against the tree: building and finding each takes long, and is done by command; that a patch still
/// applies, and that its figures are told, shows at once.
pub(super) fn check(root: &Path, report: &mut Report) {
    let there = patches(root);
    let told = std::fs::read_to_string(root.join(PAGE)).map_or_else(|_| BTreeSet::new(), |page| rows(&page));
    for name in there.difference(&told) {
        report.problems.push(format!("{PAGE} does not say when the defect {name} is found"));
    }
    for name in told.difference(&there) {
        report.problems.push(format!("{PAGE}: there is no defect {name} in {FOLDER}"));
    }
    for name in &there {
        let patch = format!("{FOLDER}/{name}.patch");
        match Command::new("git").current_dir(root).args(["apply", "--check", &patch]).output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
                report.problems.push(format!("{patch} does not apply: {why}"));
            }
            Err(error) => return eprintln!("defects are not applied: git cannot be run: {error}"),
        }
    }
    report.figure("deliberate defects", there.len() as f64);
}

fn patches(root: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(root.join(FOLDER)).into_iter().flatten().flatten();
    let name = |path: &Path| Some(path.file_name()?.to_str()?.strip_suffix(".patch")?.to_owned());
    entries.filter_map(|entry| name(&entry.path())).collect()
}

/// The first cells of the rows below `| defect |`.
fn rows(page: &str) -> BTreeSet<String> {
    let lines = page.lines().skip_while(|line| !line.starts_with("| defect |")).skip(2);
    let cells = lines.map_while(|line| line.strip_prefix("| ")?.split_once(" |"));
    cells.map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "--- a/file\n+++ b/file\n@@ -1 +1 @@\n-kept\n+dropped\n";

    fn problems(name: &str, told: &str, file: &str) -> Vec<String> {
        let root = std::env::temp_dir().join(format!("informer-tidy-{name}-{}", std::process::id()));
        std::fs::create_dir_all(root.join(FOLDER)).unwrap();
        std::fs::create_dir_all(root.join("docs")).unwrap();
        let page = format!("# Page\n\n| defect | found |\n|---|---|\n{told}\n\n| other | table |\n");
        std::fs::write(root.join(PAGE), page).unwrap();
        std::fs::write(root.join("file"), file).unwrap();
        std::fs::write(root.join(FOLDER).join("drops-it.patch"), PATCH).unwrap();
        let mut report = Report::new("tidy");
        check(&root, &mut report);
        std::fs::remove_dir_all(&root).unwrap();
        report.problems
    }

    #[test]
    fn a_defect_that_applies_and_is_told_is_no_problem() {
        assert_eq!(problems("well", "| drops-it | 1 |", "kept\n"), [""; 0]);
    }

    #[test]
    fn a_defect_that_no_longer_applies_is_a_problem() {
        let problems = problems("stale", "| drops-it | 1 |", "changed\n");
        assert!(
            matches!(&problems[..], [one] if one.contains("drops-it.patch does not apply")),
            "{problems:?}"
        );
    }

    #[test]
    fn a_defect_that_is_told_and_not_there_is_a_problem_and_so_is_one_that_is_not_told() {
        let problems = problems("untold", "| drops-all | 1 |", "kept\n");
        assert!(problems[0].contains("when the defect drops-it is found"), "{problems:?}");
        assert!(problems[1].contains("no defect drops-all"), "{problems:?}");
    }
}
