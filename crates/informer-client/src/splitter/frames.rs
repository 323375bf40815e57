use super::value::ValueReader;
use super::{Limits, Slice, SplitError};
use crate::scan::is_space;

/// Cuts a body into the values that follow one another in it, with or without space between them.
#[derive(Debug)]
pub(crate) struct Frames {
    value: ValueReader,
    /// Bytes of the body that were used, whoever asks again or not where a frame ends with its last value.
    used: u64,
}

impl Frames {
    pub(crate) fn new(limits: Limits) -> Self {
        // An event, its object, the members of that, and theirs.
        Self { value: ValueReader::new(limits, 3), used: 0 }
    }

    /// Returns the next value that ends in `frame[*at..]`; moves `at` past what was used. `None` when the
    /// frame is used up.
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

    /// Returns true if the body may end: between two values.
    pub(crate) fn may_end(&self) -> bool {
        !self.value.is_inside()
    }

    /// Returns the most bytes that were ever buffered at once.
    pub(crate) fn max_buffered(&self) -> usize {
        self.value.max_buffered()
    }
}
