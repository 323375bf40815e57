use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The error of checking or writing the generated manifests of a project.
#[derive(Debug)]
#[non_exhaustive]
pub enum ManifestsError {
    /// A manifest file or a folder could not be read, written or removed.
    Io {
        /// The failed operation on the file: `read`, `write` or `remove`.
        operation: &'static str,
        /// The path of the manifest file or folder on which the operation failed.
        path: PathBuf,
        /// The error that the file system returned.
        source: io::Error,
    },
    /// An object could not be encoded as YAML.
    Encode(serde_norway::Error),
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
            Self::Encode(_) => f.write_str("encode a generated manifest as YAML"),
        }
    }
}

impl Error for ManifestsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Encode(error) => Some(error),
        }
    }
}
