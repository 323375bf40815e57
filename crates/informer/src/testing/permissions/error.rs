use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The error of a comparison of permissions.
#[derive(Debug)]
#[non_exhaustive]
pub enum PermissionsError {
    /// The used permissions are incomplete, because the server has removed this number of requests from its
    /// bounded log.
    RequestsRemoved(u64),
    /// A file with roles could not be read.
    Read(PathBuf, io::Error),
    /// A file with roles is not YAML, or a role in it is invalid.
    Parse(PathBuf, serde_norway::Error),
    /// A file contains neither a `Role` nor a `ClusterRole`.
    NoRole(PathBuf),
}

impl fmt::Display for PermissionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RequestsRemoved(count) => write!(
                f,
                "read the used permissions: the request log is bounded, and the server has removed {count} \
                 requests from it; read them earlier, or send fewer requests in the test"
            ),
            Self::Read(path, _) => write!(f, "read the roles in {}", path.display()),
            Self::Parse(path, _) => write!(f, "parse the roles in {}", path.display()),
            Self::NoRole(path) => {
                write!(f, "read the roles in {}: there is no Role and no ClusterRole", path.display())
            }
        }
    }
}

impl Error for PermissionsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read(_, error) => Some(error),
            Self::Parse(_, error) => Some(error),
            Self::RequestsRemoved(_) | Self::NoRole(_) => None,
        }
    }
}
