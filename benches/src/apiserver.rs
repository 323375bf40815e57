//! Measures an API server: the embedded server in its own process, the embedded server called directly
//! without a socket, or a real kube-apiserver, with or without TLS.
//!
//! `apiserver-bench load` fills an empty server and measures creates, lists and watches. `apiserver-bench
//! start` measures the time from the start of a server program to its first response. `apiserver-bench floor`
//! measures the sockets of the machine without a server. Each command prints its results as one JSON object.
//! `cargo xtask bench apiserver` runs `load` and `start` with each server in turn.

#[path = "apiserver/arguments.rs"]
mod arguments;
#[path = "apiserver/connect.rs"]
mod connect;
#[path = "apiserver/create.rs"]
mod create;
#[path = "apiserver/floor.rs"]
mod floor;
#[path = "apiserver/lists.rs"]
mod lists;
#[expect(dead_code, reason = "the objects are those of `informer-bench`, which needs more of them")]
#[path = "informers/objects.rs"]
mod objects;
#[path = "apiserver/process.rs"]
mod process;
#[path = "apiserver/start.rs"]
mod start;
#[path = "apiserver/watches.rs"]
mod watches;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use serde_json::{Map, Value};

use connect::Target;
use process::Processes;

/// The allocator mimalloc keeps the processor time of this client low, because the client shares the cores
/// with the server that it measures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fills an empty server, and measures creates, lists and watches.
    Load(Load),
    /// Starts an API server program, measures the time until its first response and its memory, and stops it.
    Start(start::Start),
    /// Sends the bytes of a load measurement through sockets without a server. No server on this machine can
    /// be faster.
    Floor(floor::Floor),
}

/// The options of a load measurement.
#[derive(Clone, Debug, Args)]
pub(crate) struct Load {
    /// The URL of the server. By default, the embedded server in this process is called without a socket, as
    /// in tests.
    #[arg(long)]
    server: Option<String>,
    /// The file with the CA certificate of the server; required if the URL begins with `https`.
    #[arg(long)]
    authority: Option<PathBuf>,
    /// The bearer token that each request contains.
    #[arg(long)]
    token: Option<String>,
    /// The ids of the server's processes, whose memory and processor time are reported.
    #[arg(long, value_delimiter = ',')]
    pids: Vec<u32>,
    /// The ids of other processes that the server needs, such as etcd. Their processor time is added to that
    /// of the server, but their memory is not.
    #[arg(long, value_delimiter = ',')]
    beside: Vec<u32>,
    /// Number of pods to create.
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
    /// Number of connections that create the pods.
    #[arg(long, default_value_t = 16)]
    writers: usize,
    /// Number of times that all pods are listed in each encoding (JSON and protobuf).
    #[arg(long, default_value_t = 5)]
    lists: usize,
    /// Number of watches that receive each write.
    #[arg(long, default_value_t = 1_000)]
    watchers: usize,
    /// Number of writes that the watches receive, first one at a time, then as fast as possible.
    #[arg(long, default_value_t = 100)]
    writes: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Figures(Map<String, Value>);

impl Figures {
    pub(crate) fn put(&mut self, name: &str, value: f64) {
        self.0.insert(name.to_owned(), value.into());
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let command = Arguments::parse().command;
    // `run` is spawned as a task. Otherwise it would run on the main thread, in addition to the worker
    // threads of the runtime.
    let figures = tokio::spawn(run(command)).await.unwrap_or_else(|error| Err(error.into()));
    match figures {
        Ok(figures) => {
            println!("{}", Value::Object(figures.0));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("not measured: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<Figures, Failure> {
    match command {
        Command::Load(load) => measured(&load).await,
        Command::Start(start) => start::measured(&start).await,
        Command::Floor(floor) => floor::measured(&floor).await,
    }
}

async fn measured(load: &Load) -> Result<Figures, Failure> {
    let target = match &load.server {
        Some(url) => Target::new(url, load.authority.as_deref(), load.token.as_deref())?,
        None => Target::here(),
    };
    let server = Processes { server: load.pids.clone(), beside: load.beside.clone() };
    let mut figures = Figures::default();
    create::measure(&target, &server, load, &mut figures).await?;
    lists::measure(&target, &server, load, &mut figures).await?;
    watches::measure(&target, &server, load, &mut figures).await?;
    watches::stall(&target, &server, load, &mut figures).await?;
    if load.pids.is_empty() {
        // A server inside this process shares its memory and processor time with this client, so they are not
        // reported.
        figures.0.retain(|name, _| !name.contains("RSS") && !name.contains("CPU"));
    }
    Ok(figures)
}
