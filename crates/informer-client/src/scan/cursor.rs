use std::borrow::Cow;
use std::ops::Range;

use super::{Span, Structure, StructureError, is_space};

/// The maximum nesting depth of a value that the cursor skips: unlimited, because the splitter has already
/// checked the depth of the object that contains the value.
const MAX_SKIP_DEPTH: usize = usize::MAX;

/// A position in a complete JSON text.
///
/// The text is valid UTF-8. Methods move the cursor past what they read; after an error it is at the position
/// of the error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    pub(super) at: usize,
    /// The recorded containers (objects and arrays) that the cursor can skip without scanning, ordered by
    /// their start. Containers before the cursor are dropped as the cursor moves.
    spans: &'a [Span],
    /// The offset of `text` in the longer text to which the offsets in `spans` refer.
    spans_from: usize,
}

/// A JSON string in the text of a cursor, without its quotes and still escaped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    raw: &'a str,
    escaped: bool,
    /// The offset of the string's opening quote.
    start: usize,
}

/// The error for a text that is not JSON or has another value than the expected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} at byte {at}")]
pub(crate) struct ScanError {
    pub(crate) at: usize,
    pub(crate) expected: &'static str,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0, spans: &[], spans_from: 0 }
    }

    /// Returns a cursor that skips recorded containers without scanning them. `from` is the offset of `text`
    /// in the longer text to which the offsets in `spans` refer.
    pub(crate) fn with_spans(text: &'a str, spans: &'a [Span], from: usize) -> Self {
        Self { text, at: 0, spans, spans_from: from }
    }

    pub(crate) fn over(text: &'a str, range: &Range<usize>) -> Self {
        Self { at: range.start, ..Self::new(&text[..range.end]) }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the text of a byte range that another method of this cursor returned.
    pub(crate) fn slice(&self, range: &Range<usize>) -> &'a str {
        &self.text[range.clone()]
    }

    /// Returns the next byte that is not whitespace, without consuming it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            if !is_space(byte) {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Consumes the next byte that is not whitespace if it is `byte`. Returns true if it was consumed.
    pub(crate) fn pass(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    pub(crate) fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), ScanError> {
        if self.pass(byte) { Ok(()) } else { Err(self.error(expected)) }
    }

    pub(crate) fn error(&self, expected: &'static str) -> ScanError {
        ScanError { at: self.at, expected }
    }

    pub(crate) fn string(&mut self) -> Result<Text<'a>, ScanError> {
        self.expect(b'"', "a string")?;
        let (start, mut escaped) = (self.at, false);
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let Some(found) = memchr::memchr2(b'"', b'\\', rest) else {
                return Err(self.error("the end of a string"));
            };
            self.at += found;
            if rest[found] == b'"' {
                self.at += 1;
                return Ok(Text { raw: &self.text[start..self.at - 1], escaped, start: start - 1 });
            }
            escaped = true;
            if rest.len() < found + 2 {
                return Err(self.error("the end of a string"));
            }
            // Skip the backslash and the byte after it. If that byte starts a multi-byte character, the
            // character's other bytes are neither quotes nor backslashes.
            self.at += 2;
        }
    }

    /// Skips one JSON value of any type. Returns its byte range.
    pub(crate) fn skip(&mut self) -> Result<Range<usize>, ScanError> {
        let first = self.peek().ok_or_else(|| self.error("a value"))?;
        let start = self.at;
        match first {
            b'"' => {
                self.string()?;
            }
            b'{' | b'[' if self.jump() => {}
            b'{' | b'[' => {
                let end = Structure::new(MAX_SKIP_DEPTH).find_end(&self.text.as_bytes()[start..]);
                match end {
                    Ok(Some(length)) => self.at += length,
                    Err(StructureError::Mismatch(at)) => {
                        self.at += at;
                        return Err(self.error("a bracket of the other kind"));
                    }
                    Ok(None) | Err(StructureError::Deep) => return Err(self.error("the end of a value")),
                }
            }
            _ => self.scalar()?,
        }
        Ok(start..self.at)
    }

    /// Moves the cursor to the end of the object or array at the cursor, if that end was recorded. Returns
    /// false if it was not; the caller must then scan the object or array.
    fn jump(&mut self) -> bool {
        let here = self.spans_from + self.at;
        let behind = self.spans.iter().position(|span| span.start >= here).unwrap_or(self.spans.len());
        self.spans = &self.spans[behind..];
        match self.spans.first() {
            // `end == start` means that the closing bracket was not recorded.
            Some(span) if span.start == here && span.end > here => {
                self.at = span.end - self.spans_from;
                self.at <= self.text.len()
            }
            _ => false,
        }
    }

    /// Skips `null`, `true`, `false` or a number.
    fn scalar(&mut self) -> Result<(), ScanError> {
        let rest = &self.text.as_bytes()[self.at..];
        let ends =
            |byte: u8| is_space(byte) || matches!(byte, b',' | b']' | b'}' | b':' | b'"' | b'[' | b'{');
        let length = rest.iter().position(|&byte| ends(byte)).unwrap_or(rest.len());
        let word = &rest[..length];
        let known = matches!(word, b"null" | b"true" | b"false") || is_number(word);
        if !known {
            return Err(self.error("a value"));
        }
        self.at += length;
        Ok(())
    }

    pub(crate) fn object(&mut self) -> Result<(), ScanError> {
        self.expect(b'{', "an object")
    }

    /// Returns the key of the object's next member and moves the cursor past the colon after the key. At the
    /// end of the object, returns `None` and moves the cursor past the closing brace. `first` must be true
    /// for the first call in an object and is set to false.
    pub(crate) fn member(&mut self, first: &mut bool) -> Result<Option<Text<'a>>, ScanError> {
        if !self.next(b'}', first, "',' or '}'")? {
            return Ok(None);
        }
        let key = self.string()?;
        self.expect(b':', "':'")?;
        Ok(Some(key))
    }

    /// Returns true if the array has another element, and moves the cursor to it. At the end of the array,
    /// returns false and moves the cursor past the closing bracket. `first` must be true for the first call
    /// in an array and is set to false.
    pub(crate) fn element(&mut self, first: &mut bool) -> Result<bool, ScanError> {
        self.next(b']', first, "',' or ']'")
    }

    fn next(&mut self, close: u8, first: &mut bool, expected: &'static str) -> Result<bool, ScanError> {
        if std::mem::take(first) {
            return Ok(!self.pass(close));
        }
        if self.pass(close) {
            return Ok(false);
        }
        self.expect(b',', expected)?;
        Ok(true)
    }
}

