//! Measures an API server. The same program can measure the embedded server, in its own process or called
//! directly, and a real server, with or without TLS.
//!
//! `apiserver-bench load` fills an empty server and measures creates, lists and watches. `apiserver-bench
//! start` measures the time until a program responds. `apiserver-bench floor` measures the sockets of the
//! machine without a server. Each command prints its results as one JSON object. `cargo xtask bench
//! apiserver` runs the first two commands in turn.

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

/// mimalloc keeps the processor time of this client low, because the client shares the cores with the server
/// that it measures.
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
    /// Starts a program, measures the time until it responds and its memory, and stops it.
    Start(start::Start),
    /// Sends the same bytes through sockets without a server: the lower bound for every server on this
    /// machine.
    Floor(floor::Floor),
}

/// The options of a load measurement.
#[derive(Clone, Debug, Args)]
pub(crate) struct Load {
    /// The URL of the server. By default, a server in this process is called without a socket, as in tests.
    #[arg(long)]
    server: Option<String>,
    /// The CA certificate for `https`.
    #[arg(long)]
    authority: Option<PathBuf>,
    /// The bearer token.
    #[arg(long)]
    token: Option<String>,
    /// The processes of the server, for memory and processor time.
    #[arg(long, value_delimiter = ',')]
    pids: Vec<u32>,
    /// Other processes that the server needs, such as etcd; their memory is not measured.
    #[arg(long, value_delimiter = ',')]
    beside: Vec<u32>,
    /// Number of pods to create.
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
    /// Number of connections that create the pods.
    #[arg(long, default_value_t = 16)]
    writers: usize,
    /// How often the pods are listed in each encoding.
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
    // `run` is spawned as a task, because the thread that blocks on the runtime would be an additional
    // thread.
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
