//! Parses JSON into a flat list of its values, and escapes strings as Go does.

use std::borrow::Cow;

use crate::error::Problem;

/// The maximum nesting of JSON values, as in kube-apiserver.
pub const MAX_JSON_DEPTH: usize = 10_000;

/// The maximum length of JSON input in bytes, because offsets are stored in 32 bits.
pub const MAX_INPUT: usize = u32::MAX as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonKind {
    Null,
    True,
    False,
    Number,
    String,
    Array,
    Object,
}

/// A JSON value or object key, and its byte range in the text. The nodes of the nested keys and values follow
/// their container.
#[derive(Clone, Copy, Debug)]
struct Node {
    kind: JsonKind,
    /// True if the value is a string that contains escapes.
    escaped: bool,
    start: u32,
    end: u32,
    /// The index of the first node after this one and all its descendants.
    next: u32,
}

/// The index of a value in a [`Tape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At(u32);

/// A JSON text and the positions of its values, which one pass finds without recursion.
pub(crate) struct Tape<'a> {
    text: &'a str,
    nodes: Vec<Node>,
}

impl<'a> Tape<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Problem> {
        if bytes.len() > MAX_INPUT {
            return Err(Problem::TooLong);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Problem::Utf8)?;
        let mut parser =
            Parser { bytes, at: 0, nodes: Vec::with_capacity(bytes.len() / 12), open: Vec::new() };
        parser.run()?;
        Ok(Self { text, nodes: parser.nodes })
    }

    pub(crate) fn root(&self) -> At {
        At(0)
    }

    fn node(&self, at: At) -> Node {
        self.nodes[at.0 as usize]
    }

    pub(crate) fn kind(&self, at: At) -> JsonKind {
        self.node(at).kind
    }

    /// Returns the raw JSON text of a value.
    pub(crate) fn slice(&self, at: At) -> &'a str {
        let node = self.node(at);
        &self.text[node.start as usize..node.end as usize]
    }

    /// Returns the unescaped content of a JSON string.
    pub(crate) fn string(&self, at: At) -> Option<Cow<'a, str>> {
        let node = self.node(at);
        if node.kind != JsonKind::String {
            return None;
        }
        // The text of a string has a quote at each end.
        let inner = &self.text[node.start as usize + 1..node.end as usize - 1];
        Some(if node.escaped { Cow::Owned(unescape(inner)) } else { Cow::Borrowed(inner) })
    }

    /// Returns the length of the JSON text in bytes.
    #[cfg(feature = "server")]
    pub(crate) fn text_len(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn entries(&self, at: At) -> impl Iterator<Item = At> + '_ {
        let end = self.node(at).next;
        let mut place = at.0 + 1;
        std::iter::from_fn(move || {
            let found = (place < end).then_some(At(place))?;
            place = self.node(found).next;
            Some(found)
        })
    }

    /// Returns the keys and values of an object, including duplicate keys.
    pub(crate) fn members(&self, at: At) -> impl Iterator<Item = (At, At)> + '_ {
        let mut entries = self.entries(at);
        std::iter::from_fn(move || Some((entries.next()?, entries.next()?)))
    }

    /// Returns the value of the last member with this name.
    pub(crate) fn member(&self, at: At, name: &str) -> Option<At> {
        let named = self.members(at).filter(|(key, _)| self.string(*key).is_some_and(|key| key == name));
        named.last().map(|(_, value)| value)
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
    /// The arrays and objects whose end has not been parsed yet.
    open: Vec<u32>,
}

