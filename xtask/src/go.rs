//! The Go toolchain, and the programs of `conformance/go` that it builds: the real servers, and the peers.

use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

/// The modules of `conformance/go`. The servers pin older libraries than the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Module {
    /// kube-apiserver, etcd, kube-controller-manager and kubectl.
    Servers,
    /// The programs of `Servers` that can be built with the newest Go types of Kubernetes, which are newer
    /// than the server.
    NewestTypes,
    /// Programs on client-go and controller-runtime.
    Peers,
}

impl Module {
    fn folder(self) -> &'static str {
        match self {
            Self::Servers | Self::NewestTypes => "servers",
            Self::Peers => "peers",
        }
    }

    /// Without a version of the usual form the servers report one that kubectl cannot read.
    fn linker_flags(self) -> &'static str {
        match self {
            Self::Servers => "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3",
            Self::Peers | Self::NewestTypes => "-s -w",
        }
    }

    /// The file that replaces `go.mod`.
    fn mod_file(self) -> Option<&'static str> {
        (self == Self::NewestTypes).then_some("types.mod")
    }

    /// The file name of a built program: one program may be built from two modules.
    fn binary(self, program: &str) -> String {
        match self {
            Self::NewestTypes => format!("{program}-newest"),
            Self::Servers | Self::Peers => program.to_owned(),
        }
    }
}

/// Why a Go program is not there.
#[derive(Debug, Error)]
pub(crate) enum GoError {
    /// There is no Go here, or none that answers.
    #[error(
        "no Go toolchain: `go version` could not be run; install Go 1.26 or newer, or go without this part"
    )]
    Missing(#[source] std::io::Error),
    /// The build failed; the compiler has said why.
    #[error("cannot build {program} in conformance/go/{module}; the messages above say why")]
    Build {
        /// The program.
        program: String,
        /// The folder of its module.
        module: &'static str,
    },
}

/// A Go toolchain that answers.
#[derive(Debug)]
pub(crate) struct Go {
    root: PathBuf,
}

impl Go {
    /// Finds the toolchain.
    pub(crate) fn find(root: &Path) -> Result<Self, GoError> {
        Command::new("go").arg("version").output().map_err(GoError::Missing)?;
        Ok(Self { root: root.to_owned() })
    }

    /// Builds `cmd/PROGRAM` of a module and returns where it is. Go's own build cache makes this short when
    /// nothing changed.
    pub(crate) fn build(&self, module: Module, program: &str) -> Result<PathBuf, GoError> {
        let output = target(&self.root).join("go").join(module.binary(program));
        let status = Command::new("go")
            .current_dir(self.root.join("conformance/go").join(module.folder()))
            .args(["build", "-ldflags", module.linker_flags()])
            .args(module.mod_file().map(|file| format!("-modfile={file}")))
            .arg("-o")
            .arg(&output)
            .arg(format!("./cmd/{program}"))
            .status()
            .map_err(GoError::Missing)?;
        match status.success() {
            true => Ok(output),
            false => Err(GoError::Build { program: program.to_owned(), module: module.folder() }),
        }
    }
}

/// Where build products go: cargo's folder, as the environment says or beside the sources.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}
