use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::report::Report;

/// The deliberate defects of a simulator: the folder of their patches, and the beginning of the header of the
/// Markdown table that documents them.
struct Defects {
    folder: &'static str,
    header: &'static str,
}

const DEFECTS: [Defects; 2] = [
    Defects { folder: "conformance/simulator/mutants", header: "| defect |" },
    Defects { folder: "conformance/system-simulator/mutants", header: "| planted defect |" },
];

/// The page with the tables that document how soon each deliberate defect is found.
const PAGE: &str = "docs/simulator.md";

/// Checks that the patches of the deliberate defects of the simulators apply to the tree, and that the tables
/// in `docs/simulator.md` list exactly these defects. Building and finding each defect takes long and has a
/// separate command: `cargo xtask simulate --mutants`.
pub(super) fn check(root: &Path, report: &mut Report) {
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let mut count = 0;
    for defects in &DEFECTS {
        let there = patches(&root.join(defects.folder));
        check_page(defects, &there, &rows(&page, defects.header), report);
        for name in &there {
            check_patch(root, &format!("{}/{name}.patch", defects.folder), report);
        }
        count += there.len();
    }
    report.figure("deliberate defects", count as f64);
}

fn check_page(defects: &Defects, there: &BTreeSet<String>, told: &BTreeSet<String>, report: &mut Report) {
    for name in there.difference(told) {
        report.problems.push(format!("{PAGE} does not say when the defect {name} is found"));
    }
    for name in told.difference(there) {
        report.problems.push(format!("{PAGE}: there is no defect {name} in {}", defects.folder));
    }
}

fn check_patch(root: &Path, patch: &str, report: &mut Report) {
    match Command::new("git").current_dir(root).args(["apply", "--check", patch]).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            report.problems.push(format!("{patch} does not apply: {why}"));
        }
        Err(error) => eprintln!("{patch} is not checked: cannot run git: {error}"),
    }
}

fn patches(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let name = |path: &Path| Some(path.file_name()?.to_str()?.strip_suffix(".patch")?.to_owned());
    entries.filter_map(|entry| name(&entry.path())).collect()
}

/// Returns the first cell of each row of the Markdown table whose header line begins with `header`.
fn rows(page: &str, header: &str) -> BTreeSet<String> {
    let lines = page.lines().skip_while(|line| !line.starts_with(header)).skip(2);
    let cells = lines.map_while(|line| line.strip_prefix("| ")?.split_once(" |"));
    cells.map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "--- a/file\n+++ b/file\n@@ -1 +1 @@\n-kept\n+dropped\n";

    /// Runs the check on a temporary tree, and returns the problems that it reports. The folder of each
    /// simulator contains one defect, `drops-it`. `told` is the row of each table in the documentation, and
    /// `file` the content of the file that the defect changes.
    fn problems(name: &str, told: &str, file: &str) -> Vec<String> {
        let root = std::env::temp_dir().join(format!("informer-tidy-{name}-{}", std::process::id()));
        for defects in &DEFECTS {
            std::fs::create_dir_all(root.join(defects.folder)).unwrap();
            std::fs::write(root.join(defects.folder).join("drops-it.patch"), PATCH).unwrap();
        }
        std::fs::create_dir_all(root.join("docs")).unwrap();
        let table = |header: &str| format!("{header} found |\n|---|---|\n{told}\n\n| other | table |\n\n");
        let page = format!("# Page\n\n{}{}", table(DEFECTS[0].header), table(DEFECTS[1].header));
        std::fs::write(root.join(PAGE), page).unwrap();
        std::fs::write(root.join("file"), file).unwrap();
        let mut report = Report::new("tidy");
        check(&root, &mut report);
        std::fs::remove_dir_all(&root).unwrap();
        report.problems
    }

    #[test]
    fn defect_that_applies_and_is_documented_is_no_problem() {
        assert_eq!(problems("well", "| drops-it | 1 |", "kept\n"), [""; 0]);
    }

    #[test]
    fn defect_that_no_longer_applies_is_a_problem_in_either_folder() {
        let problems = problems("stale", "| drops-it | 1 |", "changed\n");
        assert!(
            matches!(&problems[..], [_, two] if two.contains("system-simulator/mutants/drops-it.patch does not apply")),
            "{problems:?}"
        );
    }

    #[test]
    fn documented_defects_and_patches_must_be_the_same() {
        let problems = problems("untold", "| drops-all | 1 |", "kept\n");
        assert_eq!(problems.len(), 4, "{problems:?}");
        for two in problems.chunks(2) {
            assert!(two[0].contains("when the defect drops-it is found"), "{problems:?}");
            assert!(two[1].contains("no defect drops-all"), "{problems:?}");
        }
    }
}
