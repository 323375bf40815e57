//! `informer explore`: runs a test suite in any language repeatedly, each time with other faults in its API
//! server.
//!
//! # Processes
//!
//! In each run the command can use the API server that `KUBECONFIG` names, and can start further ones with
//! the programs in `KUBEBUILDER_ASSETS`. All of these servers run in this process. The servers of a run share
//! one [`Session`], which numbers the writes, injects the faults and records the trace.
//!
//! # Shutdown
//!
//! A run ends when its command exits. Then the remaining processes of the command's process group are killed,
//! and the servers close all connections. Ctrl-C and SIGTERM also end the run.

mod control;
mod output;
mod plan;
mod process;
mod report;
mod selection;
mod session;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use informer_apiserver::{FaultScript, Listening, ScriptShrinker};
use tempfile::TempDir;
use tokio::time::Instant;

use self::control::Control;
use self::process::{Ended, Outcome};
use self::report::{FailingScript, Reporter};
use self::selection::{ResourceFilter, Selection};
use self::session::{Hook, Session, Summary};
use crate::envtest;
use crate::failure::Failure;
use crate::serve::load::{self, ServerAccess};
use crate::signals::Signals;
use crate::watch::period;

/// The default of `--runs`: the maximum number of runs with faults.
const RUNS: u64 = 100;

/// The default timeout of a run with faults is the duration of the run without faults, multiplied by this
/// factor.
const TIMEOUT_FACTOR: u32 = 5;

/// The default timeout of a run with faults is at least this long. Retries with backoff take time even if the
/// command is short.
const MIN_TIMEOUT: Duration = Duration::from_secs(30);

/// The default timeout of the run without faults, whose duration is not known yet.
const FIRST_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Run a test suite under faults of the API server: failed writes, lost responses, broken watches.
///
/// COMMAND is a test suite, in any language, that exits with 0 if it passes. It runs once without faults, and
/// then once for each fault. A script of faults that makes it fail is shrunk, and printed with the trace of
/// requests and the command line that replays it. COMMAND finds its API server in KUBECONFIG, or starts the
/// programs in KUBEBUILDER_ASSETS, as Go's envtest does.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "\
Examples:
  informer explore -- pytest tests/
      A suite that connects to the server of KUBECONFIG.
  informer explore --user-agent manager -- go test ./controllers/...
      A suite with envtest, whose manager has its own rest.Config with UserAgent \"manager\".
  informer explore --resource websites/status --resource deployments -- go test ./...
      Only these writes fail; test and controller may use the same client.
  informer explore --replay '409 at write 3' -- go test ./...
      Runs one script, and prints its trace.

Faults:
  409 at write N             the N-th write fails with Conflict, and is not executed
  500 at write N             the N-th write fails, and is not executed
  lost response at write N   the N-th write is executed, and the connection breaks
  lag RESOURCE 2s at write N the open watches receive their events late
  cut RESOURCE at write N    the open watches end
  expire RESOURCE at write N the open watches receive 410 Gone
  schedule SEED              requests are delayed by up to 60 ms

Writes are counted from 1, over all servers of a run, among the requests that the options select.
Events, Leases, reviews and dry runs are not counted. Faults of watches at write 0 affect the first
watch.

Environment of COMMAND:
  KUBECONFIG          an embedded server, empty or with the objects of --load
  KUBEBUILDER_ASSETS  kube-apiserver, etcd and kubectl, as `informer envtest install` installs them

Exit codes:
  0  COMMAND passes under all faults that were tried
  1  it fails under a fault, or without faults; or the exploration cannot run
  2  wrong usage")]
pub(crate) struct ExploreArguments {
    /// Inject faults only into requests whose User-Agent contains this string, for example `manager`.
    #[arg(long, value_name = "SUBSTRING")]
    user_agent: Option<String>,
    /// Inject faults only into requests of this authenticated user, for example `operator`.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Inject faults only into writes of this resource: a plural name such as `websites`, a subresource such
    /// as `websites/status`, or `*` and `*/status` for all resources. Can be repeated.
    #[arg(long = "resource", value_name = "RESOURCE[/SUBRESOURCE]", value_parser = selection::parse)]
    resources: Vec<ResourceFilter>,
    /// Load a manifest in YAML or JSON, or all manifests of a directory, into the server of KUBECONFIG.
    #[arg(long, value_name = "FILE|DIR")]
    load: Option<PathBuf>,
    /// The maximum number of runs with faults.
    #[arg(long, value_name = "N", default_value_t = RUNS)]
    runs: u64,
    /// Start no further run after this number of seconds; by default only --runs limits the exploration.
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// The maximum duration of a run, for example `2m`; a longer run fails. By default five times the run
    /// without faults, at least 30s.
    #[arg(long, value_name = "DURATION", value_parser = period::parse)]
    timeout: Option<Duration>,
    /// Run only this script of faults, for example `409 at write 3`, and print its trace.
    #[arg(long, value_name = "SCRIPT", conflicts_with_all = ["runs", "seconds"])]
    replay: Option<FaultScript>,
    /// Write the complete trace of the failing or replayed run to this file.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The command to run, with its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command under faults until a fault script makes it fail or a limit is reached. Ctrl-C and SIGTERM
/// end the exploration with an error.
pub(crate) async fn run(arguments: ExploreArguments) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen()?;
    let explorer = Explorer::new(arguments)?;
    tokio::select! {
        outcome = explorer.run() => outcome,
        outcome = signals.told_to_end() => {
            outcome?;
            Err(Failure::new("explore: interrupted by a signal"))
        }
    }
}

