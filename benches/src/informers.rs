//! Informers, measured against those of client-go and kube-rs: the server of all, and our side.
//!
//! `cargo xtask bench` starts `informer-bench serve` once, then in turn `informer-bench peer`, the program of
//! `conformance/go/peers/cmd/informer-bench` and that of `conformance/kube-rs`. A peer does the same in the same order, and prints one
//! line of JSON: `{"CASE": FIGURE}`. With a real server `informer-bench remote` is what `serve` is with the embedded one: it fills it,
//! and changes objects when it is told to.

#[path = "informers/arguments.rs"]
mod arguments;
#[path = "informers/control.rs"]
mod control;
#[path = "informers/drain.rs"]
mod drain;
#[path = "informers/gauge.rs"]
mod gauge;
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

/// Whatever ends a measurement.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves objects until it is killed. Prints where, as JSON.
    Serve(Serve),
    /// Fills a real server, and changes its objects when told to, until it is killed. Prints where it listens, as JSON.
    Remote {
        /// Who is told about the server.
        #[arg(long)]
        kubeconfig: PathBuf,
        /// Of which kind its objects are.
        #[arg(long, value_enum, default_value_t)]
        kind: Kind,
        /// How many it has in the end.
        #[arg(long, default_value_t = 20_000)]
        objects: usize,
        /// The processes of the server, whose processor time is told.
        #[arg(long, value_delimiter = ',')]
        pids: Vec<u32>,
    },
    /// Reads a first list and drops it, as fast as HTTP goes: what the server can do at most.
    Drain(Where),
    /// An informer of ours.
    Peer {
        #[command(flatten)]
        place: Where,
        /// What the cache holds.
        #[arg(long, value_enum, default_value_t)]
        form: Form,
        /// Nothing after the first list.
        #[arg(long)]
        only_sync: bool,
    },
    /// Two informers of each of several kinds in one process, lazy and of metadata.
    Many {
        #[command(flatten)]
        place: Where,
        /// How many kinds.
        #[arg(long, default_value_t = 10)]
        kinds: usize,
    },
}

/// What is served.
#[derive(Clone, Copy, Debug, Args)]
struct Serve {
    /// How many, of each kind.
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
    /// Of which kind.
    #[arg(long, value_enum, default_value_t)]
    kind: Kind,
    /// How many kinds: those after the first are custom resources with the body of a pod.
    #[arg(long, default_value_t = 1)]
    kinds: usize,
    /// Names and labels only, so that a million are held.
    #[arg(long)]
    bare: bool,
    /// From which seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Which server, and how it is asked.
#[derive(Clone, Debug, Args)]
struct Where {
    /// The URL of the server.
    #[arg(long, required_unless_present = "kubeconfig")]
    server: Option<String>,
    /// How a real server is reached. It is not asked for what only the embedded one can do.
    #[arg(long, conflicts_with = "server")]
    kubeconfig: Option<PathBuf>,
    /// The address of its control port.
    #[arg(long)]
    control: String,
    /// The kind of its objects.
    #[arg(long, value_enum, default_value_t)]
    kind: Kind,
    /// How many there are.
    #[arg(long)]
    objects: usize,
    /// How they are sent.
    #[arg(long, value_enum, default_value_t)]
    encoding: Encoding,
    /// Whether the first list is a list, not a watch that begins with the state.
    #[arg(long)]
    list: bool,
    /// Whether the first list is asked for by namespaces, side by side.
    #[arg(long)]
    split: bool,
}

impl Where {
    fn is_real(&self) -> bool {
        self.kubeconfig.is_some()
    }

    async fn client(&self) -> Result<Client, Failure> {
        let config = match (&self.kubeconfig, &self.server) {
            (Some(path), _) => config_of(path).await?,
            (None, Some(server)) => kube_client::Config::new(server.parse()?),
            (None, None) => return Err("no server is named".into()),
        };
        Ok(Client::new(config)?)
    }

    /// How objects come that are to be of this form.
    fn encoding_of<O: Representation>(&self) -> Encoding {
        match self.kind {
            // Only the metadata of a custom resource comes as protobuf.
            Kind::Crd if !O::METADATA_ONLY => Encoding::Json,
            _ if O::takes_protobuf() => self.encoding,
            _ => Encoding::Json,
        }
    }
}

async fn config_of(path: &std::path::Path) -> Result<kube_client::Config, Failure> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    Ok(kube_client::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// How the API calls kind `at` of a server; the first one is `kind`.
fn resource(kind: Kind, at: usize) -> ResourceKind {
    match (at, kind) {
        (1.., _) => ResourceKind::new(objects::GROUP, "v1", &format!("Widget{at}"), &format!("widget{at}s")),
        (0, Kind::Pod) => ResourceKind::new("", "v1", "Pod", "pods"),
        (0, Kind::Crd) => ResourceKind::new(objects::GROUP, "v1", "Widget", "widgets"),
        (0, Kind::Configmap) => ResourceKind::new("", "v1", "ConfigMap", "configmaps"),
        (0, Kind::Secret) => ResourceKind::new("", "v1", "Secret", "secrets"),
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
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("not measured: {error}");
            ExitCode::FAILURE
        }
    }
}
