//! Reading JSON text without building anything: where values end, and what stands where.
//!
//! Two readers, of which neither allocates nor recurses:
//!
//! - [`Structure`] finds the end of an object or array at memory speed, resumable at any byte. It knows
//!   strings, escapes and brackets and nothing else.
//! - [`Cursor`] walks the members of a complete value, and skips what nobody asked for with the first.
//!
//! What is skipped is checked for balanced brackets and closed strings, not for the whole grammar: that is
//! the price of not reading it, and a typed read of the object finds the rest.

pub(crate) mod block;
mod cursor;
mod structure;

pub(crate) use cursor::{Cursor, ScanError, Text};
pub(crate) use structure::{Span, Structure, StructureError};

/// JSON's four kinds of space.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

#[cfg(test)]
mod tests;
