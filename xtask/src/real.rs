//! A real kube-apiserver with its etcd, built from published Go modules and run on loopback.

mod ask;
mod bootstrap;
mod cluster;
mod files;
mod process;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::deadline::Deadline;
use crate::go::{Go, Module, target};
use crate::report::Report;
pub(crate) use cluster::{Cluster, RealError, Server};
pub(crate) use files::kubeconfig as kubeconfig_file;
pub(crate) use process::{Process, Signal, last_lines};

/// Time limit for etcd, kube-apiserver or kube-controller-manager to become ready. Even on a slow, busy
/// machine each of them needs only a fraction of this limit.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// Operations on a real kube-apiserver and its etcd.
#[derive(Debug, Subcommand)]
pub(crate) enum RealCommand {
    /// Build etcd, kube-apiserver, kube-controller-manager and kubectl without starting them.
    Build,
    /// Build and start etcd and kube-apiserver, and wait until they are ready. Fails if servers of an earlier
    /// `up` still run in the directory.
    Up(Up),
    /// Stop the servers that `up` started, and remove etcd's data and its backup. Logs, certificates and
    /// kubeconfigs stay in the directory.
    Down(DataFolder),
    /// Print the URL of kube-apiserver, and the state, pid and log file of each server. Exits with 1 unless
    /// all servers are ready.
    Status(DataFolder),
    /// Print the path of the administrator's kubeconfig. Fails if `up` has not started servers in the
    /// directory.
    Kubeconfig {
        /// How the administrator authenticates: with a bearer token, or with a client certificate. Each has
        /// its own kubeconfig.
        #[arg(long, value_enum, default_value_t = Credentials::Token)]
        by: Credentials,
        #[command(flatten)]
        place: DataFolder,
    },
    /// Stop one server gracefully (SIGTERM), and keep its data. A server that does not exit is killed.
    Stop(One),
    /// Kill one server (SIGKILL), and keep its data.
    Kill(One),
    /// Pause one server (SIGSTOP): its connections stay open, but it sends nothing.
    Pause(One),
    /// Resume a paused server (SIGCONT).
    Resume(One),
    /// Start a stopped or killed server again with the same arguments, and wait until it is ready. A server
    /// that still runs is not restarted.
    Start(One),
    /// Stop one server gracefully, start it again with the same arguments, and wait until it is ready.
    Restart(One),
    /// Copy etcd's data to the folder `etcd.backup` of the directory, replacing an earlier copy. Stops etcd
    /// and kube-apiserver, and starts them again.
    Backup(DataFolder),
    /// Restore the data that `backup` copied. The server then assigns resource versions again that it has
    /// assigned to other changes since the backup. Stops etcd and kube-apiserver, and starts them again.
    Restore(DataFolder),
    /// Compact etcd's history at its newest revision: watches and lists at an older resourceVersion then fail
    /// with status 410.
    Compact(DataFolder),
    /// Record the objects that kube-apiserver creates when it starts. Overwrites the file from which the
    /// embedded API server creates the same objects.
    Bootstrap(DataFolder),
}

/// The option that selects the directory with the data, logs and kubeconfigs of etcd and kube-apiserver.
#[derive(Clone, Debug, Args)]
pub(crate) struct DataFolder {
    /// Directory of the servers' data, logs and kubeconfigs [default: `real` in `target`, or in the folder
    /// that CARGO_TARGET_DIR names].
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) place: DataFolder,
    /// Also start kube-controller-manager. Without it, no garbage collection runs, deleted namespaces stay,
    /// and Deployments create no pods.
    #[arg(long)]
    pub(crate) controllers: bool,
    /// An additional argument of kube-apiserver, such as `--apiserver-flag=--watch-cache=false`; may be
    /// repeated.
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub(crate) apiserver_flag: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct One {
    /// The server to which the operation applies.
    server: Server,
    #[command(flatten)]
    place: DataFolder,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Credentials {
    Token,
    Certificate,
}

impl DataFolder {
    pub(crate) fn folder(&self, root: &Path) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| target(root).join("real"))
    }
}

pub(crate) fn run(root: &Path, command: &RealCommand) -> Report {
    let mut report = Report::new("real");
    let outcome = match command {
        RealCommand::Build => build(root, &mut report),
        RealCommand::Up(options) => up(root, options, &mut report),
        RealCommand::Down(place) => down(root, place),
        RealCommand::Status(place) => status(root, place, &mut report),
        RealCommand::Kubeconfig { by, place } => kubeconfig(root, *by, place),
        RealCommand::Stop(one) => one.of(root).and_then(|cluster| cluster.stop(one.server)),
        RealCommand::Kill(one) => one.of(root).and_then(|cluster| cluster.send(one.server, Signal::Kill)),
        RealCommand::Pause(one) => one.of(root).and_then(|cluster| cluster.send(one.server, Signal::Pause)),
        RealCommand::Resume(one) => one.of(root).and_then(|cluster| cluster.send(one.server, Signal::Resume)),
        RealCommand::Start(one) => start(root, one, &mut report),
        RealCommand::Restart(one) => restart(root, one, &mut report),
        RealCommand::Backup(place) => with_stopped(root, place, Cluster::backup),
        RealCommand::Restore(place) => with_stopped(root, place, Cluster::restore),
        RealCommand::Compact(place) => compact(root, place, &mut report),
        RealCommand::Bootstrap(place) => record_bootstrap(root, place, &mut report),
    };
    if let Err(error) = outcome {
        report.problems.push(told(&error));
    }
    report
}

