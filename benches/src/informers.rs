//! Measures informers against those of client-go and kube-rs. This program contains the server for all of
//! them, and the measured program (peer) of this library.
//!
//! `cargo xtask bench` starts `informer-bench serve` once. It then runs in turn three peers: `informer-bench
//! peer`, the program of `conformance/go/peers/cmd/informer-bench` and that of `conformance/kube-rs`. All
//! peers run the same cases in the same order, and print one line of JSON: `{"CASE": FIGURE}`. With a real
//! server, `informer-bench remote` replaces `serve`: it fills the server, and changes objects on command.

#[path = "informers/arguments.rs"]
mod arguments;
#[path = "informers/churn.rs"]
mod churn;
#[path = "informers/control.rs"]
mod control;
#[path = "informers/drain.rs"]
mod drain;
#[path = "informers/gauge.rs"]
mod gauge;
#[path = "informers/idle.rs"]
mod idle;
#[path = "informers/many.rs"]
mod many;
#[path = "informers/objects.rs"]
mod objects;
#[path = "informers/peer.rs"]
mod peer;
#[path = "informers/remote.rs"]
mod remote;
#[path = "informers/serve.rs"]
mod serve;
#[path = "informers/tally.rs"]
mod tally;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use informer::client::{Client, Representation, ResourceKind};
use informer::kube_client::config::{KubeConfigOptions, Kubeconfig};

use arguments::{Encoding, Form, Kind};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves objects until this process is killed. Prints the addresses of the server and its control port
    /// as JSON.
    Serve(Serve),
    /// Creates objects on a real server, and changes them on command, until this process is killed. Prints
    /// the address of the control port as JSON.
    Remote {
        /// The kubeconfig of the server.
        #[arg(long)]
        kubeconfig: PathBuf,
        /// The kind of the objects to create.
        #[arg(long, value_enum, default_value_t)]
        kind: Kind,
        /// The final number of objects.
        #[arg(long, default_value_t = 20_000)]
        objects: usize,
        /// The ids of the server's processes, whose processor time is reported.
        #[arg(long, value_delimiter = ',')]
        pids: Vec<u32>,
    },
    /// Reads an initial list with plain HTTP and drops it: the maximum throughput of the server.
    Drain(BenchTarget),
    /// Measures an informer of this library.
    Peer {
        #[command(flatten)]
        place: BenchTarget,
        /// The representation in the cache.
        #[arg(long, value_enum, default_value_t)]
        form: Form,
        /// Whether to end after the initial sync, without measuring reads and changes.
        #[arg(long)]
        only_sync: bool,
    },
    /// Measures several kinds in one process, each with an informer of lazy objects and one of metadata.
    Many {
        #[command(flatten)]
        place: BenchTarget,
        /// The number of kinds.
        #[arg(long, default_value_t = 10)]
        kinds: usize,
    },
    /// Measures an informer of pods that change all the time.
    Churn {
        #[command(flatten)]
        place: BenchTarget,
        /// The number of changes a second.
        #[arg(long, default_value_t = 10_000)]
        changes_per_second: usize,
        /// The duration of the changes in seconds.
        #[arg(long, default_value_t = 600)]
        seconds: usize,
    },
    /// Measures many informers of small kinds in one process while nothing changes.
    Idle(idle::Idle),
    /// Serves the kinds of `idle` until this process is killed. Prints a kubeconfig as JSON.
    IdleServe(idle::Idle),
}