struct Explorer {
    arguments: ExploreArguments,
    selection: Selection,
    reporter: Reporter,
    /// A temporary directory with the programs of envtest and the kubeconfigs.
    folder: TempDir,
}

/// The result of one run of the command: how the command ended, and the requests that the servers received.
struct Run {
    ended: Ended,
    summary: Summary,
}

impl Run {
    fn fails(&self) -> bool {
        self.ended.outcome != Outcome::Passed
    }
}

impl Explorer {
    fn new(arguments: ExploreArguments) -> Result<Self, Failure> {
        let unsupported = arguments.replay.iter().flat_map(FaultScript::faults).find(|fault| {
            let fault = &fault.fault;
            fault.request_action().is_none() && fault.watch_action().is_none()
        });
        if let Some(fault) = unsupported {
            return Err(Failure::new(format!(
                "replay {fault:?}: a command cannot be crashed or isolated, nor have stale lists; use a fault \
                 that `informer explore --help` lists, or informer::testing::Explore for a controller in Rust",
                fault = fault.to_string()
            )));
        }
        let ExploreArguments { user_agent, user, resources, .. } = &arguments;
        let selection = Selection::new(user_agent.clone(), user.clone(), resources.clone());
        let folder = TempDir::new().map_err(|error| Failure::io("create a temporary directory", error))?;
        envtest::install(&folder.path().join("assets"), None)?;
        let reporter = Reporter::new(&arguments);
        Ok(Self { arguments, selection, reporter, folder })
    }

    async fn run(&self) -> Result<ExitCode, Failure> {
        if let Some(script) = &self.arguments.replay {
            return self.replay(script).await;
        }
        let begin = Instant::now();
        let first = self.attempt(0, &FaultScript::default(), self.first_timeout()).await?;
        self.check_first(&first)?;
        self.reporter.reference(&first);
        let timeout = self
            .arguments
            .timeout
            .unwrap_or_else(|| (first.ended.duration * TIMEOUT_FACTOR).max(MIN_TIMEOUT));
        let scripts = plan::scripts(first.summary.observed());
        let (mut faults, mut runs) = (0, 0);
        let limit = self.arguments.seconds.map(Duration::from_secs);
        for script in scripts {
            if runs >= self.arguments.runs || limit.is_some_and(|limit| begin.elapsed() >= limit) {
                break;
            }
            runs += 1;
            let run = self.attempt(runs, &script, timeout).await?;
            self.reporter.progress(runs, &script, &run);
            if run.fails() {
                let found = self.shrink(script, run, runs, timeout).await?;
                self.reporter.found(&found)?;
                return Ok(ExitCode::FAILURE);
            }
            if run.summary.requests == 0 {
                return Err(no_requests(&self.arguments.command));
            }
            faults += run.summary.fired;
        }
        self.reporter.passed(runs, faults, &first, begin.elapsed());
        Ok(ExitCode::SUCCESS)
    }

