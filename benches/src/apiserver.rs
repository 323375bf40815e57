//! What an API server is measured with: the same program for the embedded one and for a real one, over TLS or without, and for an embedded
//! one in the process of the program itself.
//!
//! `apiserver-bench load` fills an empty server and measures what that, lists and watches cost; `apiserver-bench start` measures how
//! soon a program answers; `apiserver-bench floor` what the sockets of the machine take by themselves. Each prints one JSON object of
//! figures. `cargo xtask bench apiserver` runs the first two in turn.

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

/// Both servers are measured by the same program, which should take little of the cores that it shares with them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Whatever ends a measurement.
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
    /// Starts a program and measures how soon it answers, and what it holds then; ends it.
    Start(start::Start),
    /// Sends the same bytes through sockets that nobody serves: what no server on this machine can be faster than.
    Floor(floor::Floor),
}

/// What to measure, and where.
#[derive(Clone, Debug, Args)]
pub(crate) struct Load {
    /// The URL of the server. Without one a server in this process is called without a socket, as a test may do.
    #[arg(long)]
    server: Option<String>,
    /// Whom to trust, where it is `https`.
    #[arg(long)]
    authority: Option<PathBuf>,
    /// The bearer token.
    #[arg(long)]
    token: Option<String>,
    /// The processes of the server, for their memory and their processor time.
    #[arg(long, value_delimiter = ',')]
    pids: Vec<u32>,
    /// Processes that work for the server: of these the processor time alone.
    #[arg(long, value_delimiter = ',')]
    beside: Vec<u32>,
    /// How many pods to create.
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
    /// How many connections create them.
    #[arg(long, default_value_t = 16)]
    writers: usize,
    /// How often they are listed, in either encoding.
    #[arg(long, default_value_t = 5)]
    lists: usize,
    /// How many watches one write is told to.
    #[arg(long, default_value_t = 1_000)]
    watchers: usize,
    /// How many writes they are told of, one after the other, and then as fast as may be.
    #[arg(long, default_value_t = 100)]
    writes: usize,
}

/// The figures of one run, by their names.
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
    // A task as those that it makes: the thread that waits for it would be one more than there are cores.
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
        // There is no process of the server's own to be looked at.
        figures.0.retain(|name, _| !name.contains("RSS") && !name.contains("CPU"));
    }
    Ok(figures)
}
