//! Compiles the programs of `conformance/diagnostics` with cargo, and reads the errors from cargo's JSON
//! messages.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::PACKAGE;
use crate::cargo;

/// The results of compiling all programs.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    /// The errors of each compiled program, by its path relative to the root of the workspace. A program
    /// without errors has an empty list.
    programs: BTreeMap<PathBuf, Vec<CompileError>>,
    /// Errors in the crates on which the programs depend.
    pub(super) other_errors: Vec<String>,
}

#[derive(Debug)]
pub(super) enum Outcome<'a> {
    Succeeded,
    Failed(&'a [CompileError]),
    Absent,
}

impl Compiled {
    /// Returns the result of a program, whose path is relative to the root of the workspace.
    pub(super) fn outcome(&self, program: &Path) -> Outcome<'_> {
        match self.programs.get(program).map(Vec::as_slice) {
            None => Outcome::Absent,
            Some([]) => Outcome::Succeeded,
            Some(errors) => Outcome::Failed(errors),
        }
    }

    pub(super) fn errors(&self) -> impl Iterator<Item = &CompileError> {
        self.programs.values().flatten()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CompileError {
    /// The line of the first primary span.
    pub(super) line: usize,
    /// The error code, such as `E0277`; some errors have none.
    pub(super) code: Option<String>,
    pub(super) message: String,
    /// The labels of the primary spans.
    pub(super) labels: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl CompileError {
    /// Returns the beginning of the error in the compiler's output: `error[E0277]`, or `error` if it has no
    /// code.
    pub(super) fn title(&self) -> String {
        self.code.as_ref().map_or_else(|| "error".to_owned(), |code| format!("error[{code}]"))
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in line {}: {}", self.title(), self.line, self.message)
    }
}

#[derive(Deserialize)]
struct CargoMessage {
    reason: String,
    target: Option<Target>,
    message: Option<Diagnostic>,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    message: String,
    code: Option<Code>,
    #[serde(default)]
    spans: Vec<Span>,
    #[serde(default)]
    children: Vec<Diagnostic>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Span {
    line_start: usize,
    is_primary: bool,
    label: Option<String>,
}

impl Diagnostic {
    /// Converts an error that has a location. Returns `None` for warnings, and for errors without a location,
    /// such as the summary with the number of errors.
    fn into_error(self) -> Option<CompileError> {
        let line = self.spans.iter().find(|span| span.is_primary)?.line_start;
        if self.level != "error" {
            return None;
        }
        let primary = self.spans.into_iter().filter(|span| span.is_primary);
        let notes = self.children.into_iter().filter(|child| child.level == "note");
        Some(CompileError {
            line,
            code: self.code.map(|code| code.code),
            message: self.message,
            labels: primary.filter_map(|span| span.label).collect(),
            notes: notes.map(|child| child.message).collect(),
        })
    }
}

/// Compiles all programs, also after errors. Returns an error if cargo itself fails.
pub(super) fn compile(root: &Path) -> Result<Compiled, String> {
    let mut command = cargo::command();
    command.current_dir(root).args(["check", "--quiet", "--package", "informer-diagnostics", "--examples"]);
    command.args(["--features", "programs", "--keep-going", "--message-format", "json"]);
    // RUSTFLAGS is removed, because flags such as `-D warnings` would turn warnings of the programs into
    // errors.
    command.env_remove("RUSTFLAGS");
    let output = command.output().map_err(|error| format!("run cargo check: {error}"))?;
    let compiled = read(root, &String::from_utf8_lossy(&output.stdout));
    if compiled.programs.is_empty() && compiled.other_errors.is_empty() {
        return Err(format!("cargo check: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(compiled)
}

fn read(root: &Path, messages: &str) -> Compiled {
    let mut compiled = Compiled::default();
    for message in messages.lines().filter_map(|line| serde_json::from_str::<CargoMessage>(line).ok()) {
        let Some(target) = message.target else { continue };
        let path = target.src_path.strip_prefix(root).unwrap_or(&target.src_path).to_owned();
        let is_program =
            ["fail", "pass"].iter().any(|folder| path.starts_with(Path::new(PACKAGE).join(folder)));
        let error = message.message.and_then(Diagnostic::into_error);
        match error {
            Some(error) if is_program => compiled.programs.entry(path).or_default().push(error),
            Some(error) => compiled.other_errors.push(format!("{}: {error}", path.display())),
            None if is_program && message.reason == "compiler-artifact" => {
                compiled.programs.entry(path).or_default();
            }
            None => {}
        }
    }
    for errors in compiled.programs.values_mut() {
        errors.sort();
        errors.dedup();
    }
    compiled
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_are_read_from_the_messages_of_cargo() {
        let target = |name: &str| json!({"src_path": format!("/root/{PACKAGE}/{name}")});
        let span = |line, primary, label| json!({"line_start": line, "is_primary": primary, "label": label});
        let lines = [
            json!({"reason": "compiler-message", "target": target("fail/a.rs"), "message": {
                "level": "error", "message": "`A` is none", "code": {"code": "E0277"},
                "spans": [span(9, false, "call"), span(7, true, "not one")],
                "children": [{"level": "help", "message": "h"}, {"level": "note", "message": "n"}],
            }}),
            json!({"reason": "compiler-message", "target": target("fail/a.rs"), "message": {
                "level": "error", "message": "aborting due to 1 previous error", "code": null, "spans": [],
            }}),
            json!({"reason": "compiler-message", "target": target("pass/b.rs"), "message": {
                "level": "warning", "message": "unused", "code": null, "spans": [span(1, true, "")],
            }}),
            json!({"reason": "compiler-artifact", "target": target("pass/b.rs")}),
            json!({"reason": "build-finished", "success": false}),
        ];
        let text: Vec<_> = lines.iter().map(ToString::to_string).collect();
        let compiled = read(Path::new("/root"), &text.join("\n"));
        let error = CompileError {
            line: 7,
            code: Some("E0277".to_owned()),
            message: "`A` is none".to_owned(),
            labels: vec!["not one".to_owned()],
            notes: vec!["n".to_owned()],
        };
        let package = Path::new(PACKAGE);
        assert!(
            matches!(compiled.outcome(&package.join("fail/a.rs")), Outcome::Failed(errors) if errors == [error])
        );
        assert!(matches!(compiled.outcome(&package.join("pass/b.rs")), Outcome::Succeeded));
        assert!(matches!(compiled.outcome(&package.join("pass/c.rs")), Outcome::Absent));
    }

    #[test]
    fn error_of_a_dependency_is_reported() {
        let message = json!({"reason": "compiler-message", "target": {"src_path": "/root/crates/a.rs"}, "message": {
            "level": "error", "message": "broken", "code": null,
            "spans": [{"line_start": 3, "is_primary": true, "label": null}],
        }});
        let compiled = read(Path::new("/root"), &message.to_string());
        assert_eq!(compiled.other_errors, ["crates/a.rs: error in line 3: broken"]);
    }
}
