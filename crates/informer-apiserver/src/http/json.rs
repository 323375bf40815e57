//! JSON as Go reads it: bytes that are no text become the sign for them, and errors have its words.

use serde_json::Value;

/// Levels of nesting that are read: what nests deeper would be walked on the small stack of a test's thread. Upstream has 10,000.
const DEPTH_MAX: usize = 127;

/// Reads JSON.
///
/// # Errors
///
/// When the text is no JSON, or nests too deep: why.
pub(crate) fn read_json(body: &[u8]) -> Result<Value, String> {
    let error = match serde_json::from_slice(body) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if let Some(why) = complaint(body) {
        return Err(why);
    }
    // What is left are texts that are none, and numbers beyond all numbers.
    match std::str::from_utf8(body) {
        Ok(_) => Err(error.to_string()),
        Err(_) => serde_json::from_str(&text(body)).map_err(|error| error.to_string()),
    }
}

/// Bytes as text: each that is none becomes a sign of its own.
fn text(body: &[u8]) -> String {
    let mut text = String::with_capacity(body.len());
    for chunk in body.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n(char::REPLACEMENT_CHARACTER, chunk.invalid().len()));
    }
    text
}

/// What Go's reader finds wrong with JSON, read up to there; `None` where it is well-formed.
fn complaint(body: &[u8]) -> Option<String> {
    let mut reader = Reader { body, at: 0 };
    match reader.document() {
        Ok(()) => None,
        Err(Wrong::End) => Some("unexpected end of JSON input".to_owned()),
        Err(Wrong::Byte(why)) => {
            let byte = reader.body.get(reader.at).copied().unwrap_or_default();
            Some(format!("invalid character {} {why}", quoted(byte)))
        }
    }
}

/// A byte as Go shows it.
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

/// Where reading ends too early.
enum Wrong {
    End,
    /// At a byte that cannot be there.
    Byte(&'static str),
}

/// What may come next within the lists and objects that are open.
#[derive(Clone, Copy)]
enum Open {
    List,
    Object,
}

struct Reader<'a> {
    body: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Result<u8, Wrong> {
        self.body.get(self.at).copied().ok_or(Wrong::End)
    }

    /// The next byte that is no space, not taken yet.
    fn next(&mut self) -> Result<u8, Wrong> {
        while matches!(self.body.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.peek()
    }

    fn document(&mut self) -> Result<(), Wrong> {
        let mut open = Vec::new();
        loop {
            if !self.value(&mut open)? {
                continue;
            }
            if !self.closed(&mut open)? {
                continue;
            }
            return match self.next() {
                Ok(_) => Err(Wrong::Byte("after top-level value")),
                Err(_) => Ok(()),
            };
        }
    }

    /// A value, or the beginning of one that others are in: whether it is whole.
    fn value(&mut self, open: &mut Vec<Open>) -> Result<bool, Wrong> {
        let begins = match self.next()? {
            b'{' => Open::Object,
            b'[' => Open::List,
            _ => return self.scalar().map(|()| true),
        };
        if open.len() >= DEPTH_MAX {
            return Err(Wrong::Byte("exceeded max depth"));
        }
        self.at += 1;
        match (begins, self.next()?) {
            (Open::Object, b'}') | (Open::List, b']') => {
                self.at += 1;
                return Ok(true);
            }
            (Open::Object, _) => self.name("looking for beginning of object key string")?,
            (Open::List, _) => {}
        }
        open.push(begins);
        Ok(false)
    }

    /// What follows a value: whether it was the last of all.
    fn closed(&mut self, open: &mut Vec<Open>) -> Result<bool, Wrong> {
        while let Some(around) = open.last() {
            let byte = self.next()?;
            match (around, byte) {
                (Open::List, b',') => {
                    self.at += 1;
                    return Ok(false);
                }
                (Open::Object, b',') => {
                    self.at += 1;
                    self.next()?;
                    self.name("looking for beginning of object key string")?;
                    return Ok(false);
                }
                (Open::List, b']') | (Open::Object, b'}') => {
                    self.at += 1;
                    open.pop();
                }
                (Open::List, _) => return Err(Wrong::Byte("after array element")),
                (Open::Object, _) => return Err(Wrong::Byte("after object key:value pair")),
            }
        }
        Ok(true)
    }

    /// The name of a member, and the colon.
    fn name(&mut self, why: &'static str) -> Result<(), Wrong> {
        if self.peek()? != b'"' {
            return Err(Wrong::Byte(why));
        }
        self.string()?;
        if self.next()? != b':' {
            return Err(Wrong::Byte("after object key"));
        }
        self.at += 1;
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), Wrong> {
        match self.peek()? {
            b'"' => self.string(),
            b't' => self.word(
                b"true",
                [
                    "in literal true (expecting 'r')",
                    "in literal true (expecting 'u')",
                    "in literal true (expecting 'e')",
                    "",
                ],
            ),
            b'f' => self.word(
                b"false",
                [
                    "in literal false (expecting 'a')",
                    "in literal false (expecting 'l')",
                    "in literal false (expecting 's')",
                    "in literal false (expecting 'e')",
                ],
            ),
            b'n' => self.word(
                b"null",
                [
                    "in literal null (expecting 'u')",
                    "in literal null (expecting 'l')",
                    "in literal null (expecting 'l')",
                    "",
                ],
            ),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(Wrong::Byte("looking for beginning of value")),
        }
    }

    fn word(&mut self, word: &[u8], why: [&'static str; 4]) -> Result<(), Wrong> {
        self.at += 1;
        for (expected, why) in word[1..].iter().zip(why) {
            if self.peek()? != *expected {
                return Err(Wrong::Byte(why));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), Wrong> {
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => self.escape()?,
                0..0x20 => return Err(Wrong::Byte("in string literal")),
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), Wrong> {
        self.at += 1;
        match self.peek()? {
            b'u' => {
                for _ in 0..4 {
                    self.at += 1;
                    if !self.peek()?.is_ascii_hexdigit() {
                        return Err(Wrong::Byte("in \\u hexadecimal character escape"));
                    }
                }
            }
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
            _ => return Err(Wrong::Byte("in string escape code")),
        }
        self.at += 1;
        Ok(())
    }

    fn number(&mut self) -> Result<(), Wrong> {
        if self.peek()? == b'-' {
            self.at += 1;
        }
        match self.peek()? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            _ => return Err(Wrong::Byte("in numeric literal")),
        }
        if self.peek().is_ok_and(|byte| byte == b'.') {
            self.at += 1;
            if !self.peek()?.is_ascii_digit() {
                return Err(Wrong::Byte("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if self.peek().is_ok_and(|byte| matches!(byte, b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek()?, b'+' | b'-') {
                self.at += 1;
            }
            if !self.peek()?.is_ascii_digit() {
                return Err(Wrong::Byte("in exponent of numeric literal"));
            }
            self.digits();
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.body.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests;
