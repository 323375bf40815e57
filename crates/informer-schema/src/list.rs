//! A list on the wire, cut into its items as it comes in.

use crate::envelope::MAGIC;
use crate::error::{Problem, TranscodeError};
use crate::transcode::each;
use crate::wire::{Raw, Reader};

/// A tag and a length: what must be there before it is known how long a field is.
const HEAD: usize = 20;

/// A part of a list, in the order of the wire: the names, the metadata, the items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListSegment<'a> {
    /// What list it is.
    TypeMeta {
        /// Group and version, as `apps/v1`.
        api_version: &'a str,
        /// The kind of the list.
        kind: &'a str,
    },
    /// Where the list ends and how it goes on.
    Metadata {
        /// `metadata.resourceVersion`.
        resource_version: &'a str,
        /// `metadata.continue`; empty on the last page.
        continue_token: &'a str,
        /// `metadata.remainingItemCount`.
        remaining: Option<i64>,
    },
    /// An object, without envelope: to be read with [`Scan`](crate::Scan) or [`KindSchema`](crate::KindSchema).
    Item(&'a [u8]),
}

/// Cuts the body of a list into its items, at any border of chunks. Holds no more than the item that is incomplete.
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
    held: Vec<u8>,
    /// The most that `held` ever held.
    held_max: usize,
    limit: usize,
}

/// What a buffer that one large object made may keep for the small ones after it.
const MAX_KEPT_CAPACITY: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the prefix.
    Magic,
    /// Between fields of the envelope, before the list.
    Envelope,
    /// Between fields of the envelope, behind the list.
    Behind,
    /// In the list, with so many bytes to come.
    List(u64),
}

/// What stands at the beginning of some bytes.
enum Found<'a> {
    /// So many bytes are needed to tell.
    Short(usize),
    /// The list begins behind so many bytes, and has so many.
    Enter(usize, u64),
    /// A field of so many bytes.
    Field(usize, Option<ListSegment<'a>>),
}

