//! Checks language: words of `glossary.txt` and openings of sentences in comments, messages, test names and
//! documents, long lines in comments and documents, and long sentences in documents.
//!
//! Code between backticks is not checked. `cargo xtask tidy --prose FOLDER` lists the findings of one folder.

use std::path::Path;

use regex::Regex;

use super::Source;
use crate::report::Report;

/// All folders whose files are checked. A finding is counted for the first of these folders that contains its
/// file, so a folder inside another one must precede it.
const FOLDERS: [&str; 19] = [
    "crates/informer-apiserver",
    "crates/informer-cache",
    "crates/informer-cli",
    "crates/informer-client",
    "crates/informer-control",
    "crates/informer-core",
    "crates/informer-http",
    "crates/informer-report",
    "crates/informer-runtime",
    "crates/informer-schema",
    "crates/informer-store",
    "crates/informer-workqueue",
    "crates/informer",
    "benches",
    "conformance",
    "docs",
    "examples",
    "fuzz",
    "xtask",
];

/// Maximum width of the lines of comments and documents. Tables, lines with links and code blocks may be
/// wider.
const MAX_COLUMNS: usize = 110;

/// Maximum number of words in a sentence of a document. Sentences in comments are not counted.
const MAX_WORDS: usize = 35;

/// First words of sentences that are rejected, because they hide the subject of the sentence.
const OPENINGS: &str = r"(?:^|[.!?] )(?:What|Who|Whoever|Whatever|Where|None is|It is there)\b";

/// Calls and attributes that indicate a message for users. The string literals in their lines are checked.
const MESSAGES: [&str; 9] =
    ["#[error(", "expect(", "reason = ", "error!(", "warn!(", "info!(", "debug!(", "panic!(", "bail!("];

struct Finding {
    file: String,
    line: usize,
    problem: String,
}

struct Rules {
    words: Vec<(Regex, String)>,
    openings: Regex,
    code: Regex,
}

impl Rules {
    fn read() -> Result<Self, String> {
        let mut words = Vec::new();
        for line in include_str!("glossary.txt").lines().filter(|line| !line.starts_with('#')) {
            let (pattern, remedy) =
                line.split_once(" => ").ok_or_else(|| format!("glossary.txt: {line}: no remedy"))?;
            let regex = compile(&format!(r"(?i)\b(?:{pattern})\b"))?;
            words.push((regex, remedy.to_owned()));
        }
        Ok(Self { words, openings: compile(OPENINGS)?, code: compile("`[^`]*`")? })
    }

    /// Returns a problem with its remedy for each glossary word and each rejected opening in a paragraph, a
    /// message or a name.
    fn check(&self, text: &str) -> Vec<String> {
        let text = &*self.code.replace_all(text, "`code`");
        let words = self.words.iter().flat_map(|(word, remedy)| {
            let found = word.find_iter(text);
            found.map(move |found| format!("\"{}\": write: {remedy}", found.as_str()))
        });
        let openings = self.openings.find_iter(text).map(|found| {
            let opening = found.as_str().trim_start_matches(['.', '!', '?', ' ']);
            format!("a sentence begins with \"{opening}\": name the subject")
        });
        words.chain(openings).collect()
    }
}

fn compile(pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|error| format!("{pattern}: {error}"))
}

/// Checks the comments, messages, test names and documents of all folders, and reports the number of findings
/// in each. With `listed`, only the findings below that folder are reported as problems, otherwise all.
pub(super) fn check(root: &Path, sources: &[Source], listed: Option<&str>, report: &mut Report) {
    let rules = match Rules::read() {
        Ok(rules) => rules,
        Err(problem) => return report.problems.push(problem),
    };
    let mut findings = Vec::new();
    for source in sources {
        check_source(&source.name(root), &source.text, &rules, &mut findings);
    }
    for name in documents(root) {
        if let Ok(text) = std::fs::read_to_string(root.join(&name)) {
            check_document(&name, &text, &rules, &mut findings);
        }
    }
    for folder in FOLDERS {
        let of_folder =
            |finding: &&Finding| FOLDERS.iter().find(|f| is_below(&finding.file, f)) == Some(&folder);
        let count = findings.iter().filter(of_folder).count();
        report.figure(format!("prose findings in {folder}"), count as f64);
    }
    for Finding { file, line, problem } in findings {
        if listed.is_none_or(|folder| is_below(&file, folder.trim_end_matches('/'))) {
            report.problems.push(format!("{file}:{line}: {problem}"));
        }
    }
}

fn is_below(file: &str, folder: &str) -> bool {
    file.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the paths of the Markdown documents whose language and names are checked. The change log is not
/// one of them: it describes the past and keeps the words of that time.
pub(super) fn documents(root: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_owned).to_vec();
    add_documents(root, "docs", &mut names);
    add_documents(root, "examples", &mut names);
    names.sort();
    names
}

fn add_documents(root: &Path, folder: &str, names: &mut Vec<String>) {
    let entries = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
    for entry in entries {
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            add_documents(root, &name, names);
        } else if name.ends_with(".md") {
            names.push(name);
        }
    }
}

