//! Informers, measured against those of client-go and kube-rs: the server of all, and our side.
//!
//! `cargo xtask bench` starts `informer-bench serve` once, then in turn `informer-bench peer`, the program of
//! `conformance/go/peers/cmd/informer-bench` and that of `conformance/kube-rs`. A peer does the same in the same order, and prints one
//! line of JSON: `{"CASE": FIGURE}`.

#[path = "informers/control.rs"]
mod control;
#[path = "informers/drain.rs"]
mod drain;
#[path = "informers/gauge.rs"]
mod gauge;
#[path = "informers/objects.rs"]
mod objects;
#[path = "informers/peer.rs"]
mod peer;
#[path = "informers/serve.rs"]
mod serve;
#[path = "informers/tally.rs"]
mod tally;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use informer::{Gvr, ResourceKind};

/// Whatever ends a measurement.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves objects until it is killed. Prints where, as JSON.
    Serve {
        /// How many.
        #[arg(long, default_value_t = 20_000)]
        objects: usize,
        /// Of which kind.
        #[arg(long, value_enum, default_value_t)]
        kind: BenchKind,
        /// From which seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
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
    },
}

/// Which server, and how it is asked.
#[derive(Clone, Debug, Args)]
pub(crate) struct Where {
    /// The URL of the server.
    #[arg(long)]
    pub(crate) server: String,
    /// The address of its control port.
    #[arg(long)]
    pub(crate) control: String,
    /// The kind of its objects.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) kind: BenchKind,
    /// How many there are.
    #[arg(long)]
    pub(crate) objects: usize,
    /// How they are sent.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) encoding: Encoding,
    /// Whether the first list is a list, not a watch that begins with the state.
    #[arg(long)]
    pub(crate) list: bool,
}

/// What is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchKind {
    #[default]
    Pod,
    /// A custom resource with the body of a pod.
    Crd,
    Configmap,
    Secret,
    Node,
}

/// How objects are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    #[default]
    Json,
    Protobuf,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    #[default]
    Lazy,
    Typed,
    Dynamic,
    Metadata,
}

impl BenchKind {
    pub(crate) fn resource(self) -> ResourceKind {
        match self {
            Self::Pod => ResourceKind::new("", "v1", "Pod", "pods"),
            Self::Crd => ResourceKind::new("bench.informer.dev", "v1", "Widget", "widgets"),
            Self::Configmap => ResourceKind::new("", "v1", "ConfigMap", "configmaps"),
            Self::Secret => ResourceKind::new("", "v1", "Secret", "secrets"),
            Self::Node => ResourceKind::new("", "v1", "Node", "nodes"),
        }
    }

    pub(crate) fn gvr(self) -> Gvr {
        self.resource().gvr()
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Serve { objects, kind, seed } => serve::serve(kind, objects, seed).await,
        Command::Drain(place) => drain::drain(&place).await,
        Command::Peer { place, form } => peer::peer(&place, form).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("not measured: {error}");
            ExitCode::FAILURE
        }
    }
}
