//! Splits the protobuf body of a list response into its items while the bytes of the body arrive.

use crate::envelope::MAGIC;
use crate::error::{Problem, TranscodeError};
use crate::wire::{FieldHead, Raw, Reader, each_field};

/// The maximum number of bytes of a protobuf tag and a length together: two varints of ten bytes.
const HEAD: usize = 20;

/// A segment of a list: its type, its metadata, or an item, in the order in which the server sent them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListSegment<'a> {
    /// The type of the list.
    TypeMeta {
        /// Group and version, as `apps/v1`.
        api_version: &'a str,
        /// The kind of the list.
        kind: &'a str,
    },
    /// The metadata of the list.
    Metadata {
        /// `metadata.resourceVersion`.
        resource_version: &'a str,
        /// `metadata.continue`; empty on the last page.
        continue_token: &'a str,
        /// `metadata.remainingItemCount`.
        remaining: Option<i64>,
    },
    /// An item of the list: an object without envelope. Parse it with [`Scan`](crate::Scan) or
    /// [`KindSchema`](crate::KindSchema).
    Item(&'a [u8]),
}

/// Splits the protobuf body of a list response into its items. The body may arrive in chunks of any size; at
/// most one incomplete item is buffered.
///
/// ```
/// use informer_schema::{ListSegment, ListSplitter, Schema};
///
/// let json = br#"{"apiVersion":"v1","kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}"#;
/// let wire = Schema::builtin().to_protobuf(json)?;
/// let (mut splitter, mut items) = (ListSplitter::new(1 << 20), 0);
/// for chunk in wire.chunks(5) {
///     splitter.push(chunk, |part| items += usize::from(matches!(part, ListSegment::Item(_))))?;
/// }
/// splitter.finish()?;
/// assert_eq!(items, 1);
/// # Ok::<(), informer_schema::TranscodeError>(())
/// ```
#[derive(Debug)]
pub struct ListSplitter {
    state: State,
    buffer: Vec<u8>,
    max_buffered: usize,
    limit: usize,
}

/// The capacity in bytes to which the buffer of a [`ListSplitter`] shrinks after a large object, so that one
/// large object does not occupy memory until the end of the list.
const MAX_KEPT_CAPACITY: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next bytes are the prefix `k8s\0` of a Kubernetes protobuf body.
    Magic,
    /// The next bytes are fields of the envelope (`runtime.Unknown`) before its field `raw`, which contains
    /// the list.
    Envelope,
    /// The next bytes are fields of the envelope after its field `raw`.
    AfterList,
    /// The next bytes are fields of the list, of which this number of bytes has not been parsed.
    List(u64),
}

/// The result of parsing the beginning of the bytes that have arrived and are not parsed yet.
enum Parsed<'a> {
    /// The field is incomplete: at least this many bytes are needed to parse it.
    Short(usize),
    /// The list message begins after this many bytes (first number) and has this length in bytes (second
    /// number).
    Enter(usize, u64),
    /// The bytes begin with a complete field of this many bytes. The segment is `None` for a field that
    /// callers do not need.
    Field(usize, Option<ListSegment<'a>>),
}

