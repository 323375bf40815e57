use super::value::ValueReader;
use super::{Limits, Slice, SplitError};
use crate::scan::is_space;

/// Cuts a body into the values that follow one another in it, with or without space between them.
#[derive(Debug)]
pub(crate) struct Frames {
    value: ValueReader,
    /// Bytes of the body before the present frame.
    base: u64,
}

impl Frames {
    pub(crate) fn new(limits: Limits) -> Self {
        // An event, its object, the members of that, and theirs.
        Self { value: ValueReader::new(limits, 3), base: 0 }
    }

    /// The next value that ends in `frame[*at..]`; moves `at` past what was used. `None` when the frame is used up.
    pub(crate) fn next<'a>(
        &'a mut self,
        frame: &'a [u8],
        at: &mut usize,
    ) -> Result<Option<Slice<'a>>, SplitError> {
        if !self.value.is_inside() {
            let rest = &frame[*at..];
            *at += rest.iter().position(|&byte| !is_space(byte)).unwrap_or(rest.len());
            if let Some(seen) = frame.get(*at).copied().filter(|&byte| byte != b'{') {
                let at = self.base + *at as u64;
                return Err(SplitError::Syntax { at, expected: "an event", seen: Some(seen) });
            }
        }
        if *at == frame.len() {
            self.base += frame.len() as u64;
            return Ok(None);
        }
        let start = std::mem::replace(at, frame.len());
        match self.value.read(&frame[start..], self.base + start as u64, true)? {
            Some(used) => {
                *at = start + used;
                Ok(Some(Slice { bytes: self.value.whole(&frame[start..*at]), spans: self.value.spans() }))
            }
            None => {
                self.base += frame.len() as u64;
                Ok(None)
            }
        }
    }

    /// True where the body may end: between two values.
    pub(crate) fn may_end(&self) -> bool {
        !self.value.is_inside()
    }

    /// The most bytes that were ever buffered at once.
    pub(crate) fn buffered_max(&self) -> usize {
        self.value.buffered_max()
    }
}
