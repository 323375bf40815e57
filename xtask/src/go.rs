//! The Go toolchain, and the Go programs of `conformance/go`: real servers, and programs on client-go and
//! controller-runtime.

use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

/// The Go modules of `conformance/go` from which [`Go::build`] builds programs. `Servers` requires older
/// Kubernetes libraries than `Peers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Module {
    /// kube-apiserver, etcd, kube-controller-manager and kubectl.
    Servers,
    /// The programs of `Servers`, built with `types.mod` instead of `go.mod`. It requires Go types of a newer
    /// Kubernetes release than the kube-apiserver of `Servers`.
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

    /// Returns the linker flags of `go build`. For the module `Servers` they set the Kubernetes version,
    /// because kubectl cannot parse the default version.
    fn linker_flags(self) -> &'static str {
        match self {
            Self::Servers => "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3",
            Self::Peers | Self::NewestTypes => "-s -w",
        }
    }

    fn mod_file(self) -> Option<&'static str> {
        (self == Self::NewestTypes).then_some("types.mod")
    }

    /// Returns the file name of a built Go program. It depends on the module, because one program may be
    /// built from two modules, and all executables are in one folder.
    fn binary(self, program: &str) -> String {
        match self {
            Self::NewestTypes => format!("{program}-newest"),
            Self::Servers | Self::Peers => program.to_owned(),
        }
    }
}

#[derive(Debug, Error)]
pub(crate) enum GoError {
    #[error("no Go toolchain: `go version` could not be run; install Go 1.26 or newer, or skip this part")]
    Missing(#[source] std::io::Error),
    /// `go build` failed; the compiler has printed the errors.
    #[error("cannot build {program} in conformance/go/{module}; see the messages above")]
    Build { program: String, module: &'static str },
}

/// A Go toolchain that was found: the command `go version` could be started.
#[derive(Debug)]
pub(crate) struct Go {
    root: PathBuf,
}

impl Go {
    pub(crate) fn find(root: &Path) -> Result<Self, GoError> {
        Command::new("go").arg("version").output().map_err(GoError::Missing)?;
        Ok(Self { root: root.to_owned() })
    }

    /// Builds the program `cmd/PROGRAM` of a module, and returns the path of the executable. Go's build cache
    /// makes this fast if nothing changed.
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
        if status.success() {
            Ok(output)
        } else {
            Err(GoError::Build { program: program.to_owned(), module: module.folder() })
        }
    }
}

/// Returns cargo's target folder: the folder that the environment variable `CARGO_TARGET_DIR` names, or
/// `target`. A relative path is relative to the workspace `root`.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}
