use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The error of checking or writing generated manifests.
#[derive(Debug)]
#[non_exhaustive]
pub enum ManifestsError {
    /// A manifest file or a folder could not be read, written or removed.
    Io {
        /// The failed operation: `read`, `write` or `remove`.
        operation: &'static str,
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The CRD with this name could not be encoded as YAML.
    Encode(String, serde_norway::Error),
}

impl ManifestsError {
    pub(super) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { operation, path: path.to_owned(), source }
    }
}

impl fmt::Display for ManifestsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { operation, path, .. } => write!(f, "{operation} {}", path.display()),
            Self::Encode(name, _) => write!(f, "encode CustomResourceDefinition {name} as YAML"),
        }
    }
}

impl Error for ManifestsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Encode(_, error) => Some(error),
        }
    }
}
