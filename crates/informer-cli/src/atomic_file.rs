//! Replaces files atomically: a reader, and the disk after a crash, have the old content or the new one.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// The permissions of a replaced file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Only the owner can read the file (on Unix).
    Private,
    /// The file keeps its permissions, or those of the target if it is a link. A new file has the default
    /// ones.
    Shared,
}

/// Replaces the content of a file, or creates it. An existing link is replaced and not followed.
pub(crate) fn replace(path: &Path, content: &[u8], access: Access) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // `tempfile` creates the file with a random name, and removes it if a later step fails.
    let mut temporary = match access {
        Access::Private => NamedTempFile::new_in(folder)?,
        Access::Shared => shared_file(folder)?,
    };
    temporary.write_all(content)?;
    if access == Access::Shared
        && let Ok(old) = fs::metadata(path)
    {
        temporary.as_file().set_permissions(old.permissions())?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(path)?;
    Ok(())
}

/// Creates a temporary file with the permissions that the umask leaves. By default, `tempfile` lets only the
/// owner read its files.
#[cfg(unix)]
fn shared_file(folder: &Path) -> io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;

    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o666)).tempfile_in(folder)
}

#[cfg(not(unix))]
fn shared_file(folder: &Path) -> io::Result<NamedTempFile> {
    NamedTempFile::new_in(folder)
}

#[cfg(test)]
mod tests;
