//! Runs the built `informer` command in tests, and reads its output line by line, and its exit code.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

/// The timeout of a test for one line of output, or for the exit of the command. It is long, so that tests
/// pass on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(240);

pub(crate) struct Running {
    child: Child,
    pub(crate) out: Option<OutputLines<ChildStdout>>,
    pub(crate) err: OutputLines<ChildStderr>,
    /// The home directory of the command. It contains no kubeconfig, so that the user's kubeconfig does not
    /// affect the test.
    _home: TempDir,
}

pub(crate) struct OutputLines<R>(Lines<BufReader<R>>);

pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn start<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Running {
    start_with(args, None)
}

/// Starts the `informer` command in an environment in which it finds no kubeconfig except the given one.
pub(crate) fn start_with<S: AsRef<OsStr>>(
    args: impl IntoIterator<Item = S>,
    kubeconfig: Option<&Path>,
) -> Running {
    start_program(Path::new(env!("CARGO_BIN_EXE_informer")), args, kubeconfig)
}

/// Starts the `informer` command without a kubeconfig and with an additional environment variable.
pub(crate) fn start_with_variable<S: AsRef<OsStr>>(
    args: impl IntoIterator<Item = S>,
    (name, value): (&str, &str),
) -> Running {
    start_in(Path::new(env!("CARGO_BIN_EXE_informer")), args, |command| {
        command.env(name, value);
    })
}

/// Starts a program in the same environment in which [`start_with`] starts the `informer` command.
pub(crate) fn start_program<S: AsRef<OsStr>>(
    program: &Path,
    args: impl IntoIterator<Item = S>,
    kubeconfig: Option<&Path>,
) -> Running {
    start_in(program, args, |command| {
        if let Some(path) = kubeconfig {
            command.env("KUBECONFIG", path);
        }
    })
}

fn start_in<S: AsRef<OsStr>>(
    program: &Path,
    args: impl IntoIterator<Item = S>,
    configure: impl FnOnce(&mut Command),
) -> Running {
    let home = TempDir::new().unwrap();
    let mut command = Command::new(program);
    command
        .args(args)
        .env("HOME", home.path())
        .env_remove("KUBECONFIG")
        .env_remove("RUST_LOG")
        .env_remove("RUST_BACKTRACE");
    command.env_remove("KUBERNETES_SERVICE_HOST").env_remove("KUBERNETES_SERVICE_PORT");
    configure(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let (out, err) =
        (OutputLines::new(child.stdout.take().unwrap()), OutputLines::new(child.stderr.take().unwrap()));
    Running { child, out: Some(out), err, _home: home }
}

pub(crate) async fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ended {
    start(args).ended().await
}

impl Running {
    pub(crate) async fn line(&mut self) -> String {
        match self.out.as_mut().unwrap().next().await {
            Some(line) => line,
            None => panic!("no further line: {}", self.err.rest().await),
        }
    }

    pub(crate) async fn json(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    pub(crate) async fn status(&mut self) -> ExitStatus {
        timeout(DEADLINE, self.child.wait()).await.expect("the command ends").unwrap()
    }

    pub(crate) async fn ended(mut self) -> Ended {
        let code = self.status().await.code();
        let out = match &mut self.out {
            Some(out) => out.rest().await,
            None => String::new(),
        };
        Ended { code, out, err: self.err.rest().await }
    }

    #[cfg(unix)]
    pub(crate) async fn interrupt(&self) {
        let id = self.child.id().expect("it still runs").to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().await.unwrap().success());
    }

    #[cfg(unix)]
    pub(crate) async fn terminate(&self) {
        let id = self.child.id().expect("it still runs").to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().await.unwrap().success());
    }
}

impl<R: AsyncRead + Unpin> OutputLines<R> {
    fn new(output: R) -> Self {
        Self(BufReader::new(output).lines())
    }

    async fn next(&mut self) -> Option<String> {
        timeout(DEADLINE, self.0.next_line()).await.expect("a line, or the end, within the deadline").unwrap()
    }

    pub(crate) async fn line(&mut self) -> String {
        self.next().await.expect("another line")
    }

    /// Reads lines of the command's output up to the first one that contains `part`, and returns them,
    /// including that line.
    pub(crate) async fn up_to(&mut self, part: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            lines.push(self.line().await);
            if lines.last().is_some_and(|line| line.contains(part)) {
                return lines;
            }
        }
    }

    async fn rest(&mut self) -> String {
        let mut text = String::new();
        while let Some(line) = timeout(DEADLINE, self.0.next_line()).await.expect("the output ends").unwrap()
        {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}
