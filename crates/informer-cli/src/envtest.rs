//! `informer envtest`: programs named `kube-apiserver` and `etcd`, for Go programs that start them with
//! envtest.
//!
//! Both programs are copies of this executable under another name. The name with which the executable is
//! started selects the program.

mod apiserver;
mod etcd;
pub(crate) mod explorer;
mod flags;
mod install;
mod store;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

pub(crate) use self::apiserver::Instance;
pub(crate) use self::install::install;
use crate::failure::Failure;

/// Install replacements of kube-apiserver and etcd for envtest, the test environment of Go operators.
#[derive(Debug, Clone, Args)]
pub(crate) struct EnvtestArguments {
    #[command(subcommand)]
    command: EnvtestCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum EnvtestCommand {
    /// Write `kube-apiserver`, `etcd` and a link to kubectl into a directory.
    #[command(after_long_help = "\
Example:
  informer envtest install bin/envtest
  KUBEBUILDER_ASSETS=$PWD/bin/envtest go test ./...

The programs accept the flags that envtest passes. An unknown flag, or a value for an unsupported
feature, is an error that names it. DIR/kube-apiserver --help lists the accepted flags.")]
    Install {
        /// The directory to write to, created if missing, for example `bin/envtest`.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// The kubectl executable to link to; by default the first one in PATH.
        #[arg(long, value_name = "FILE")]
        kubectl: Option<PathBuf>,
    },
}

pub(crate) fn run(arguments: EnvtestArguments) -> Result<(), Failure> {
    match arguments.command {
        EnvtestCommand::Install { directory, kubectl } => install::run(&directory, kubectl.as_deref()),
    }
}

/// The program of envtest that this executable replaces, selected by the file name with which the executable
/// was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Apiserver,
    Etcd,
}

impl Role {
    pub(crate) fn of(program: Option<&str>) -> Option<Self> {
        match Path::new(program?).file_stem()?.to_str()? {
            "kube-apiserver" => Some(Self::Apiserver),
            "etcd" => Some(Self::Etcd),
            _ => None,
        }
    }

    pub(crate) async fn run(self, arguments: Vec<String>) -> ExitCode {
        let outcome = match self {
            Self::Apiserver => apiserver::run(arguments).await,
            Self::Etcd => etcd::run(arguments).await,
        };
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("Error: {failure}");
                ExitCode::FAILURE
            }
        }
    }
}