/// The options of `informer-bench serve`: the objects that the embedded server contains.
#[derive(Clone, Copy, Debug, Args)]
struct Serve {
    /// Number of objects of each kind.
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
    /// The kind of the objects.
    #[arg(long, value_enum, default_value_t)]
    kind: Kind,
    /// Number of kinds; those after the first are custom resources with the body of a pod.
    #[arg(long, default_value_t = 1)]
    kinds: usize,
    /// Serves only names and labels, so that a million objects fit in memory.
    #[arg(long)]
    bare: bool,
    /// The seed of the random numbers from which the objects are generated.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The server of a benchmark, its objects, and the form in which they are requested.
#[derive(Clone, Debug, Args)]
struct BenchTarget {
    /// The URL of the server.
    #[arg(long, required_unless_present = "kubeconfig")]
    server: Option<String>,
    /// The kubeconfig of a real server. Cases that need the embedded server are skipped then.
    #[arg(long, conflicts_with = "server")]
    kubeconfig: Option<PathBuf>,
    /// The address of the control port, on which the server accepts commands of a benchmark.
    #[arg(long)]
    control: String,
    /// The kind of the served objects.
    #[arg(long, value_enum, default_value_t)]
    kind: Kind,
    /// The number of objects.
    #[arg(long)]
    objects: usize,
    /// The encoding in which the objects are requested.
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,
    /// Whether to start with a list instead of a streaming list.
    #[arg(long)]
    list: bool,
    /// Whether to list each namespace separately, concurrently.
    #[arg(long)]
    split: bool,
}

impl BenchTarget {
    fn is_real(&self) -> bool {
        self.kubeconfig.is_some()
    }

    async fn client(&self) -> Result<Client, Failure> {
        let config = match (&self.kubeconfig, &self.server) {
            (Some(path), _) => config_of(path).await?,
            (None, Some(server)) => kube_client::Config::new(server.parse()?),
            (None, None) => return Err("give --server or --kubeconfig".into()),
        };
        Ok(Client::new(config)?)
    }

    fn encoding_of<O: Representation>(&self) -> Encoding {
        match self.kind {
            // For a custom resource, the server sends only metadata as protobuf; complete objects are JSON.
            Kind::Crd if !O::METADATA_ONLY => Encoding::Json,
            _ if O::takes_protobuf() => self.encoding,
            _ => Encoding::Json,
        }
    }
}

async fn config_of(path: &std::path::Path) -> Result<kube_client::Config, Failure> {
    config_from(Kubeconfig::read_from(path)?).await
}

async fn config_from(kubeconfig: Kubeconfig) -> Result<kube_client::Config, Failure> {
    Ok(kube_client::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// Returns the API resource with index `at` on the server. Index 0 is the resource of `kind`; all others are
/// custom resources.
fn resource(kind: Kind, at: usize) -> ResourceKind {
    match (at, kind) {
        (1.., _) => ResourceKind::new(objects::GROUP, "v1", &format!("Widget{at}"), &format!("widget{at}s")),
        (0, Kind::Pod) => ResourceKind::new("", "v1", "Pod", "pods"),
        (0, Kind::Crd) => ResourceKind::new(objects::GROUP, "v1", "Widget", "widgets"),
        (0, Kind::Configmap) => ResourceKind::new("", "v1", "ConfigMap", "configmaps"),
        (0, Kind::Secret | Kind::SmallSecret) => ResourceKind::new("", "v1", "Secret", "secrets"),
        (0, Kind::Node) => ResourceKind::new("", "v1", "Node", "nodes"),
    }
}

#[tokio::main]
pub(crate) async fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Serve(options) => serve::serve(options).await,
        Command::Remote { kubeconfig, kind, objects, pids } => {
            remote::remote(&kubeconfig, kind, objects, &pids).await
        }
        Command::Drain(place) => drain::drain(&place).await,
        Command::Peer { place, form, only_sync } => peer::peer(&place, form, only_sync).await,
        Command::Many { place, kinds } => many::many(&place, kinds).await,
        Command::Churn { place, changes_per_second, seconds } => {
            churn::churn(&place, changes_per_second, seconds).await
        }
        Command::Idle(options) => idle::idle(options).await,
        Command::IdleServe(options) => idle::serve(options).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("not measured: {error}");
            ExitCode::FAILURE
        }
    }
}
