//! Finds the first syntax error in JSON and returns the message of Go's encoding/json.

use std::borrow::Cow;

/// Maximum nesting depth of JSON. It is lower than Go's 10,000, because JSON values are walked recursively,
/// possibly on the small stack of a test thread.
pub(super) const MAX_DEPTH: usize = 127;

/// Returns Go's message for the first syntax error, or `None` if the JSON is well-formed.
pub(super) fn syntax_error(body: &[u8]) -> Option<String> {
    let mut reader = JsonScanner { body, at: 0 };
    match reader.document() {
        Ok(()) => None,
        Err(SyntaxError::End) => Some("unexpected end of JSON input".to_owned()),
        Err(SyntaxError::Byte(byte, why)) => Some(format!("invalid character {} {why}", quoted(byte))),
    }
}

/// Formats a byte as in the error messages of Go's encoding/json.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        byte => format!("'{}'", char::from(byte)),
    }
}

enum SyntaxError {
    End,
    Byte(u8, Cow<'static, str>),
}

impl SyntaxError {
    fn byte(byte: u8, why: &'static str) -> Self {
        Self::Byte(byte, why.into())
    }
}

struct JsonScanner<'a> {
    body: &'a [u8],
    at: usize,
}

impl JsonScanner<'_> {
    fn document(&mut self) -> Result<(), SyntaxError> {
        self.value(MAX_DEPTH)?;
        match self.next() {
            Ok(byte) => Err(SyntaxError::byte(byte, "after top-level value")),
            Err(_) => Ok(()),
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), SyntaxError> {
        match (self.next()?, depth.checked_sub(1)) {
            (byte @ (b'{' | b'['), None) => Err(SyntaxError::byte(byte, "exceeded max depth")),
            (b'{', Some(depth)) => {
                self.entries(b'}', "after object key:value pair", |reader| reader.member(depth))
            }
            (b'[', Some(depth)) => self.entries(b']', "after array element", |reader| reader.value(depth)),
            (b'"', _) => self.string(),
            (b't', _) => self.word("true"),
            (b'f', _) => self.word("false"),
            (b'n', _) => self.word("null"),
            (b'-' | b'0'..=b'9', _) => self.number(),
            (byte, _) => Err(SyntaxError::byte(byte, "looking for beginning of value")),
        }
    }

    fn entries(
        &mut self,
        end: u8,
        after: &'static str,
        entry: impl Fn(&mut Self) -> Result<(), SyntaxError>,
    ) -> Result<(), SyntaxError> {
        self.at += 1;
        if self.next()? == end {
            self.at += 1;
            return Ok(());
        }
        loop {
            entry(self)?;
            let byte = self.next()?;
            if byte != end && byte != b',' {
                return Err(SyntaxError::byte(byte, after));
            }
            self.at += 1;
            if byte == end {
                return Ok(());
            }
        }
    }

    fn member(&mut self, depth: usize) -> Result<(), SyntaxError> {
        match self.next()? {
            b'"' => self.string()?,
            byte => return Err(SyntaxError::byte(byte, "looking for beginning of object key string")),
        }
        self.next()?;
        self.take(|byte| byte == b':', "after object key")?;
        self.value(depth)
    }

    fn word(&mut self, word: &str) -> Result<(), SyntaxError> {
        self.at += 1;
        for expected in word.bytes().skip(1) {
            let byte = self.peek()?;
            if byte != expected {
                let expected = char::from(expected);
                return Err(SyntaxError::Byte(
                    byte,
                    format!("in literal {word} (expecting '{expected}')").into(),
                ));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), SyntaxError> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'\\' => {
                    self.at += 1;
                    self.escape()?;
                }
                byte @ 0..0x20 => return Err(SyntaxError::byte(byte, "in string literal")),
                byte => {
                    self.at += 1;
                    if byte == b'"' {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        let coded = self.peek()? == b'u';
        self.take(|byte| b"bfnrt\\/\"u".contains(&byte), "in string escape code")?;
        for _ in 0..if coded { 4 } else { 0 } {
            self.take(|byte| byte.is_ascii_hexdigit(), "in \\u hexadecimal character escape")?;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        self.skip(b"-");
        match self.peek()? {
            b'0' => self.at += 1,
            _ => self.digits("in numeric literal")?,
        }
        if self.skip(b".") {
            self.digits("after decimal point in numeric literal")?;
        }
        if self.skip(b"eE") {
            self.skip(b"+-");
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digits(&mut self, why: &'static str) -> Result<(), SyntaxError> {
        self.take(|byte| byte.is_ascii_digit(), why)?;
        while self.skip(b"0123456789") {}
        Ok(())
    }

    /// Skips whitespace and returns the next byte without consuming it.
    fn next(&mut self) -> Result<u8, SyntaxError> {
        while self.skip(b" \t\r\n") {}
        self.peek()
    }

    fn peek(&self) -> Result<u8, SyntaxError> {
        self.body.get(self.at).copied().ok_or(SyntaxError::End)
    }

    /// Consumes the next byte if it is one of `these`. Returns true if it did.
    fn skip(&mut self, these: &[u8]) -> bool {
        let found = self.peek().is_ok_and(|byte| these.contains(&byte));
        self.at += usize::from(found);
        found
    }

    fn take(&mut self, fits: impl Fn(u8) -> bool, why: &'static str) -> Result<(), SyntaxError> {
        match self.peek()? {
            byte if fits(byte) => self.at += 1,
            byte => return Err(SyntaxError::byte(byte, why)),
        }
        Ok(())
    }
}
