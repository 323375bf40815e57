//! Scanning JSON without building values: the offsets of values and where they end.
//!
//! There are two scanners, which neither allocate nor recurse:
//!
//! - [`Structure`] finds the end of an object or array at memory speed and can be resumed at any byte. It
//!   recognizes only strings, escapes and brackets.
//! - [`Cursor`] walks the members of a complete value, and skips other values with `Structure`.
//!
//! Skipped values are checked for balanced brackets and closed strings, but not against the complete JSON
//! grammar, because that would cost as much as parsing them. Decoding the object to its type finds the
//! remaining errors.

pub(crate) mod block;
mod cursor;
mod structure;

pub(crate) use cursor::{Cursor, ScanError, Text};
pub(crate) use structure::{Span, Structure, StructureError};

pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

#[cfg(test)]
mod tests;
