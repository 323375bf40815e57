//! Runs the explored command once, with a timeout, and captures its output.

use std::ffi::OsString;
use std::fmt;
use std::io::PipeWriter;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::output::Capture;
use crate::failure::Failure;

/// How the explored command ended: it passed, failed, or ran longer than the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed(ExitStatus),
    TimedOut(Duration),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed(status) => write!(f, "failed with {status}"),
            Self::TimedOut(timeout) => write!(f, "did not end within {timeout:.1?}"),
        }
    }
}

pub(super) struct Ended {
    pub(super) outcome: Outcome,
    pub(super) duration: Duration,
    /// The first and last lines that the command wrote to stdout and stderr.
    pub(super) output: Vec<String>,
}

/// Runs a command until it exits or `timeout` has passed. Then kills the remaining processes of its process
/// group, because a test suite may leave servers behind. Dropping the future also kills them.
pub(super) async fn run(
    command: &[OsString],
    environment: &[(&str, OsString)],
    timeout: Duration,
) -> Result<Ended, Failure> {
    let failed = |error| Failure::io("capture the output of the command", error);
    let (capture, output) = Capture::start().map_err(failed)?;
    let begin = Instant::now();
    let mut child = spawn(command, environment, output)?;
    let group = ProcessGroup(child.id());
    let outcome = match tokio::time::timeout(timeout, child.wait()).await {
        Ok(Ok(status)) if status.success() => Outcome::Passed,
        Ok(Ok(status)) => Outcome::Failed(status),
        Ok(Err(error)) => return Err(Failure::io("wait for the command", error)),
        Err(_) => Outcome::TimedOut(timeout),
    };
    let duration = begin.elapsed();
    drop(group);
    if let Outcome::TimedOut(_) = outcome {
        // The next run of the command uses the same ports and files, so it must not start before the killed
        // one has exited.
        let exited = async {
            // On systems without process groups, this kills only the command itself.
            child.start_kill()?;
            child.wait().await
        };
        exited.await.map_err(|error| Failure::io("kill the command after its timeout", error))?;
    }
    Ok(Ended { outcome, duration, output: capture.finish().await })
}

fn spawn(
    command: &[OsString],
    environment: &[(&str, OsString)],
    output: PipeWriter,
) -> Result<Child, Failure> {
    // The command-line parser requires at least the program, so the command is never empty.
    let (program, arguments) = command.split_first().ok_or_else(|| Failure::new("explore: no command"))?;
    let failed = |error: std::io::Error| {
        let advice = match error.kind() {
            std::io::ErrorKind::NotFound => "; name a program in PATH, or its path",
            _ => "",
        };
        Failure::caused(format!("start {program:?}{advice}"), error)
    };
    let (out, err) = (output.try_clone().map_err(failed)?, output);
    let mut child = Command::new(program);
    child.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    child.stdin(Stdio::null()).stdout(out).stderr(err).kill_on_drop(true);
    #[cfg(unix)]
    child.process_group(0);
    child.spawn().map_err(failed)
}

/// The process group of a command, which has the id of the command's process. Dropping it kills all processes
/// of the group.
struct ProcessGroup(Option<u32>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, Signal, kill_process_group};
            let id = self.0.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
            // Killing fails if no process of the group is left. The error is ignored, because nothing remains
            // to be killed.
            let _ = id.map(|id| kill_process_group(id, Signal::KILL));
        }
        #[cfg(not(unix))]
        let _ = self.0;
    }
}