impl ListSplitter {
    /// A splitter that refuses items, and other fields, of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { state: State::Magic, held: Vec::new(), held_max: 0, limit }
    }

    /// Takes the next bytes and hands on what is complete.
    ///
    /// # Errors
    ///
    /// When the bytes are no list, or one of its fields is longer than the limit. The splitter is of no use then.
    pub fn push(
        &mut self,
        mut chunk: &[u8],
        mut part: impl FnMut(ListSegment<'_>),
    ) -> Result<(), TranscodeError> {
        let read = self.advance(&mut chunk, &mut part);
        self.held.shrink_to(MAX_KEPT_CAPACITY);
        read.map_err(failed)
    }

    /// The most bytes that were ever held at once.
    pub fn buffered_max(&self) -> usize {
        self.held_max
    }

    fn advance(&mut self, chunk: &mut &[u8], part: &mut impl FnMut(ListSegment<'_>)) -> Result<(), Problem> {
        let mut needed = usize::from(!self.held.is_empty());
        while !chunk.is_empty() || self.held.len() >= needed.max(1) {
            if self.held.is_empty() {
                // Whole fields are handed on where they are; the rest waits.
                let used = self.fields(chunk, part)?;
                *chunk = &chunk[used..];
                self.held.extend_from_slice(chunk);
                self.held_max = self.held_max.max(self.held.len());
                return Ok(());
            }
            let mut held = std::mem::take(&mut self.held);
            match self.look(&held)? {
                Found::Short(length) if chunk.is_empty() => {
                    (self.held, needed) = (held, length);
                    if self.held.len() < length {
                        return Ok(());
                    }
                }
                Found::Short(length) => {
                    let taken = length.saturating_sub(held.len()).clamp(1, chunk.len());
                    held.extend_from_slice(&chunk[..taken]);
                    self.held_max = self.held_max.max(held.len());
                    *chunk = &chunk[taken..];
                    (self.held, needed) = (held, length);
                }
                found => {
                    let used = self.take(found, part);
                    held.drain(..used);
                    self.held = held;
                    needed = 1;
                }
            }
        }
        Ok(())
    }

    /// Hands on the fields that are whole, and returns how many bytes they are.
    fn fields(&mut self, bytes: &[u8], part: &mut impl FnMut(ListSegment<'_>)) -> Result<usize, Problem> {
        let mut used = 0;
        while used < bytes.len() {
            match self.look(&bytes[used..])? {
                Found::Short(_) => break,
                found => used += self.take(found, part),
            }
        }
        Ok(used)
    }

    fn take(&mut self, found: Found<'_>, part: &mut impl FnMut(ListSegment<'_>)) -> usize {
        match (found, self.state) {
            (Found::Short(_), _) => 0,
            (Found::Enter(used, length), _) => {
                self.state = if length == 0 { State::Behind } else { State::List(length) };
                used
            }
            (Found::Field(used, found), state) => {
                self.state = match state {
                    State::Magic => State::Envelope,
                    State::List(left) if left > used as u64 => State::List(left - used as u64),
                    State::List(_) | State::Behind => State::Behind,
                    State::Envelope => State::Envelope,
                };
                if let Some(found) = found {
                    part(found);
                }
                used
            }
        }
    }

    fn look<'b>(&self, bytes: &'b [u8]) -> Result<Found<'b>, Problem> {
        if self.state == State::Magic {
            let common = MAGIC.len().min(bytes.len());
            return match (bytes[..common] == MAGIC[..common], common == MAGIC.len()) {
                (false, _) => Err(Problem::Magic),
                (true, true) => Ok(Found::Field(MAGIC.len(), None)),
                (true, false) => Ok(Found::Short(MAGIC.len())),
            };
        }
        let mut head = Reader::new(bytes);
        let Some((number, wire_type, length)) = whole(head.head(), bytes)? else {
            return Ok(Found::Short(bytes.len() + 1));
        };
        if let (State::Envelope, 2, 2) = (self.state, number, wire_type) {
            return Ok(Found::Enter(head.position(), length));
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
            None => Ok(Found::Short(total)),
            Some(content) if wire_type == 2 => Ok(Found::Field(total, self.part(number, content)?)),
            Some(_) => Ok(Found::Field(total, None)),
        }
    }

    fn part<'b>(&self, number: u32, content: &'b [u8]) -> Result<Option<ListSegment<'b>>, Problem> {
        match (self.state, number) {
            (State::Envelope, 1) => names(content).map(Some),
            (State::Envelope | State::Behind, 3) if !content.is_empty() => Err(Problem::Encoding),
            (State::List(_), 1) => metadata(content).map(Some),
            (State::List(_), 2) => Ok(Some(ListSegment::Item(content))),
            _ => Ok(None),
        }
    }

    /// Whether the list is complete.
    pub fn is_complete(&self) -> bool {
        self.state == State::Behind && self.held.is_empty()
    }

    /// Says that there is no more.
    ///
    /// # Errors
    ///
    /// When the list is not complete.
    pub fn finish(self) -> Result<(), TranscodeError> {
        if self.is_complete() { Ok(()) } else { Err(failed(Problem::Truncated)) }
    }
}

fn failed(problem: Problem) -> TranscodeError {
    TranscodeError { doing: "read", kind: "a list".to_owned(), path: String::new(), problem }
}

/// The head of a field, unless the bytes end in it.
fn whole<T>(head: Result<T, Problem>, bytes: &[u8]) -> Result<Option<T>, Problem> {
    match head {
        Ok(head) => Ok(Some(head)),
        Err(Problem::Truncated) if bytes.len() < HEAD => Ok(None),
        Err(problem) => Err(problem),
    }
}

fn names(content: &[u8]) -> Result<ListSegment<'_>, Problem> {
    let (mut api_version, mut kind) = ("", "");
    each(content, |number, raw| {
        match number {
            1 => api_version = raw.text()?,
            2 => kind = raw.text()?,
            _ => {}
        }
        Ok(())
    })?;
    match kind.ends_with("List") {
        true => Ok(ListSegment::TypeMeta { api_version, kind }),
        false => Err(Problem::Value { expected: "a list" }),
    }
}

fn metadata(content: &[u8]) -> Result<ListSegment<'_>, Problem> {
    let (mut resource_version, mut continue_token, mut remaining) = ("", "", None);
    each(content, |number, raw: Raw<'_>| {
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
