mod members;

use std::collections::HashSet;
use std::path::Path;

use members::Members;
pub(super) use members::is_cfg_test;

use super::{Source, prose};
use crate::report::Report;

/// The section of `docs/parity.md` with the tables of public names of client-go.
const SECTION: &str = "## Public names";

/// The public names of client-go, one per line: package and name.
const UPSTREAM: &str = "conformance/parity/upstream-names.txt";

/// Names from other libraries that may be in the column of this library in the tables of public names.
const FOREIGN: [&str; 4] = ["Arc", "Ord", "StreamExt", "buffer_unordered"];

/// Members of kube-rs types that documents mention. Types of this workspace have the same names, but not
/// these members.
const FOREIGN_MEMBERS: [&str; 6] =
    ["Action::await_change", "Action::requeue", "Api::exec", "Api::get_metadata", "Api::list", "Store::get"];

/// Checks the tables of public names in `docs/parity.md`: each public name of client-go must have a row in
/// the subsection of its package, and each name of this library in a row must exist. Also checks names such
/// as `Type::member` in all documents.
pub(super) fn check(root: &Path, sources: &[Source], report: &mut Report) {
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).map_err(|error| format!("cannot read {path}: {error}"))
    };
    match (read("docs/parity.md"), read(UPSTREAM)) {
        (Ok(page), Ok(upstream)) => {
            let declared = sources.iter().flat_map(|source| declared(&source.text)).collect();
            compare(&page, &upstream, &declared, report);
        }
        (page, upstream) => report.problems.extend(page.err().into_iter().chain(upstream.err())),
    }
    let members = members(root, sources);
    for document in prose::documents(root) {
        match read(&document) {
            Ok(text) => check_members(&document, &text, &members, report),
            Err(problem) => report.problems.push(problem),
        }
    }
}

/// Returns the members of all types in the crates below `crates/`. Files that cannot be parsed are skipped,
/// because the check `real_time` reports them.
fn members(root: &Path, sources: &[Source]) -> Members {
    let mut members = Members::default();
    for source in sources {
        let name = source.name(root);
        let Some((krate, file)) = name.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        if let Ok(parsed) = syn::parse_file(&source.text)
            && !file.contains("tests")
        {
            members.add(krate, &parsed.items);
        }
    }
    members
}

/// Checks paths in backticks such as `Type::member` in a document. If a crate of this workspace declares the
/// type, one of the types with this name must have the member.
fn check_members(document: &str, text: &str, members: &Members, report: &mut Report) {
    for (index, line) in text.lines().enumerate() {
        for path in quoted(line).filter_map(|code| code.split('(').next()) {
            let names: Vec<&str> = path.split("::").collect();
            for pair in names.windows(2).filter(|pair| members.has(pair[0], pair[1]) == Some(false)) {
                let name = pair.join("::");
                if !FOREIGN_MEMBERS.contains(&&*name) {
                    report.problems.push(format!("{document}:{}: there is no {name}", index + 1));
                }
            }
        }
    }
}

fn compare(page: &str, upstream: &str, declared: &HashSet<&str>, report: &mut Report) {
    let mut rows: HashSet<(&str, &str)> = HashSet::new();
    let mut package = "";
    for (number, line) in section(page) {
        if let Some(title) = line.strip_prefix("### ") {
            package = title.split(':').next().unwrap_or_default();
        }
        let Some((theirs, ours)) = line.strip_prefix("| ").and_then(|row| row.split_once(" | ")) else {
            continue;
        };
        rows.extend(quoted(theirs).map(|name| (package, name)));
        for name in quoted(ours).flat_map(|path| path.split("::")) {
            if !declared.contains(name) && !FOREIGN.contains(&name) {
                report.problems.push(format!("docs/parity.md:{number}: there is no {name}"));
            }
        }
    }
    let mut names = 0;
    for (package, name) in upstream.lines().filter_map(|line| line.split_once(' ')) {
        names += 1;
        if !rows.contains(&(package, name)) {
            report.problems.push(format!("docs/parity.md: {package} has {name}, and no row names it"));
        }
    }
    report.figure("public names of upstream", f64::from(names));
}

fn section(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = page.lines().enumerate().map(|(index, line)| (index + 1, line));
    let section = lines.skip_while(|(_, line)| *line != SECTION).skip(1);
    section.take_while(|(_, line)| !line.starts_with("## "))
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the names that a source file may declare: words after keywords such as `fn` or `mod`, and
/// capitalized first words of other lines, which may be enum variants.
fn declared(text: &str) -> impl Iterator<Item = &str> {
    const WORDS: [&str; 7] = ["fn", "struct", "enum", "trait", "type", "const", "mod"];
    text.lines().filter(|line| !line.trim_start().starts_with("//")).filter_map(|line| {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        let words: Vec<&str> = words.collect();
        let item = words.iter().position(|word| WORDS.contains(word)).and_then(|at| words.get(at + 1));
        item.or_else(|| words.first().filter(|word| word.starts_with(char::is_uppercase))).copied()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Parity\n\n## Public names\n\n### tools/cache: keys\n\n| upstream | ours |\n|---|---|\n\
        | `KeyFunc`, `KeyError` | `Keys::by`, `KeyError` |\n\n## Stores\n\n| `Elsewhere` | `missing` |\n";

    fn problems(page: &str, upstream: &str) -> Vec<String> {
        let source = "pub struct Keys;\nimpl Keys {\n    pub fn by() {}\n}\npub enum KeyError {\n    Bad(String),\n}\n";
        let mut report = Report::new("tidy");
        compare(page, upstream, &declared(source).collect(), &mut report);
        report.problems
    }

    #[test]
    fn upstream_name_without_a_row_in_its_package_is_a_problem() {
        assert_eq!(problems(PAGE, "tools/cache KeyFunc\ntools/cache KeyError\n"), Vec::<String>::new());
        let missing = problems(PAGE, "tools/cache Elsewhere\nutil/workqueue KeyFunc\n");
        assert_eq!(missing.len(), 2, "{missing:?}");
    }

    #[test]
    fn unknown_name_in_a_row_is_a_problem() {
        let page = PAGE.replace("`Keys::by`", "`Keys::missing`, `KeyError::Bad`");
        assert_eq!(problems(&page, ""), ["docs/parity.md:9: there is no missing"]);
    }

    #[test]
    fn name_that_is_a_member_of_another_type_is_a_problem() {
        let text = "pub struct Keys;\nimpl Keys { pub fn by() {} }\npub enum KeyError { Bad(String) }\n";
        let root = Path::new("/root");
        let source = |path: &str| Source { path: root.join(path), text: text.to_owned() };
        let members = members(root, &[source("crates/core/src/keys.rs"), source("xtask/src/keys.rs")]);
        let problems = |page: &str| {
            let mut report = Report::new("tidy");
            check_members("docs/a.md", page, &members, &mut report);
            report.problems
        };
        assert_eq!(problems("`Keys::by(..)`, `core::KeyError::Bad`\n`Unknown::by`, `keys::by`"), [""; 0]);
        assert_eq!(
            problems("`Keys::Bad`\n\n`core::KeyError::by(x).y`"),
            ["docs/a.md:1: there is no Keys::Bad", "docs/a.md:3: there is no KeyError::by"]
        );
    }
}
