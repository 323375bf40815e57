//! A list of short strings in one allocation that clones share.
//!
//! Each string is preceded by its length in groups of six bits, lowest group first; all groups but the last
//! have bit 6 set. No length byte has bit 7 set, so the whole buffer is valid UTF-8, and a string can be
//! sliced out of the buffer without validation.

use std::sync::Arc;

#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct PackedStrings(Arc<str>);

impl PackedStrings {
    /// Packs strings into a buffer of exactly the needed size.
    pub(crate) fn new<'a>(strings: impl Iterator<Item = &'a str> + Clone) -> Self {
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
