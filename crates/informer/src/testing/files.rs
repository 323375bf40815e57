//! Reads and writes generated files. Tests compare such files with the committed ones.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Reads a text file, and converts CRLF to LF, so that a checkout on Windows equals the generated text.
/// Returns `None` if the file does not exist.
pub(super) fn read_text(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.replace("\r\n", "\n"))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a text file, and creates its folder if it is missing.
pub(super) fn write_text(path: &Path, text: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, text)
}
