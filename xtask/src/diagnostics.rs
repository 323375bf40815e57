//! Compiles the programs of `conformance/diagnostics`, and compares the messages of this library in the
//! compiler's output with the expected ones.
//!
//! The wording of rustc differs between its versions. Of each error, this command therefore compares only the
//! code, the line, and the texts from `#[diagnostic::on_unimplemented]` attributes.

mod attributes;
mod compiler;
mod expected;
mod page;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::report::Report;
use attributes::Attributes;
use compiler::{Compiled, Outcome};

/// The folder of the package with the compiled programs, relative to the root of the workspace.
const PACKAGE: &str = "conformance/diagnostics";

/// Options of `cargo xtask diagnostics`.
#[derive(Debug, Args)]
pub(crate) struct DiagnosticsArguments {
    /// Write the actual messages of the programs that must not compile to the files with the expected ones,
    /// instead of comparing them.
    #[arg(long)]
    bless: bool,
}

pub(crate) fn run(root: &Path, arguments: &DiagnosticsArguments) -> Report {
    let mut report = Report::new("diagnostics");
    if let Err(problem) = check(root, arguments, &mut report) {
        report.problems.push(problem);
    }
    report
}

fn check(root: &Path, arguments: &DiagnosticsArguments, report: &mut Report) -> Result<(), String> {
    let attributes = Attributes::read(root)?;
    let compiled = compiler::compile(root)?;
    report.problems.extend(compiled.other_errors.iter().cloned());
    let failing = programs(root, "fail")?;
    let passing = programs(root, "pass")?;
    let mut shown = BTreeSet::new();
    let mut lines = 0;
    for program in &failing {
        match must_fail(root, program, &compiled, &attributes, arguments.bless) {
            Ok(actual) => {
                lines += actual.lines().count();
                shown.extend(attributes.traits_in(&actual));
            }
            Err(problems) => report.problems.extend(problems),
        }
    }
    report.problems.extend(passing.iter().filter_map(|program| must_compile(program, &compiled).err()));
    for unshown in attributes.traits().filter(|name| !shown.contains(name)) {
        report.problems.push(format!(
            "{unshown}: no program in {PACKAGE}/fail shows the message of this trait; add one"
        ));
    }
    report.problems.extend(expected::orphans(&root.join(PACKAGE).join("fail"))?);
    let quoted = page::check(root, &attributes, &compiled, report)?;
    report.figure("programs that must not compile", failing.len() as f64);
    report.figure("programs that must compile", passing.len() as f64);
    report.figure("traits with a message", attributes.traits().count() as f64);
    report.figure("compared lines", lines as f64);
    report.figure("lines of the book that are compared", f64::from(quoted));
    Ok(())
}

/// Returns the paths of the programs in a subfolder (`fail` or `pass`) of the package, relative to the root
/// of the workspace and sorted.
fn programs(root: &Path, folder: &str) -> Result<Vec<PathBuf>, String> {
    let folder = Path::new(PACKAGE).join(folder);
    let entries =
        fs::read_dir(root.join(&folder)).map_err(|error| format!("read {}: {error}", folder.display()))?;
    let names = entries.flatten().map(|entry| folder.join(entry.file_name()));
    let mut programs: Vec<_> = names.filter(|path| path.extension().is_some_and(|it| it == "rs")).collect();
    programs.sort();
    if programs.is_empty() { Err(format!("{} has no programs", folder.display())) } else { Ok(programs) }
}

/// Compares the errors of a program that must not compile with its expected file, or writes that file if
/// `bless` is true. Returns the errors in the format of the file, or the problems.
fn must_fail(
    root: &Path,
    program: &Path,
    compiled: &Compiled,
    attributes: &Attributes,
    bless: bool,
) -> Result<String, Vec<String>> {
    let problem = |text: &str| vec![format!("{}: {text}", program.display())];
    let errors = match compiled.outcome(program) {
        Outcome::Failed(errors) => errors,
        Outcome::Succeeded => return Err(problem("it compiles, and must not")),
        Outcome::Absent => return Err(problem("it was not compiled; list it in Cargo.toml")),
    };
    let actual = expected::format(errors, attributes);
    let path = root.join(program).with_extension("txt");
    if bless {
        return match fs::write(&path, &actual) {
            Ok(()) => Ok(actual),
            Err(error) => Err(problem(&format!("write the expected messages: {error}"))),
        };
    }
    let wanted = fs::read_to_string(&path)
        .map_err(|error| problem(&format!("read the expected messages: {error}; --bless writes them")))?;
    let differences = expected::differences(&wanted, &actual);
    if differences.is_empty() {
        return Ok(actual);
    }
    Err(differences.into_iter().map(|line| format!("{}: {line}", program.display())).collect())
}

fn must_compile(program: &Path, compiled: &Compiled) -> Result<(), String> {
    match compiled.outcome(program) {
        Outcome::Succeeded => Ok(()),
        Outcome::Absent => Err(format!("{}: it was not compiled; list it in Cargo.toml", program.display())),
        Outcome::Failed(errors) => {
            let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
            Err(format!("{}: it does not compile: {}", program.display(), texts.join("; ")))
        }
    }
}
