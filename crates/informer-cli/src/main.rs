//! The `informer` command: prints the events of an informer, checks clusters, serves a test API server,
//! replaces the programs of envtest, explores test suites under faults, creates operator projects, and runs a
//! demo.

mod atomic_file;
mod certificates;
mod connection;
mod console;
mod demo;
mod doctor;
mod envtest;
mod explore;
mod failure;
mod format;
mod graph;
mod live;
mod request_text;
mod scaffold;
mod screen;
mod serve;
mod signals;
mod terminal;
mod top;
mod watch;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

/// The embedded API server allocates and frees many small objects, so the binary uses mimalloc; the libraries
/// do not choose an allocator. Huge pages stay disabled, because the kernel would clear 2 MB for a few
/// written bytes and count all of it as resident memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Creates, tests and debugs operators for Kubernetes.
#[derive(Debug, Parser)]
#[command(
    name = "informer",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  informer new website-operator    create the project of an operator
  informer serve                   run a Kubernetes API in memory on port 8001
  informer watch pods -A           print the changes of all pods of a cluster
  informer top pods deploy -A      show informers of these kinds live in the terminal

Exit codes: 0 success; 1 the command failed or found a problem; 2 wrong usage.
Logs: RUST_LOG=informer=debug. Colors: only on a terminal, never with NO_COLOR."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(scaffold::NewArguments),
    Add(scaffold::AddArguments),
    Manifests(scaffold::ManifestsArguments),
    Demo(demo::DemoArguments),
    Watch(watch::WatchArguments),
    Top(top::TopArguments),
    Console(console::ConsoleArguments),
    Graph(graph::GraphArguments),
    Doctor(doctor::DoctorArguments),
    Serve(serve::ServeArguments),
    Envtest(envtest::EnvtestArguments),
    Explore(explore::ExploreArguments),
    /// Print a shell completion script.
    #[command(after_help = "Example: informer completions bash > /etc/bash_completion.d/informer")]
    Completions {
        /// The shell that reads the script.
        shell: Shell,
    },
    /// Write the man pages of all commands.
    #[command(after_help = "Example: informer man ~/.local/share/man/man1 && man informer-watch")]
    Man {
        /// The folder, created if missing. Pages of an earlier version are overwritten.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Runs the API server of the demo. The command `demo` starts it as a child process.
    #[command(hide = true)]
    DemoServer(demo::server::ServerArguments),
}

impl Command {
    fn is_full_screen(&self) -> bool {
        match self {
            Self::Top(_) => true,
            Self::Watch(arguments) => arguments.is_full_screen(),
            _ => false,
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    // With the name `kube-apiserver` or `etcd`, the executable runs the replacement of that program and not
    // the `informer` command. `informer envtest install` installs it under these names.
    let mut given = std::env::args();
    if let Some(role) = envtest::Role::of(given.next().as_deref()) {
        log_to_stderr();
        return role.run(given.collect()).await;
    }
    let arguments = Arguments::parse();
    // Lines of logs would destroy a full-screen view on the same terminal.
    if !arguments.command.is_full_screen() || !std::io::stderr().is_terminal() {
        log_to_stderr();
    }
    let outcome = match arguments.command {
        // The commands `serve` and `explore` handle Ctrl-C themselves: `serve` shuts down gracefully, and
        // `explore` kills the processes that it has started and reports an error.
        command @ (Command::Serve(_) | Command::Explore(_)) => run(command).await,
        command => tokio::select! {
            outcome = run(command) => outcome,
            // Ctrl-C ends the other commands successfully. Dropping the runtime then closes their sockets and
            // ends their child processes.
            _ = tokio::signal::ctrl_c() => Ok(ExitCode::SUCCESS),
        },
    };
    outcome.unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        ExitCode::FAILURE
    })
}

async fn run(command: Command) -> Result<ExitCode, failure::Failure> {
    match command {
        Command::Demo(arguments) => {
            let equal = demo::run(arguments).await?;
            Ok(if equal { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "informer", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { folder } => write_man_pages(&folder).map(|()| ExitCode::SUCCESS),
        Command::New(arguments) => scaffold::new(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Add(arguments) => scaffold::add(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Manifests(arguments) => scaffold::manifests(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Watch(arguments) => watch::run(arguments).await.map(|()| ExitCode::SUCCESS),
        Command::Top(arguments) => top::run(arguments).await.map(|()| ExitCode::SUCCESS),
        Command::Console(arguments) => console::run(arguments).await.map(|()| ExitCode::SUCCESS),
        Command::Graph(arguments) => graph::run(arguments).await.map(|()| ExitCode::SUCCESS),
        Command::Serve(arguments) => serve::run(arguments).await.map(|()| ExitCode::SUCCESS),
        Command::Doctor(arguments) => doctor::run(arguments).await,
        Command::Explore(arguments) => explore::run(arguments).await,
        Command::Envtest(arguments) => envtest::run(arguments).map(|()| ExitCode::SUCCESS),
        Command::DemoServer(arguments) => demo::server::run(arguments).await.map(|()| ExitCode::SUCCESS),
    }
}

fn write_man_pages(folder: &Path) -> Result<(), failure::Failure> {
    let written =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Arguments::command(), folder));
    written.map_err(|error| failure::Failure::io(&format!("write man pages to {}", folder.display()), error))
}

fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "error".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
