//! Starts the demo server as a child process and communicates with it.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::server::{ServerArguments, ServerMessage};
use crate::failure::Failure;

/// A child process that runs the demo's API server, and the pipes to it. Dropping this value closes the
/// child's stdin and kills the child.
#[derive(Debug)]
pub(crate) struct DemoServer {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl DemoServer {
    pub(crate) fn spawn(arguments: &ServerArguments) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|error| Failure::io("find this executable", error))?;
        let number = |value: u64| value.to_string();
        let mut child = Command::new(program)
            .arg("demo-server")
            .args(["--objects", &number(arguments.objects as u64)])
            .args(["--config-maps", &number(arguments.config_maps as u64)])
            .args(["--rate", &number(arguments.rate), "--seconds", &number(arguments.seconds)])
            .args(["--seed", &number(arguments.seed)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Failure::io("start the demo server", error))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or_else(|| Failure::new("the demo server has no output"))?;
        Ok(Self { child, input, output: BufReader::new(output).lines() })
    }

    pub(crate) async fn said(&mut self) -> Result<ServerMessage, Failure> {
        let line =
            self.output.next_line().await.map_err(|error| Failure::io("read from the demo server", error))?;
        let Some(line) = line else {
            let status =
                self.child.wait().await.map_err(|error| Failure::io("wait for the demo server", error))?;
            return Err(Failure::new(format!("the demo server exited early: {status}")));
        };
        serde_json::from_str(&line)
            .map_err(|error| Failure::new(format!("cannot parse {line:?} from the demo server: {error}")))
    }

    pub(crate) async fn begin(&mut self) -> Result<(), Failure> {
        let failed = |error| Failure::io("write to the demo server", error);
        match &mut self.input {
            Some(input) => {
                input.write_all(b"change\n").await.map_err(failed)?;
                input.flush().await.map_err(failed)
            }
            None => Err(Failure::new("cannot write to the demo server: its stdin is closed")),
        }
    }

    /// Asks the child process to end by closing its stdin, and waits for its exit.
    pub(crate) async fn end(mut self) {
        self.input = None;
        // If the child process does not exit within five seconds, dropping this value kills it.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), self.child.wait()).await;
    }
}
