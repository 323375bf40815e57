//! A real kube-apiserver with its etcd, built from published Go modules and run on loopback.

use std::path::Path;

use clap::Subcommand;

use crate::go::{Go, GoError, Module};
use crate::report::Report;

/// What to do with the real servers.
#[derive(Debug, Subcommand)]
pub(crate) enum RealCommand {
    /// Build the programs without starting them.
    Build,
}

/// The programs, in the order in which the fast ones are seen to work first.
const PROGRAMS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"];

pub(crate) fn run(root: &Path, command: &RealCommand) -> Report {
    let mut report = Report::new("real");
    match command {
        RealCommand::Build => {
            if let Err(error) = build(root) {
                report.problems.push(error.to_string());
            }
        }
    }
    report
}

fn build(root: &Path) -> Result<(), GoError> {
    let go = Go::find(root)?;
    for program in PROGRAMS {
        eprintln!("building {program}");
        go.build(Module::Servers, program)?;
    }
    Ok(())
}
