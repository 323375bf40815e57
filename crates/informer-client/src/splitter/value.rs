use super::{Limits, SplitError};
use crate::scan::{Cursor, Span, Structure, StructureError, is_space};

/// Reads one JSON value that may span several network frames.
#[derive(Debug)]
pub(super) struct ValueReader {
    limits: Limits,
    structure: Structure,
    shape: Shape,
    /// The received beginning of an unfinished value.
    kept: Vec<u8>,
    kept_max: usize,
    /// True if `kept` may hold a value that was already returned, so that `kept` must be cleared before it is
    /// used again.
    spent: bool,
    /// True once the beginning of the current value has been validated with the complete JSON grammar.
    checked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// No byte of the next value was read.
    None,
    Container,
    /// The value is a string. `escaped` is true if the next byte cannot end the string: after a backslash,
    /// and for the opening quote.
    String {
        escaped: bool,
    },
    Scalar,
}

impl ValueReader {
    /// Returns a reader that records the objects and arrays in the outer `levels` levels of each value.
    pub(super) fn new(limits: Limits, levels: usize) -> Self {
        let structure = Structure::new(limits.depth).recording(levels);
        Self {
            limits,
            structure,
            shape: Shape::None,
            kept: Vec::new(),
            kept_max: 0,
            spent: false,
            checked: false,
        }
    }

    pub(super) fn max_buffered(&self) -> usize {
        self.kept_max
    }

    /// Returns true if the beginning of a value was read, but not its end.
    pub(super) fn is_inside(&self) -> bool {
        self.shape != Shape::None
    }

    /// Reads the next bytes of the value from `frame`, whose first byte belongs to the value. The first byte
    /// of a value must not be whitespace. `base` is the offset of the frame in the body. Returns the number
    /// of consumed bytes if the value ends in the frame. If `wanted` is false, the value is skipped without
    /// buffering it.
    pub(super) fn read(
        &mut self,
        frame: &[u8],
        base: u64,
        wanted: bool,
    ) -> Result<Option<usize>, SplitError> {
        if std::mem::take(&mut self.spent) {
            self.forget();
        }
        if self.shape == Shape::None {
            self.begin(frame[0]);
        }
        let end = self.find_end(frame, base)?;
        let length = self.kept.len() + end.unwrap_or(frame.len());
        if wanted && length > self.limits.object_bytes {
            let limit = self.limits.object_bytes as u64;
            return Err(SplitError::Large { what: "an object", limit, name: "object_bytes" });
        }
        let part = &frame[..end.unwrap_or(frame.len())];
        if (wanted || self.shape == Shape::Scalar) && (end.is_none() || !self.kept.is_empty()) {
            self.keep(part);
        }
        if end.is_none() && wanted && part.last() == Some(&b'\n') {
            self.check_beginning(base + frame.len() as u64)?;
        }
        if end.is_some() {
            if self.shape == Shape::Scalar {
                self.check_scalar(part, base)?;
            }
            (self.shape, self.spent) = (Shape::None, true);
        }
        Ok(end)
    }

    /// Returns the complete value after [`read`](Self::read) found its end. `part` contains the bytes of the
    /// value in the last frame.
    pub(super) fn whole<'a>(&'a self, part: &'a [u8]) -> &'a [u8] {
        if self.kept.is_empty() { part } else { &self.kept }
    }

    pub(super) fn spans(&self) -> &[Span] {
        self.structure.spans()
    }

    fn check_scalar(&self, part: &[u8], base: u64) -> Result<(), SplitError> {
        let whole = self.whole(part);
        match std::str::from_utf8(whole).ok().map(|text| Cursor::new(text).skip()) {
            Some(Ok(_)) => Ok(()),
            _ => {
                // `at` is the offset of the value in the body. The value may have begun in an earlier frame.
                let at = base + part.len() as u64 - whole.len() as u64;
                Err(SplitError::Syntax { at, expected: "a value", seen: whole.first().copied() })
            }
        }
    }

    /// Validates the beginning of an event that continues after the end of a line. A server sends each event
    /// as one line, so such an event may be invalid: without this check, invalid data with unclosed
    /// brackets would swallow every event after it. Each event is validated at most once, so that the cost is
    /// bounded by the bytes read.
    fn check_beginning(&mut self, end: u64) -> Result<(), SplitError> {
        if std::mem::replace(&mut self.checked, true) {
            return Ok(());
        }
        match serde_json::from_slice::<serde::de::IgnoredAny>(&self.kept) {
            Err(error) if !error.is_eof() => {
                let at = end - self.kept.len() as u64;
                Err(SplitError::Syntax { at, expected: "a value", seen: None })
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, first: u8) {
        self.structure.reset();
        self.checked = false;
        self.shape = match first {
            b'{' | b'[' => Shape::Container,
            b'"' => Shape::String { escaped: true },
            _ => Shape::Scalar,
        };
    }

    fn find_end(&mut self, frame: &[u8], base: u64) -> Result<Option<usize>, SplitError> {
        match &mut self.shape {
            Shape::Container => self.structure.find_end(frame).map_err(|error| match error {
                StructureError::Deep => SplitError::Deep { limit: self.limits.depth },
                StructureError::Mismatch(at) => SplitError::Mismatch { at: base + at as u64 },
            }),
            Shape::String { escaped } => {
                let ends = |byte: &u8| match (std::mem::take(escaped), byte) {
                    (false, b'"') => true,
                    (was_escaped, b'\\') => {
                        *escaped = !was_escaped;
                        false
                    }
                    _ => false,
                };
                Ok(frame.iter().position(ends).map(|index| index + 1))
            }
            Shape::Scalar | Shape::None => {
                let ends = |byte: &u8| is_space(*byte) || b",]}{[:\"".contains(byte);
                Ok(frame.iter().position(ends))
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        self.kept_max = self.kept_max.max(self.kept.len());
    }

    /// Clears the buffer of the value, and shrinks it if the value was large.
    fn forget(&mut self) {
        const MAX_KEPT_CAPACITY: usize = 1 << 20;
        self.kept.clear();
        self.kept.shrink_to(MAX_KEPT_CAPACITY);
    }
}