fn check_source(file: &str, text: &str, rules: &Rules, findings: &mut Vec<Finding>) {
    let mut find = |line: usize, problem: String| {
        findings.push(Finding { file: file.to_owned(), line: line + 1, problem });
    };
    let mut paragraph = String::new();
    let mut is_test = false;
    let mut in_code = false;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let Some(comment) = comment(trimmed) else {
            paragraph.clear();
            in_code = false;
            for message in messages(trimmed) {
                rules.check(message).into_iter().for_each(|problem| find(number, problem));
            }
            if let Some(name) = function(trimmed) {
                if std::mem::take(&mut is_test) {
                    let sentence = name.replace('_', " ");
                    rules.check(&sentence).into_iter().for_each(|problem| find(number, problem));
                }
            } else if trimmed.starts_with("#[test]") || trimmed.starts_with("#[tokio::test") {
                is_test = true;
            }
            continue;
        };
        in_code ^= comment.starts_with("```");
        if in_code || comment.starts_with("```") {
            paragraph.clear();
            continue;
        }
        if line.chars().count() > MAX_COLUMNS && !comment.starts_with('|') && !comment.contains("](") {
            find(number, format!("a comment is longer than {MAX_COLUMNS} columns"));
        }
        check_line(comment, &mut paragraph, rules, &mut |problem| find(number, problem));
    }
}

/// Checks a line of a paragraph, and reports only problems that the paragraph did not have before the line.
/// The previous lines are kept in `paragraph`, because a sentence or a phrase may continue on the next line.
fn check_line(line: &str, paragraph: &mut String, rules: &Rules, find: &mut dyn FnMut(String)) {
    let is_block = ["|", "- ", "* ", "#", "1."].iter().any(|start| line.starts_with(start));
    if line.is_empty() || is_block {
        paragraph.clear();
    }
    let before = rules.check(paragraph);
    if !paragraph.is_empty() {
        paragraph.push(' ');
    }
    paragraph.push_str(line.trim_start_matches(['-', '*', '#', '|', ' ']));
    rules.check(paragraph).into_iter().for_each({
        let mut known = before;
        move |problem| match known.iter().position(|old| *old == problem) {
            Some(at) => drop(known.swap_remove(at)),
            None => find(problem),
        }
    });
}

fn comment(line: &str) -> Option<&str> {
    ["//!", "///", "//"].iter().find_map(|mark| line.strip_prefix(mark)).map(str::trim)
}

fn function(line: &str) -> Option<&str> {
    let line = line.trim_start_matches("pub ").trim_start_matches("async ");
    let name = line.strip_prefix("fn ")?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// Returns the string literals of a line that contains a call or attribute of [`MESSAGES`].
fn messages(line: &str) -> impl Iterator<Item = &str> {
    let relevant = MESSAGES.iter().any(|call| line.contains(call));
    line.split('"').skip(1).step_by(2).filter(move |_| relevant)
}

fn check_document(file: &str, text: &str, rules: &Rules, findings: &mut Vec<Finding>) {
    let mut find = |line: usize, problem: String| {
        findings.push(Finding { file: file.to_owned(), line: line + 1, problem });
    };
    let mut paragraph = String::new();
    let mut in_code = false;
    for (number, line) in text.lines().enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code || line.trim_start().starts_with("```") {
            paragraph.clear();
            continue;
        }
        let is_table = line.starts_with('|');
        if line.chars().count() > MAX_COLUMNS && !is_table && !line.contains("](") {
            find(number, format!("a line is longer than {MAX_COLUMNS} columns"));
        }
        let previous = long_sentences(&paragraph);
        check_line(line.trim(), &mut paragraph, rules, &mut |problem| find(number, problem));
        if !is_table && long_sentences(&paragraph) > previous {
            find(number, format!("a sentence has more than {MAX_WORDS} words"));
        }
    }
}

fn long_sentences(paragraph: &str) -> usize {
    let sentences = paragraph.split(['.', '!', '?', ';']);
    sentences.filter(|sentence| sentence.split_whitespace().count() > MAX_WORDS).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_of(text: &str) -> Vec<(usize, String)> {
        let mut findings = Vec::new();
        let rules = Rules::read().expect("the glossary is valid");
        check_source("crates/informer-core/src/x.rs", text, &rules, &mut findings);
        findings.into_iter().map(|finding| (finding.line, finding.problem)).collect()
    }

    #[test]
    fn a_word_of_the_glossary_is_found_in_comments_messages_and_test_names() {
        let text = "/// Is \"told\" later.\n#[error(\"nobody listens\")]\n#[test]\nfn it_comes_again() {}\n";
        let lines: Vec<usize> = findings_of(text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 2, 4]);
    }

    #[test]
    fn a_phrase_that_is_wrapped_is_found_once() {
        assert_eq!(
            findings_of("// The object is held\n// against the schema, and\n// that is it.\n").len(),
            1
        );
    }

    #[test]
    fn openings_are_found_at_the_start_and_after_a_sentence() {
        let text =
            "//! What a seed draws.\n\n// It ends. Whatever follows is dropped.\n// Now where it is.\n";
        assert_eq!(findings_of(text).len(), 2);
    }

    #[test]
    fn code_in_comments_and_plain_strings_are_not_checked() {
        assert_eq!(findings_of("/// ```\n/// // nobody\n/// ```\nlet x = \"told\";\n"), []);
        assert_eq!(findings_of("/// The user `nobody` is anonymous.\n"), []);
    }

    #[test]
    fn a_long_sentence_of_a_document_is_found() {
        let mut findings = Vec::new();
        let rules = Rules::read().expect("the glossary is valid");
        let sentence = "word ".repeat(MAX_WORDS) + "word.\n";
        check_document(
            "docs/x.md",
            &sentence.replace("word word word ", "word\nword word "),
            &rules,
            &mut findings,
        );
        assert_eq!(findings.len(), 1 + usize::from(findings.iter().any(|f| f.problem.contains("columns"))));
    }
}
