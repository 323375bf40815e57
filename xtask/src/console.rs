//! Builds the web page of the console of informer-runtime, and with `--test` tests it in Chromium.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::report::Report;

const SOURCE: &str = "console";

/// The folder of the committed page. It is in the package informer-runtime, which embeds the page with
/// `include_str!`.
const COMMITTED: &str = "crates/informer-runtime/src/console/assets";

const FILES: [&str; 4] = ["index.html", "console.css", "console.js", "licenses.txt"];

#[derive(Debug, Args)]
pub(crate) struct ConsoleArguments {
    /// Also test the committed page in Chromium, with generated data and with the sample operator. The path
    /// of Chromium is in the environment variable CHROMIUM [default: /usr/bin/chromium].
    #[arg(long)]
    test: bool,
}

pub(crate) fn run(root: &Path, arguments: &ConsoleArguments, check: bool) -> Report {
    let mut report = Report::new("console");
    if let Err(problem) = build(root, arguments, check, &mut report) {
        report.problems.push(problem);
    }
    report
}

fn build(root: &Path, arguments: &ConsoleArguments, check: bool, report: &mut Report) -> Result<(), String> {
    let (source, committed) = (root.join(SOURCE), root.join(COMMITTED));
    npm(&source, &["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"])?;
    npm(&source, &["run", "--silent", "check"])?;
    let output: PathBuf = if check { root.join("target/console") } else { committed.clone() };
    npm(&source, &["run", "--silent", "build", "--", &output.to_string_lossy()])?;
    for file in FILES {
        let (built, path) = (read(&output.join(file))?, committed.join(file));
        if check && read(&path)? != built {
            let path = path.strip_prefix(root).unwrap_or(&path).display();
            report.problems.push(format!("{path} is stale; run `cargo xtask console` and commit the result"));
        }
        report.figure(format!("bytes of {file}"), built.len() as f64);
    }
    if arguments.test {
        npm(&source, &["run", "--silent", "test"])?;
    }
    Ok(())
}

fn npm(folder: &Path, arguments: &[&str]) -> Result<(), String> {
    let status = Command::new("npm").current_dir(folder).args(arguments).status();
    let status = status.map_err(|error| format!("run npm: {error}; install Node.js 20 or later"))?;
    if status.success() { Ok(()) } else { Err(format!("npm {} failed", arguments.join(" "))) }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("read {}: {error}", path.display()))
}
