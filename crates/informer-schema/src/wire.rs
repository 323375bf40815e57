//! The protobuf wire format: tags, varints and lengths.

use crate::error::Problem;

/// The value of one field in a protobuf message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Raw<'a> {
    /// Wire type 0: a variable-length integer.
    Varint(u64),
    /// Wire type 1: eight bytes.
    Fixed64(u64),
    /// Wire type 2: a length and as many bytes.
    Bytes(&'a [u8]),
    /// A field of wire type 5 (four bytes), or a group (wire type 3). The number is the wire type. Built-in
    /// kinds use neither.
    Other(u8),
}

impl<'a> Raw<'a> {
    pub(crate) fn varint(self) -> Result<u64, Problem> {
        match self {
            Raw::Varint(value) => Ok(value),
            other => Err(other.wrong_type()),
        }
    }

    pub(crate) fn bytes(self) -> Result<&'a [u8], Problem> {
        match self {
            Raw::Bytes(bytes) => Ok(bytes),
            other => Err(other.wrong_type()),
        }
    }

    pub(crate) fn text(self) -> Result<&'a str, Problem> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Problem::Utf8)
    }

    pub(crate) fn double(self) -> Result<f64, Problem> {
        match self {
            Raw::Fixed64(bits) => Ok(f64::from_bits(bits)),
            other => Err(other.wrong_type()),
        }
    }

    #[cold]
    fn wrong_type(self) -> Problem {
        let found = match self {
            Raw::Varint(_) => 0,
            Raw::Fixed64(_) => 1,
            Raw::Bytes(_) => 2,
            Raw::Other(found) => found,
        };
        Problem::WireType { found }
    }
}

/// The start of a field: its tag, and the length of its value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldHead {
    pub(crate) number: u32,
    pub(crate) wire_type: u8,
    /// The length of the value that follows in bytes. A varint is skipped, so its length is 0.
    pub(crate) length: u64,
}

/// Reads the fields of one message in the order in which it contains them.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    /// Returns the bytes of the message from an offset on.
    pub(crate) fn bytes_from(&self, place: usize) -> &'a [u8] {
        &self.data[place..]
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.data.len()
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Returns the number and value of the next field; `None` at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Raw<'a>)>, Problem> {
        if let Some((number, block)) = self.short() {
            return Ok(Some((number, Raw::Bytes(block))));
        }
        let mut raw = Raw::Varint(0);
        let number = self.rest(&mut raw)?;
        Ok((number > 0).then_some((number, raw)))
    }

    /// Like [`next`](Self::next), but returns only the number, or 0 at the end of the message. The value is
    /// written to its final location, because moving it causes a store-forwarding stall.
    #[inline]
    pub(crate) fn read(&mut self, raw: &mut Raw<'a>) -> Result<u32, Problem> {
        if let Some((number, block)) = self.short() {
            *raw = Raw::Bytes(block);
            return Ok(number);
        }
        self.rest(raw)
    }

    /// Reads a length-delimited field with a number below 16 and a length below 128; `None` for any other
    /// field. This fast path handles nearly every field.
    #[inline]
    fn short(&mut self) -> Option<(u32, &'a [u8])> {
        if let [tag, length, rest @ ..] = &self.data[self.at..]
            && tag & 0x87 == 2
            && *tag > 7
            && *length < 0x80
            && let Some(block) = rest.get(..usize::from(*length))
        {
            self.at += 2 + block.len();
            return Some((u32::from(tag >> 3), block));
        }
        None
    }

    #[inline(never)]
    fn rest(&mut self, raw: &mut Raw<'a>) -> Result<u32, Problem> {
        if self.is_at_end() {
            return Ok(0);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0).ok_or(Problem::Tag)?;
        match tag & 7 {
            0 => *raw = Raw::Varint(self.varint()?),
            1 => *raw = Raw::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => *raw = Raw::Bytes(self.block()?),
            3 => *raw = self.group()?,
            5 => *raw = self.array::<4>().map(|_| Raw::Other(5))?,
            _ => return Err(Problem::Tag),
        }
        Ok(number)
    }

    /// Reads the tag of the next field, and its length or its varint.
    pub(crate) fn head(&mut self) -> Result<FieldHead, Problem> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0).ok_or(Problem::Tag)?;
        let length = match tag & 7 {
            0 => {
                self.varint()?;
                0
            }
            1 => 8,
            2 => self.varint()?,
            5 => 4,
            _ => return Err(Problem::Tag),
        };
        Ok(FieldHead { number, wire_type: (tag & 7) as u8, length })
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Problem> {
        match self.data.get(self.at) {
            // Fast path for nearly all tags and lengths.
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Problem> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.data.get(self.at).ok_or(Problem::Truncated)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Problem::Overflow)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let rest = &self.data[self.at..];
        let found = *rest.first_chunk::<N>().ok_or(Problem::Truncated)?;
        self.at += N;
        Ok(found)
    }

    /// Returns a length-delimited value.
    #[inline]
    fn block(&mut self) -> Result<&'a [u8], Problem> {
        let length = usize::try_from(self.varint()?).map_err(|_| Problem::Truncated)?;
        let end = self.at.checked_add(length).filter(|end| *end <= self.data.len());
        let end = end.ok_or(Problem::Truncated)?;
        let block = &self.data[self.at..end];
        self.at = end;
        Ok(block)
    }

    /// Skips a group, which no built-in kind uses. Groups may be nested; a counter avoids recursion.
    fn group(&mut self) -> Result<Raw<'a>, Problem> {
        let mut open = 1_usize;
        while open > 0 {
            match self.varint()? & 7 {
                0 => drop(self.varint()?),
                1 => drop(self.array::<8>()?),
                2 => drop(self.block()?),
                3 => open += 1,
                4 => open -= 1,
                5 => drop(self.array::<4>()?),
                _ => return Err(Problem::Tag),
            }
        }
        Ok(Raw::Other(3))
    }
}

