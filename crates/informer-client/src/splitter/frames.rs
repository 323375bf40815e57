use super::value::ValueReader;
use super::{Limits, Slice, SplitError};
use crate::scan::is_space;

/// Splits the body of a JSON watch into its concatenated values, with or without whitespace between them.
#[derive(Debug)]
pub(crate) struct Frames {
    value: ValueReader,
    /// The number of bytes of the body consumed so far. The number is also correct if the caller does not
    /// call `next` again after the last value of a frame.
    used: u64,
}

impl Frames {
    pub(crate) fn new(limits: Limits) -> Self {
        // Record the objects and arrays of three levels below the event: the event's members, the members of
        // its object, and their members.
        Self { value: ValueReader::new(limits, 3), used: 0 }
    }

    /// Returns the next value whose last byte is in `frame[*at..]`, and advances `at` past the consumed
    /// bytes. Returns `None` once the frame is consumed.
    pub(crate) fn next<'a>(
        &'a mut self,
        frame: &'a [u8],
        at: &mut usize,
    ) -> Result<Option<Slice<'a>>, SplitError> {
        if !self.value.is_inside() {
            let rest = &frame[*at..];
            self.advance(at, rest.iter().position(|&byte| !is_space(byte)).unwrap_or(rest.len()));
            if let Some(seen) = frame.get(*at).copied().filter(|&byte| byte != b'{') {
                return Err(SplitError::Syntax { at: self.used, expected: "an event", seen: Some(seen) });
            }
        }
        if *at == frame.len() {
            return Ok(None);
        }
        let part = &frame[*at..];
        let Some(length) = self.value.read(part, self.used, true)? else {
            self.advance(at, part.len());
            return Ok(None);
        };
        self.advance(at, length);
        Ok(Some(Slice { bytes: self.value.whole(&part[..length]), spans: self.value.spans() }))
    }

    fn advance(&mut self, at: &mut usize, bytes: usize) {
        *at += bytes;
        self.used += bytes as u64;
    }

    /// Returns true if the body may end after the bytes consumed so far: no value is incomplete.
    pub(crate) fn may_end(&self) -> bool {
        !self.value.is_inside()
    }

    pub(crate) fn max_buffered(&self) -> usize {
        self.value.max_buffered()
    }
}