fn is_number(word: &[u8]) -> bool {
    let mut rest = word.strip_prefix(b"-").unwrap_or(word);
    let digits = |rest: &mut &[u8]| {
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        *rest = &rest[count..];
        count
    };
    let leading_zero = rest.first() == Some(&b'0');
    match digits(&mut rest) {
        0 => return false,
        1 => {}
        _ if leading_zero => return false,
        _ => {}
    }
    if let Some(fraction) = rest.strip_prefix(b".") {
        rest = fraction;
        if digits(&mut rest) == 0 {
            return false;
        }
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        rest = exponent.strip_prefix(b"+").or_else(|| exponent.strip_prefix(b"-")).unwrap_or(exponent);
        if digits(&mut rest) == 0 {
            return false;
        }
    }
    rest.is_empty()
}

impl<'a> Text<'a> {
    /// Returns the string with its escapes resolved.
    ///
    /// # Errors
    ///
    /// Returns an error if an escape is invalid, or the string contains a control character.
    pub(crate) fn decode(self) -> Result<Cow<'a, str>, BadString> {
        if !self.escaped {
            let plain = !self.raw.bytes().any(|byte| byte < 0x20);
            return if plain { Ok(Cow::Borrowed(self.raw)) } else { Err(BadString) };
        }
        let quoted = ["\"", self.raw, "\""].concat();
        serde_json::from_str(&quoted).map(Cow::Owned).map_err(|_| BadString)
    }

    pub(crate) fn start(self) -> usize {
        self.start
    }

    /// Returns true if the unescaped string equals `plain`. A string with invalid escapes is never equal.
    pub(crate) fn is(self, plain: &str) -> bool {
        if self.escaped { self.decode().is_ok_and(|text| text == plain) } else { self.raw == plain }
    }
}

/// The error for a string with an invalid escape or an unescaped control character.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BadString;
