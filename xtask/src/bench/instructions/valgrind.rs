//! Runs a case below valgrind, and reads the count from its output.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::CountError;
use super::cases::Case;
use super::counts::tenths;

const VALGRIND: &str = "valgrind";

/// The options of valgrind. Of its tools, callgrind is the one that can count only a part of a program: the
/// function `count_instructions` and all functions that it calls.
const OPTIONS: [&str; 3] =
    ["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*count_instructions*"];

/// The variables of the environment that the measured program inherits. Others are removed, because a program
/// searches its environment, and executes more instructions if it is larger.
const ENVIRONMENT: [&str; 2] = ["PATH", "VALGRIND_LIB"];

/// The line of the output that the program prints.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Operations {
    operations: u32,
    allocations: u32,
}

/// The counted work of a case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    instructions: u64,
    operations: Operations,
}

impl Work {
    pub(super) fn instructions_per_operation(&self) -> f64 {
        tenths(self.instructions as f64 / f64::from(self.operations.operations))
    }

    pub(super) fn allocations_per_operation(&self) -> f64 {
        tenths(f64::from(self.operations.allocations) / f64::from(self.operations.operations))
    }
}

fn valgrind() -> Command {
    let mut command = Command::new(VALGRIND);
    command.env_clear();
    command.envs(ENVIRONMENT.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
    command
}

/// Returns an error if valgrind is not installed.
pub(super) fn find() -> Result<(), CountError> {
    match valgrind().arg("--version").stdout(Stdio::null()).status() {
        Ok(_) => Ok(()),
        Err(source) => Err(start_error(source)),
    }
}

fn start_error(source: std::io::Error) -> CountError {
    match source.kind() {
        ErrorKind::NotFound => CountError::NoValgrind,
        _ => CountError::Start { program: VALGRIND, source },
    }
}

/// Runs a case once, and returns its counts.
pub(super) fn count(program: &Path, case: Case) -> Result<Work, CountError> {
    let name = case.name();
    let arguments = OPTIONS.iter().map(OsStr::new).chain([program.as_os_str(), OsStr::new(&name)]);
    let output = valgrind().args(arguments).output().map_err(start_error)?;
    let failed = |program, why| CountError::Failed { program, case: name.clone(), why };
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(failed("instruction-bench", format!("{}: {}", output.status, log.trim())));
    }
    let operations = serde_json::from_slice(&output.stdout)
        .map_err(|error| failed("instruction-bench", format!("decode its output: {error}")))?;
    let Some(instructions) = collected(&log) else {
        let why =
            "it has counted no instructions; check that `count_instructions` is neither inlined nor renamed";
        return Err(failed(VALGRIND, why.to_owned()));
    };
    Ok(Work { instructions, operations })
}

/// Returns the number of instructions in the output of callgrind; `None` if there is no such line, or if no
/// instruction was counted.
pub(super) fn collected(log: &str) -> Option<u64> {
    // The line is `==PID== Collected : NUMBER`, with one number for each event; `Ir` is the first event.
    let numbers = log.lines().find_map(|line| line.split_once("== Collected : "))?.1;
    numbers.split_whitespace().next()?.parse().ok().filter(|&count| count > 0)
}