impl One {
    fn of(&self, root: &Path) -> Result<Cluster, RealError> {
        Cluster::open(&self.place.folder(root))
    }
}

fn build(root: &Path, report: &mut Report) -> Result<(), RealError> {
    let go = Go::find(root)?;
    // etcd is built first, because its build is the fastest one. If the Go toolchain does not work, the
    // command then fails early.
    for program in ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"] {
        eprintln!("building {program} (minutes for the first time, seconds after that)");
        let deadline = Deadline::after(Duration::MAX);
        go.build(Module::Servers, program)?;
        report.figure(format!("{program} built, s"), deadline.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Builds etcd, kube-apiserver and, if requested, kube-controller-manager, and starts them with their data in
/// one directory. If a server does not become ready, all of them are stopped, and their data is removed.
pub(crate) fn up(root: &Path, options: &Up, report: &mut Report) -> Result<(), RealError> {
    let began = Deadline::after(READY_WITHIN);
    let go = Go::find(root)?;
    let servers = [Server::Etcd, Server::KubeApiserver, Server::KubeControllerManager];
    let servers = &servers[..if options.controllers { 3 } else { 2 }];
    // All servers are built before the first one starts, so that no started server waits for the build of
    // another one.
    for server in servers {
        eprintln!("building {} (minutes for the first time, seconds after that)", server.program());
        go.build(Module::Servers, server.program())?;
    }
    report.figure("built, s", began.elapsed().as_secs_f64());
    // The ports are chosen after the build, which may take minutes, because they must still be free when the
    // servers start.
    let mut cluster = Cluster::prepare(&options.place.folder(root))?;
    let starting = Deadline::after(READY_WITHIN);
    for server in servers {
        eprintln!("starting {}", server.program());
        let more = if *server == Server::KubeApiserver { options.apiserver_flag.as_slice() } else { &[] };
        if let Err(error) = cluster.start(&go, *server, more, READY_WITHIN) {
            let _ = cluster.stop_all();
            return Err(error);
        }
    }
    report.figure("ready, s", starting.elapsed().as_secs_f64());
    let path = options.place.folder(root).join("admin.conf");
    eprintln!("serving on {}; kubeconfig {}", cluster.url, path.display());
    Ok(())
}

pub(crate) fn down(root: &Path, place: &DataFolder) -> Result<(), RealError> {
    Cluster::open(&place.folder(root))?.stop_all()
}

fn status(root: &Path, place: &DataFolder, report: &mut Report) -> Result<(), RealError> {
    let cluster = Cluster::open(&place.folder(root))?;
    println!("{}", cluster.url);
    for started in &cluster.servers {
        let name = started.server.program();
        let pid = started.process.pid;
        let log = cluster.log(started.server);
        let state = match (started.process.runs(), cluster.ready(started.server)) {
            (true, true) => "ready",
            (true, false) => "running, not ready",
            (false, _) => "not running",
        };
        println!("{name:<24} {state:<20} pid {pid:<8} {}", log.display());
        if state != "ready" {
            report.problems.push(format!("{name} is {state}"));
        }
    }
    Ok(())
}

fn record_bootstrap(root: &Path, place: &DataFolder, report: &mut Report) -> Result<(), RealError> {
    let cluster = Cluster::open(&place.folder(root))?;
    let objects = bootstrap::record(root, &cluster)?;
    report.figure("objects", f64::from(objects));
    Ok(())
}

fn kubeconfig(root: &Path, by: Credentials, place: &DataFolder) -> Result<(), RealError> {
    let folder = place.folder(root);
    Cluster::open(&folder)?;
    let name = match by {
        Credentials::Token => "admin.conf",
        Credentials::Certificate => "certificate.conf",
    };
    println!("{}", folder.join(name).display());
    Ok(())
}

fn start(root: &Path, one: &One, report: &mut Report) -> Result<(), RealError> {
    let starting = Deadline::after(READY_WITHIN);
    one.of(root)?.start_again(one.server, READY_WITHIN)?;
    report.figure("ready, s", starting.elapsed().as_secs_f64());
    Ok(())
}

fn restart(root: &Path, one: &One, report: &mut Report) -> Result<(), RealError> {
    let stopping = Deadline::after(READY_WITHIN);
    one.of(root)?.stop(one.server)?;
    report.figure("stopped, s", stopping.elapsed().as_secs_f64());
    start(root, one, report)
}

/// Stops etcd and kube-apiserver, calls `work` to copy or replace etcd's data, and starts both servers again.
fn with_stopped(
    root: &Path,
    place: &DataFolder,
    work: fn(&Cluster) -> Result<(), RealError>,
) -> Result<(), RealError> {
    let mut cluster = Cluster::open(&place.folder(root))?;
    for server in [Server::KubeApiserver, Server::Etcd] {
        cluster.stop(server)?;
    }
    work(&cluster)?;
    for server in [Server::Etcd, Server::KubeApiserver] {
        cluster.start_again(server, READY_WITHIN)?;
    }
    Ok(())
}

fn compact(root: &Path, place: &DataFolder, report: &mut Report) -> Result<(), RealError> {
    let revision = Cluster::open(&place.folder(root))?.compact()?;
    report.figure("compacted at", revision as f64);
    Ok(())
}

/// Formats an error and its chain of sources in one line, separated by colons.
pub(crate) fn told(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line += &format!(": {error}");
        cause = error.source();
    }
    line
}