impl Parser<'_> {
    fn run(&mut self) -> Result<(), Problem> {
        self.value()?;
        while let Some(container) = self.open.last().copied() {
            self.step(container)?;
        }
        self.space();
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.invalid()) }
    }

    /// Parses the next value of an array or object, or the closing bracket.
    fn step(&mut self, container: u32) -> Result<(), Problem> {
        let object = self.nodes[container as usize].kind == JsonKind::Object;
        let first = self.nodes.len() == container as usize + 1;
        self.space();
        match self.peek()? {
            b'}' | b']' if object == (self.peek()? == b'}') => {
                self.close(container);
                return Ok(());
            }
            b',' if !first => {
                self.at += 1;
                self.space();
            }
            _ if first => {}
            _ => return Err(self.invalid()),
        }
        if object {
            if self.peek()? != b'"' {
                return Err(self.invalid());
            }
            self.string()?;
            self.space();
            self.expect(b':')?;
        }
        self.value()
    }

    fn close(&mut self, container: u32) {
        self.at += 1;
        self.open.pop();
        let next = self.nodes.len() as u32;
        let node = &mut self.nodes[container as usize];
        (node.end, node.next) = (self.at as u32, next);
    }

    fn value(&mut self) -> Result<(), Problem> {
        self.space();
        match self.peek()? {
            b'"' => self.string(),
            open @ (b'{' | b'[') => {
                if self.open.len() == MAX_JSON_DEPTH {
                    return Err(Problem::TooDeep);
                }
                self.open.push(self.nodes.len() as u32);
                self.push(if open == b'{' { JsonKind::Object } else { JsonKind::Array }, self.at, false);
                self.at += 1;
                Ok(())
            }
            b't' => self.word(b"true", JsonKind::True),
            b'f' => self.word(b"false", JsonKind::False),
            b'n' => self.word(b"null", JsonKind::Null),
            _ => self.number(),
        }
    }

    fn push(&mut self, kind: JsonKind, start: usize, escaped: bool) {
        let next = self.nodes.len() as u32 + 1;
        self.nodes.push(Node { kind, escaped, start: start as u32, end: self.at as u32, next });
    }

    fn word(&mut self, word: &[u8], kind: JsonKind) -> Result<(), Problem> {
        let start = self.at;
        if !self.bytes[start..].starts_with(word) {
            let truncated = word.starts_with(&self.bytes[start..]);
            return Err(if truncated { Problem::Truncated } else { self.invalid() });
        }
        self.at += word.len();
        self.push(kind, start, false);
        Ok(())
    }

    fn string(&mut self) -> Result<(), Problem> {
        let start = self.at;
        let mut escaped = false;
        self.at += 1;
        loop {
            self.at += plain_length(&self.bytes[self.at..]);
            match self.peek()? {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    self.at += 1;
                    self.escape()?;
                }
                _ => return Err(self.invalid()),
            }
        }
        self.at += 1;
        self.push(JsonKind::String, start, escaped);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), Problem> {
        match self.peek()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
            b'u' => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek()?.is_ascii_hexdigit() {
                        return Err(self.invalid());
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.invalid()),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Problem> {
        let start = self.at;
        self.at += usize::from(self.peek()? == b'-');
        match self.peek()? {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits()?,
            _ => return Err(self.invalid()),
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek()?, b'+' | b'-'));
            self.digits()?;
        }
        self.push(JsonKind::Number, start, false);
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Problem> {
        if !self.peek()?.is_ascii_digit() {
            return Err(self.invalid());
        }
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Result<u8, Problem> {
        self.bytes.get(self.at).copied().ok_or(Problem::Truncated)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Problem> {
        if self.peek()? != byte {
            return Err(self.invalid());
        }
        self.at += 1;
        Ok(())
    }

    #[cold]
    fn invalid(&self) -> Problem {
        Problem::Json { at: self.at }
    }
}

/// Returns the number of bytes before the first quote, backslash or control character. Eight bytes are
/// examined at a time.
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    // Sets the high bit of each byte that is below `limit`. Only the lowest of these bits is reliable,
    // because the subtraction from one byte may borrow from the next byte.
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGHS;
    let equal = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let found = equal(word, b'"') | equal(word, b'\\') | below(word, 0x20);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let last = bytes[at..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
    last.map_or(bytes.len(), |more| at + more)
}

/// Unescapes the content of a JSON string. Unpaired surrogates become U+FFFD, as in Go.
fn unescape(inner: &str) -> String {
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let letter = rest.as_bytes().get(at + 1).copied().unwrap_or(b'\\');
        rest = rest.get(at + 2..).unwrap_or_default();
        out.push(match letter {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => unit(&mut rest),
            other => char::from(other),
        });
    }
    out.push_str(rest);
    out
}

