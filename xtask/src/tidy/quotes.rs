use std::path::Path;

use crate::report::Report;

/// The beginning of the comment that precedes a code block which quotes a file: `<!-- text of PATH -->`.
const BEFORE: &str = "<!-- text of ";

/// Checks code blocks of the pages in `docs` that quote a file: each block must occur verbatim in its file,
/// so that documented code compiles.
pub(super) fn check(root: &Path, report: &mut Report) {
    let Ok(entries) = std::fs::read_dir(root.join("docs")) else { return };
    let mut quotes = 0;
    for path in entries.flatten().map(|entry| entry.path()) {
        let Ok(page) = std::fs::read_to_string(&path) else { continue };
        for Quote { line, file, block } in quotes_of(&page) {
            quotes += 1;
            let name = path.file_name().unwrap_or_default().display().to_string();
            let stands = std::fs::read_to_string(root.join(file)).is_ok_and(|text| text.contains(&block));
            if block.is_empty() || !stands {
                report.problems.push(format!("docs/{name}:{line}: the block does not occur in {file}"));
            }
        }
    }
    report.figure("blocks of docs that are text of files", f64::from(quotes));
}

/// A code block in a documentation page that quotes a file.
#[derive(Debug, PartialEq)]
struct Quote<'a> {
    /// The number of the line with the comment that names the quoted file, counted from 1.
    line: usize,
    file: &'a str,
    block: String,
}

fn quotes_of(page: &str) -> Vec<Quote<'_>> {
    let lines: Vec<&str> = page.lines().collect();
    let named = lines.iter().enumerate().filter_map(|(index, line)| {
        let file = line.strip_prefix(BEFORE)?.strip_suffix(" -->")?;
        let block = lines.get(index + 2..)?.iter().take_while(|line| **line != "```");
        Some(Quote { line: index + 1, file, block: block.flat_map(|line| [line, "\n"]).collect() })
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_is_the_text_between_its_fences() {
        let page = "# Page\n\n<!-- text of a/b.rs -->\n```rust\nfn a() {}\n\nfn b() {}\n```\n\n```rust\nfn c() {}\n```\n";
        let block = "fn a() {}\n\nfn b() {}\n".to_owned();
        assert_eq!(quotes_of(page), [Quote { line: 3, file: "a/b.rs", block }]);
    }

    #[test]
    fn block_that_differs_from_its_file_is_a_problem() {
        let folder = std::env::temp_dir().join(format!("informer-tidy-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("docs")).unwrap();
        std::fs::write(folder.join("a.rs"), "fn a() {}\n").unwrap();
        let page = |text: &str| format!("<!-- text of a.rs -->\n```rust\n{text}\n```\n");
        let problems = |text: &str| {
            std::fs::write(folder.join("docs/page.md"), page(text)).unwrap();
            let mut report = Report::new("tidy");
            check(&folder, &mut report);
            report.problems
        };
        assert!(problems("fn a() {}").is_empty());
        assert_eq!(problems("fn b() {}"), ["docs/page.md:1: the block does not occur in a.rs"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
