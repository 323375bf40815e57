//! The rules that the compiler does not check:
//!
//! - dependencies between crates and between the layers of a crate,
//! - lengths of files, and names of files and types,
//! - tests that documents name, and programs that documents show,
//! - patches of deliberate defects, real time in tests, prose,
//! - on request, subjects of commits.

mod commits;
mod defects;
mod edges;
mod files;
mod layers;
mod names;
mod parity;
mod prose;
mod quotes;
mod real_time;
mod type_names;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::report::Report;

#[derive(Debug, Args)]
pub(crate) struct TidyArguments {
    /// Report prose findings only for files below this folder, for example `crates/informer-cache` [default:
    /// all folders]. Other rules are checked everywhere.
    #[arg(long, value_name = "FOLDER")]
    prose: Option<String>,
    /// Also check the subjects of these commits, in the syntax of `git log`, for example `origin/main..HEAD`.
    /// Merge commits are skipped.
    #[arg(long, value_name = "RANGE")]
    commits: Option<String>,
}

pub(crate) fn run(root: &Path, arguments: &TidyArguments) -> Report {
    let mut report = Report::new("tidy");
    let sources = sources(root);
    edges::check(root, &mut report);
    files::check(root, &sources, &mut report);
    layers::check(root, &sources, &mut report);
    parity::check(root, &sources, &mut report);
    crate::capabilities::check(root, sources.iter().map(|source| source.text.as_str()), &mut report);
    names::check(root, &sources, &mut report);
    type_names::check(root, &sources, &mut report);
    quotes::check(root, &mut report);
    defects::check(root, &mut report);
    real_time::check(root, &sources, &mut report);
    prose::check(root, &sources, arguments.prose.as_deref(), &mut report);
    if let Some(range) = &arguments.commits {
        commits::check(root, range, &mut report);
    }
    report.figure("source files", sources.len() as f64);
    report
}

struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// Returns the path of the file relative to the root of the workspace, as in reports.
    fn name(&self, root: &Path) -> String {
        self.path.strip_prefix(root).unwrap_or(&self.path).display().to_string()
    }
}

/// Reads the Rust files of the workspace outside folders named `target`, sorted by path. Unreadable files are
/// skipped.
fn sources(root: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    for folder in ["crates", "examples", "xtask", "benches", "conformance", "fuzz"] {
        collect(&root.join(folder), &mut sources);
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

fn collect(folder: &Path, sources: &mut Vec<Source>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() && name != "target" {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            sources.push(Source { path, text });
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn tree_follows_all_rules() {
        let report = super::run(crate::root(), &super::TidyArguments { prose: None, commits: None });
        assert!(report.passed(), "{report}");
    }
}
