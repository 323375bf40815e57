//! A real kube-apiserver with its etcd, built from published Go modules and run on loopback.

mod ask;
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

/// A cold machine under load takes a fraction of this.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// What to do with the real servers.
#[derive(Debug, Subcommand)]
pub(crate) enum RealCommand {
    /// Build the programs without starting them.
    Build,
    /// Build and start the servers, and wait until they serve.
    Up(Up),
    /// Stop what `up` has started, and remove its data.
    Down(Place),
    /// Say what runs; fails when anything does not.
    Status(Place),
    /// Print the path of a kubeconfig.
    Kubeconfig {
        /// How the administrator says who it is.
        #[arg(long, value_enum, default_value_t = Credentials::Token)]
        by: Credentials,
        #[command(flatten)]
        place: Place,
    },
    /// Stop one server, and leave its data.
    Stop(One),
    /// End one server without a word (SIGKILL), and leave its data.
    Kill(One),
    /// Hold one server (SIGSTOP): its connections stay open, and nothing comes.
    Pause(One),
    /// Let a held server go on (SIGCONT).
    Resume(One),
    /// Start one server again, as it was started before.
    Start(One),
    /// Stop one server and start it again.
    Restart(One),
    /// Keep a copy of etcd's data. Stops both servers and starts them again.
    Backup(Place),
    /// Go back to the copy that `backup` has kept: versions are used again for other changes.
    Restore(Place),
    /// Compact etcd's history at its newest revision: whoever asks for an older one is told that it is gone.
    Compact(Place),
}

/// Where the servers live.
#[derive(Clone, Debug, Args)]
pub(crate) struct Place {
    /// The directory of the servers [default: `real` among the build products].
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Start kube-controller-manager, too: garbage collection, deletion of namespaces, Deployments.
    #[arg(long)]
    pub(crate) controllers: bool,
    /// One more argument for kube-apiserver, such as `--apiserver-flag=--watch-cache=false`.
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub(crate) apiserver_flag: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct One {
    /// Which of them.
    server: Server,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Credentials {
    Token,
    Certificate,
}

impl Place {
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
    // etcd first: it is the one that shows soonest whether anything works.
    for program in ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"] {
        eprintln!("building {program} (minutes for the first time, seconds after that)");
        let deadline = Deadline::after(Duration::MAX);
        go.build(Module::Servers, program)?;
        report.figure(format!("{program} built, s"), deadline.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Builds and starts the servers of a directory. When one does not come up, none is left running.
pub(crate) fn up(root: &Path, options: &Up, report: &mut Report) -> Result<(), RealError> {
    let began = Deadline::after(READY_WITHIN);
    let go = Go::find(root)?;
    let servers = [Server::Etcd, Server::KubeApiserver, Server::KubeControllerManager];
    let servers = &servers[..if options.controllers { 3 } else { 2 }];
    // All of them before the first starts, which need not wait for the others then.
    for server in servers {
        eprintln!("building {} (minutes for the first time, seconds after that)", server.program());
        go.build(Module::Servers, server.program())?;
    }
    report.figure("built, s", began.elapsed().as_secs_f64());
    // Behind the minutes of the first time: its ports are those that are free now.
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

pub(crate) fn down(root: &Path, place: &Place) -> Result<(), RealError> {
    Cluster::open(&place.folder(root))?.stop_all()
}

fn status(root: &Path, place: &Place, report: &mut Report) -> Result<(), RealError> {
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

fn kubeconfig(root: &Path, by: Credentials, place: &Place) -> Result<(), RealError> {
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

/// Does something to the data of stopped servers, and starts them again.
fn with_stopped(
    root: &Path,
    place: &Place,
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

fn compact(root: &Path, place: &Place, report: &mut Report) -> Result<(), RealError> {
    let revision = Cluster::open(&place.folder(root))?.compact()?;
    report.figure("compacted at", revision as f64);
    Ok(())
}

/// An error with its causes, in one line.
pub(crate) fn told(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line += &format!(": {error}");
        cause = error.source();
    }
    line
}
