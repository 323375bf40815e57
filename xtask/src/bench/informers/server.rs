//! Server processes of a benchmark. Dropping a `Server` kills its process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::Deserialize;

use crate::bench::peers::{BenchError, Turns};

#[derive(Debug, Deserialize)]
pub(in crate::bench) struct BenchServer {
    pub(in crate::bench) server: String,
    pub(super) control: String,
    #[serde(skip)]
    pub(super) kubeconfig: Option<PathBuf>,
}

/// A running process that provides the objects of a benchmark: either the embedded server, or the program
/// that creates and changes the objects of a real server.
pub(in crate::bench) struct Server {
    process: Child,
    pub(in crate::bench) place: BenchServer,
}

impl Server {
    pub(in crate::bench) fn start(
        program: &Path,
        turns: Turns,
        arguments: &[&str],
    ) -> Result<Self, BenchError> {
        Self::run(turns.command(program).arg("serve").args(arguments))
    }

    /// Starts the program that creates objects on a real server, and changes them while informers are
    /// measured. Returns when the server has all objects.
    pub(super) fn remote(program: &Path, kubeconfig: &Path, arguments: &[&str]) -> Result<Self, BenchError> {
        let mut command = Command::new(program);
        let mut server =
            Self::run(command.arg("remote").arg("--kubeconfig").arg(kubeconfig).args(arguments))?;
        server.place.kubeconfig = Some(kubeconfig.to_owned());
        Ok(server)
    }

    fn run(command: &mut Command) -> Result<Self, BenchError> {
        let failed = |source| BenchError::Start { program: "the server".to_owned(), source };
        let mut process = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(failed)?;
        }
        match serde_json::from_str(&line) {
            Ok(place) => Ok(Self { process, place }),
            Err(source) => {
                let _ = process.kill();
                Err(BenchError::Output { program: "the server".to_owned(), source })
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error of `kill` or `wait` is ignored, because `drop` cannot return it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