/// Parses the character of a `\uXXXX` escape, and the low surrogate that must follow a high one. The caller
/// has already consumed the first `\u`.
fn unit(rest: &mut &str) -> char {
    let hex = |text: &str| text.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let high = hex(rest).unwrap_or(0xfffd);
    *rest = rest.get(4..).unwrap_or_default();
    let low = rest.strip_prefix("\\u").and_then(hex);
    match (high, low) {
        (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
            *rest = &rest[6..];
            char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)).unwrap_or('\u{fffd}')
        }
        _ => char::from_u32(high).unwrap_or('\u{fffd}'),
    }
}

/// Writes a quoted string, escaped as by Go's encoder: control characters, quotes, `<`, `>`, `&`, U+2028 and
/// U+2029.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escape_into(out, text, true);
    out.push(b'"');
}

/// Writes the content of a string. Quotes and backslashes are escaped unless `text` is already escaped JSON.
fn escape_into(out: &mut Vec<u8>, text: &str, quotes: bool) {
    let bytes = text.as_bytes();
    let mut done = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let length = match byte {
            b'"' | b'\\' if quotes => 1,
            0..0x20 if quotes => 1,
            b'<' | b'>' | b'&' => 1,
            0xe2 if matches!(bytes.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])) => 3,
            _ => continue,
        };
        out.extend_from_slice(&bytes[done..at]);
        escape_one(out, &bytes[at..at + length]);
        done = at + length;
    }
    out.extend_from_slice(&bytes[done..]);
}

fn escape_one(out: &mut Vec<u8>, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match *bytes {
        [b'"'] => out.extend_from_slice(b"\\\""),
        [b'\\'] => out.extend_from_slice(b"\\\\"),
        [8] => out.extend_from_slice(b"\\b"),
        [12] => out.extend_from_slice(b"\\f"),
        [b'\n'] => out.extend_from_slice(b"\\n"),
        [b'\r'] => out.extend_from_slice(b"\\r"),
        [b'\t'] => out.extend_from_slice(b"\\t"),
        [_, _, 0xa8] => out.extend_from_slice(b"\\u2028"),
        [_, _, _] => out.extend_from_slice(b"\\u2029"),
        [byte, ..] => {
            let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&digits);
        }
        [] => {}
    }
}

/// Writes JSON from another encoder as Go's encoder would: without white space, and with Go's escapes.
pub(crate) fn write_compact(out: &mut Vec<u8>, raw: &[u8]) -> Result<(), Problem> {
    let tape = Tape::parse(raw)?;
    let mut end = 0;
    for node in &tape.nodes {
        punctuation(out, &raw[end..node.start as usize]);
        end = match node.kind {
            JsonKind::Array | JsonKind::Object => node.start as usize,
            _ => {
                escape_into(out, &tape.text[node.start as usize..node.end as usize], false);
                node.end as usize
            }
        };
    }
    punctuation(out, &raw[end..]);
    Ok(())
}

/// Writes the punctuation between two values, without white space.
fn punctuation(out: &mut Vec<u8>, between: &[u8]) {
    out.extend(between.iter().filter(|byte| !byte.is_ascii_whitespace()));
}

/// Writes a floating point number as Go's encoder does.
pub(crate) fn write_double(out: &mut Vec<u8>, value: f64) -> Result<(), Problem> {
    if !value.is_finite() {
        return Err(Problem::Value { expected: "a finite number" });
    }
    let size = value.abs();
    let text = if size != 0.0 && !(1e-6..1e21).contains(&size) {
        format!("{value:e}").replace('e', if size >= 1e21 { "e+" } else { "e" })
    } else {
        value.to_string()
    };
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests;