/// Writes a message backwards, so that the length of a nested message is known before it must be written.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// The written bytes at the end of the buffer, in ascending order. The space before `start` is free.
    bytes: Vec<u8>,
    /// The beginning of the message in `bytes`.
    start: usize,
}

impl Writer {
    /// Creates a writer whose buffer grows only for messages of more than `capacity` bytes.
    #[cfg(feature = "server")]
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity], start: capacity }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.drain(..self.start);
        self.bytes
    }

    pub(crate) fn put(&mut self, piece: &[u8]) {
        if self.start < piece.len() {
            self.grow(piece.len());
        }
        self.start -= piece.len();
        self.bytes[self.start..self.start + piece.len()].copy_from_slice(piece);
    }

    fn grow(&mut self, more: usize) {
        let held = self.bytes.len() - self.start;
        let mut larger = vec![0; (held + more).next_power_of_two().max(256) * 2];
        let start = larger.len() - held;
        larger[start..].copy_from_slice(&self.bytes[self.start..]);
        (self.bytes, self.start) = (larger, start);
    }

    pub(crate) fn varint(&mut self, mut value: u64) {
        let mut piece = [0; 10];
        let mut length = 0;
        loop {
            let more = value > 0x7f;
            piece[length] = (value & 0x7f) as u8 | u8::from(more) << 7;
            length += 1;
            value >>= 7;
            if !more {
                break;
            }
        }
        self.put(&piece[..length]);
    }

    pub(crate) fn tag(&mut self, number: u8, wire_type: u8) {
        self.varint(u64::from(number) << 3 | u64::from(wire_type));
    }

    #[cfg(feature = "server")]
    pub(crate) fn number(&mut self, number: u8, value: u64) {
        self.varint(value);
        self.tag(number, 0);
    }

    pub(crate) fn block(&mut self, number: u8, bytes: &[u8]) {
        let before = self.len();
        self.put(bytes);
        self.close(number, before);
    }

    /// Turns the bytes that were written since the buffer had the length `before` into a length-delimited
    /// field, such as a nested message, by writing their length and the tag.
    pub(crate) fn close(&mut self, number: u8, before: usize) {
        self.varint((self.len() - before) as u64);
        self.tag(number, 2);
    }
}

pub(crate) fn each_field<'a>(
    data: &'a [u8],
    mut field: impl FnMut(u32, Raw<'a>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let mut reader = Reader::new(data);
    while let Some((number, raw)) = reader.next()? {
        field(number, raw)?;
    }
    Ok(())
}