impl ListSplitter {
    /// Returns a splitter that rejects items and other fields of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { state: State::Magic, buffer: Vec::new(), max_buffered: 0, limit }
    }

    /// Parses the next chunk of the body and calls `part` with each segment that is now complete.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a list, or if a field is longer than the limit. The splitter
    /// must not be used after an error.
    pub fn push(
        &mut self,
        mut chunk: &[u8],
        mut part: impl FnMut(ListSegment<'_>),
    ) -> Result<(), TranscodeError> {
        let read = self.advance(&mut chunk, &mut part);
        self.buffer.shrink_to(MAX_KEPT_CAPACITY);
        read.map_err(failed)
    }

    /// Returns the largest number of bytes that have been buffered at once so far.
    pub fn max_buffered(&self) -> usize {
        self.max_buffered
    }

    fn advance(&mut self, chunk: &mut &[u8], part: &mut impl FnMut(ListSegment<'_>)) -> Result<(), Problem> {
        let mut needed = usize::from(!self.buffer.is_empty());
        while !chunk.is_empty() || self.buffer.len() >= needed.max(1) {
            if self.buffer.is_empty() {
                // Complete fields of the chunk are passed on without a copy; the remaining bytes are
                // buffered.
                let used = self.fields(chunk, part)?;
                *chunk = &chunk[used..];
                self.buffer.extend_from_slice(chunk);
                self.max_buffered = self.max_buffered.max(self.buffer.len());
                return Ok(());
            }
            let mut buffer = std::mem::take(&mut self.buffer);
            match self.parse_next(&buffer)? {
                Parsed::Short(length) if chunk.is_empty() => {
                    (self.buffer, needed) = (buffer, length);
                    if self.buffer.len() < length {
                        return Ok(());
                    }
                }
                Parsed::Short(length) => {
                    let taken = length.saturating_sub(buffer.len()).clamp(1, chunk.len());
                    buffer.extend_from_slice(&chunk[..taken]);
                    self.max_buffered = self.max_buffered.max(buffer.len());
                    *chunk = &chunk[taken..];
                    (self.buffer, needed) = (buffer, length);
                }
                parsed => {
                    let used = self.apply(parsed, part);
                    buffer.drain(..used);
                    self.buffer = buffer;
                    needed = 1;
                }
            }
        }
        Ok(())
    }

    /// Calls `part` with each complete field at the beginning of `bytes`, and returns the total length of
    /// these fields.
    fn fields(&mut self, bytes: &[u8], part: &mut impl FnMut(ListSegment<'_>)) -> Result<usize, Problem> {
        let mut used = 0;
        while used < bytes.len() {
            match self.parse_next(&bytes[used..])? {
                Parsed::Short(_) => break,
                parsed => used += self.apply(parsed, part),
            }
        }
        Ok(used)
    }

    fn apply(&mut self, parsed: Parsed<'_>, part: &mut impl FnMut(ListSegment<'_>)) -> usize {
        match (parsed, self.state) {
            (Parsed::Short(_), _) => 0,
            (Parsed::Enter(used, length), _) => {
                self.state = if length == 0 { State::AfterList } else { State::List(length) };
                used
            }
            (Parsed::Field(used, parsed), state) => {
                self.state = match state {
                    State::Magic => State::Envelope,
                    State::List(left) if left > used as u64 => State::List(left - used as u64),
                    State::List(_) | State::AfterList => State::AfterList,
                    State::Envelope => State::Envelope,
                };
                if let Some(parsed) = parsed {
                    part(parsed);
                }
                used
            }
        }
    }

    fn parse_next<'b>(&self, bytes: &'b [u8]) -> Result<Parsed<'b>, Problem> {
        if self.state == State::Magic {
            let common = MAGIC.len().min(bytes.len());
            return match (bytes[..common] == MAGIC[..common], common == MAGIC.len()) {
                (false, _) => Err(Problem::Magic),
                (true, true) => Ok(Parsed::Field(MAGIC.len(), None)),
                (true, false) => Ok(Parsed::Short(MAGIC.len())),
            };
        }
        let mut head = Reader::new(bytes);
        let Some(FieldHead { number, wire_type, length }) = if_complete(head.head(), bytes)? else {
            return Ok(Parsed::Short(bytes.len() + 1));
        };
        if let (State::Envelope, 2, 2) = (self.state, number, wire_type) {
            return Ok(Parsed::Enter(head.position(), length));
        }
        let length =
            usize::try_from(length).ok().filter(|length| *length <= self.limit).ok_or(Problem::TooLong)?;
        let total = head.position() + length;
        if let State::List(left) = self.state
            && total as u64 > left
        {
            return Err(Problem::Truncated);
        }
        match bytes.get(head.position()..total) {
            None => Ok(Parsed::Short(total)),
            Some(content) if wire_type == 2 => Ok(Parsed::Field(total, self.part(number, content)?)),
            Some(_) => Ok(Parsed::Field(total, None)),
        }
    }

    fn part<'b>(&self, number: u32, content: &'b [u8]) -> Result<Option<ListSegment<'b>>, Problem> {
        match (self.state, number) {
            (State::Envelope, 1) => type_meta(content).map(Some),
            (State::Envelope | State::AfterList, 3) if !content.is_empty() => Err(Problem::Encoding),
            (State::List(_), 1) => metadata(content).map(Some),
            (State::List(_), 2) => Ok(Some(ListSegment::Item(content))),
            _ => Ok(None),
        }
    }

    /// Returns true if the end of the list has been reached.
    pub fn is_complete(&self) -> bool {
        self.state == State::AfterList && self.buffer.is_empty()
    }

    /// Verifies, at the end of the body, that the list is complete.
    ///
    /// # Errors
    ///
    /// Returns an error if the list is incomplete.
    pub fn finish(self) -> Result<(), TranscodeError> {
        if self.is_complete() { Ok(()) } else { Err(failed(Problem::Truncated)) }
    }
}

fn failed(problem: Problem) -> TranscodeError {
    TranscodeError { operation: "read", kind: "a list".to_owned(), path: String::new(), problem }
}

/// Converts the error of a truncated tag or length to `None`, because the rest may arrive with the next
/// chunk. With [`HEAD`] bytes or more, `bytes` contains any valid tag and length completely, so the error
/// remains.
fn if_complete<T>(head: Result<T, Problem>, bytes: &[u8]) -> Result<Option<T>, Problem> {
    match head {
        Ok(head) => Ok(Some(head)),
        Err(Problem::Truncated) if bytes.len() < HEAD => Ok(None),
        Err(problem) => Err(problem),
    }
}

fn type_meta(content: &[u8]) -> Result<ListSegment<'_>, Problem> {
    let (mut api_version, mut kind) = ("", "");
    each_field(content, |number, raw| {
        match number {
            1 => api_version = raw.text()?,
            2 => kind = raw.text()?,
            _ => {}
        }
        Ok(())
    })?;
    if kind.ends_with("List") {
        Ok(ListSegment::TypeMeta { api_version, kind })
    } else {
        Err(Problem::Value { expected: "a list" })
    }
}

fn metadata(content: &[u8]) -> Result<ListSegment<'_>, Problem> {
    let (mut resource_version, mut continue_token, mut remaining) = ("", "", None);
    each_field(content, |number, raw: Raw<'_>| {
        match number {
            2 => resource_version = raw.text()?,
            3 => continue_token = raw.text()?,
            4 => remaining = Some(raw.varint()?.cast_signed()),
            _ => {}
        }
        Ok(())
    })?;
    Ok(ListSegment::Metadata { resource_version, continue_token, remaining })
}
