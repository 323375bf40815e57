//! Short strings that belong together, in one allocation, which clones share.
//!
//! Each has its length before it, six bits a byte and the lowest first; all bytes but the last of a length have the seventh bit
//! set. None has the eighth, so the whole is a text, too, and a part of it is one without being checked.

use std::sync::Arc;

/// PackedStrings in their order. Equal where they are the same in the same order.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct PackedStrings(Arc<str>);

impl PackedStrings {
    /// Keeps strings, in memory of their own size.
    pub(crate) fn of<'a>(strings: impl Iterator<Item = &'a str> + Clone) -> Self {
        let size = strings.clone().map(|text| length_size(text.len()) + text.len()).sum();
        let mut all = String::with_capacity(size);
        for text in strings {
            push_length(&mut all, text.len());
            all.push_str(text);
        }
        Self(all.into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> Strings<'_> {
        Strings { all: &self.0, at: 0 }
    }

    /// Heap bytes held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.0.len()
    }
}

fn length_size(length: usize) -> usize {
    (usize::BITS - (length | 1).leading_zeros()).div_ceil(6) as usize
}

fn push_length(all: &mut String, mut length: usize) {
    while length > 0x3f {
        all.push(char::from(length as u8 & 0x3f | 0x40));
        length >>= 6;
    }
    all.push(char::from(length as u8));
}

/// The strings, one after the other.
pub(crate) struct Strings<'a> {
    all: &'a str,
    at: usize,
}

impl<'a> Iterator for Strings<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (mut length, mut shift, mut start) = (0, 0, self.at);
        loop {
            let byte = *self.all.as_bytes().get(start)?;
            start += 1;
            length |= usize::from(byte & 0x3f) << shift;
            if byte < 0x40 {
                break;
            }
            shift += 6;
        }
        self.at = start + length;
        self.all.get(start..self.at)
    }
}

#[cfg(test)]
mod tests;