    async fn replay(&self, script: &FaultScript) -> Result<ExitCode, Failure> {
        let run = self.attempt(1, script, self.first_timeout()).await?;
        self.reporter.replayed(script, &run)?;
        Ok(if run.fails() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn first_timeout(&self) -> Duration {
        self.arguments.timeout.unwrap_or(FIRST_TIMEOUT)
    }

    /// Checks the run without faults, with which the other runs are compared. Returns an error if the command
    /// failed, or if it sent no request into which a fault can be injected.
    fn check_first(&self, first: &Run) -> Result<(), Failure> {
        if first.fails() {
            let Ended { outcome, output, .. } = &first.ended;
            self.reporter.output(output);
            return Err(Failure::new(format!(
                "run {} without faults: {outcome}; repair the command first, its output is above",
                report::shown(&self.arguments.command)
            )));
        }
        let summary = &first.summary;
        if summary.requests == 0 {
            return Err(no_requests(&self.arguments.command));
        }
        if summary.writes == 0 && summary.watched.is_empty() {
            return Err(Failure::new(format!(
                "explore: no write and no watch is selected; change {}; the clients are {}",
                self.selection.options(),
                summary.clients().join(", ")
            )));
        }
        Ok(())
    }

    /// Shrinks a failing fault script: removes faults as long as the command still fails. Runs the unchanged
    /// script again before. If the command then passes, its failure does not depend on the script alone, and
    /// nothing is removed.
    async fn shrink(
        &self,
        found: FaultScript,
        first: Run,
        mut runs: u64,
        timeout: Duration,
    ) -> Result<FailingScript, Failure> {
        self.reporter.shrinking(&found);
        runs += 1;
        let again = self.attempt(runs, &found, timeout).await?;
        if !again.fails() {
            return Ok(FailingScript {
                script: found.clone(),
                found,
                run: first,
                shrink_runs: 1,
                reproduced: false,
            });
        }
        let mut last = again;
        let mut shrinker = ScriptShrinker::new(found.clone());
        while let Some(candidate) = shrinker.candidate() {
            runs += 1;
            let run = self.attempt(runs, &candidate, timeout).await?;
            self.reporter.progress(runs, &candidate, &run);
            let fails = run.fails();
            if fails {
                last = run;
            }
            shrinker.handle(candidate, fails);
        }
        let shrink_runs = 1 + shrinker.runs();
        Ok(FailingScript { script: shrinker.finish(), found, run: last, shrink_runs, reproduced: true })
    }

    /// Runs the command once under a fault script, with new API servers.
    async fn attempt(&self, number: u64, script: &FaultScript, timeout: Duration) -> Result<Run, Failure> {
        let session = Arc::new(Session::new(self.selection.clone(), script));
        let listening = self.serve(&session).await?;
        let kubeconfig = self.folder.path().join(format!("kubeconfig-{number}"));
        std::fs::write(&kubeconfig, listening.kubeconfig())
            .map_err(|error| Failure::io(&format!("write {}", kubeconfig.display()), error))?;
        let control = Control::start(&session).await?;
        let environment = [
            ("KUBECONFIG", kubeconfig.as_os_str().to_owned()),
            ("KUBEBUILDER_ASSETS", self.assets(number)?.into_os_string()),
            (envtest::explorer::VARIABLE, control.variable().into()),
        ];
        let ended = process::run(&self.arguments.command, &environment, timeout).await;
        control.stop().await;
        listening.shutdown().await;
        let ended = ended?;
        // The kubeconfig of the run is no longer needed. An error is ignored, because the next run writes
        // another file.
        let _ = std::fs::remove_file(&kubeconfig);
        Ok(Run { ended, summary: session.finish() })
    }

    /// Starts the API server that the command finds in `KUBECONFIG`.
    async fn serve(&self, session: &Arc<Session>) -> Result<Listening, Failure> {
        let server = load::server(self.arguments.load.as_deref(), &ServerAccess::default())?.server;
        // Setting a hook fails only if the server already has one, and this server is new.
        let _ = server.faults().set_hook(Arc::new(Hook::new(session)));
        session.add(&server);
        server
            .listen("127.0.0.1:0")
            .await
            .map_err(|error| Failure::io("listen on a free port of 127.0.0.1", error))
    }

    /// Returns a directory with the programs of envtest, for `KUBEBUILDER_ASSETS`. Its path differs in each
    /// run. With an equal path, `go test` would print the cached result of a passing suite instead of running
    /// it.
    fn assets(&self, number: u64) -> Result<PathBuf, Failure> {
        let directory = self.folder.path().join("assets");
        #[cfg(unix)]
        {
            let link = self.folder.path().join(format!("assets-{number}"));
            std::os::unix::fs::symlink(&directory, &link)
                .map_err(|error| Failure::io(&format!("link {}", link.display()), error))?;
            Ok(link)
        }
        #[cfg(not(unix))]
        {
            let _ = number;
            Ok(directory)
        }
    }
}

fn no_requests(command: &[OsString]) -> Failure {
    Failure::new(format!(
        "explore: {} sent no request to an API server; it must connect to the server of KUBECONFIG, or start \
         the programs in KUBEBUILDER_ASSETS, and must not reuse cached results (`go test -count=1`)",
        report::shown(command)
    ))
}

/// Quotes a string if necessary, so that a POSIX shell reads it as one argument of a command line.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests;
