//! Framing of protobuf objects in requests and responses: the envelope around each object (Go type
//! `runtime.Unknown`), and the length-prefixed frames of a watch.

use crate::error::{Problem, TranscodeError};
use crate::wire::{Writer, each_field};

/// The first four bytes of every Kubernetes object in protobuf encoding. The envelope follows them.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// The decoded envelope of a protobuf object, with its type and message.
///
/// ```
/// use informer_schema::{Envelope, Schema};
///
/// let wire = Schema::builtin().to_protobuf(br#"{"apiVersion":"v1","kind":"Pod"}"#)?;
/// let envelope = Envelope::parse(&wire)?;
/// assert_eq!((envelope.api_version, envelope.kind), ("v1", "Pod"));
/// # Ok::<(), informer_schema::TranscodeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Group and version, as `apps/v1`.
    pub api_version: &'a str,
    /// The kind of the object, such as `Deployment`.
    pub kind: &'a str,
    /// The protobuf message of the object, which contains neither `apiVersion` nor `kind`.
    pub raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Parses an envelope, which must begin with [`MAGIC`].
    ///
    /// # Errors
    ///
    /// Returns an error if the prefix is missing, the envelope is invalid, or its object is compressed or is
    /// not protobuf.
    pub fn parse(object: &'a [u8]) -> Result<Self, TranscodeError> {
        Self::read(object).map_err(|problem| failed("the envelope of an object", problem))
    }

    fn read(object: &'a [u8]) -> Result<Self, Problem> {
        let mut envelope = Self::default();
        each_field(object.strip_prefix(&MAGIC).ok_or(Problem::Magic)?, |number, raw| {
            match number {
                1 => envelope.type_meta(raw.bytes()?)?,
                2 => envelope.raw = raw.bytes()?,
                3 if !raw.bytes()?.is_empty() => return Err(Problem::Encoding),
                4 if !matches!(raw.text()?, "" | "application/vnd.kubernetes.protobuf") => {
                    return Err(Problem::Encoding);
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(envelope)
    }

    fn type_meta(&mut self, data: &'a [u8]) -> Result<(), Problem> {
        each_field(data, |number, raw| {
            match number {
                1 => self.api_version = raw.text()?,
                2 => self.kind = raw.text()?,
                _ => {}
            }
            Ok(())
        })
    }

    pub(crate) fn describe(&self) -> String {
        format!("{} {}", self.api_version, self.kind)
    }
}

fn failed(what: &str, problem: Problem) -> TranscodeError {
    TranscodeError { operation: "read", kind: what.to_owned(), path: String::new(), problem }
}

/// Writes an envelope around the message that `message` writes. A [`Writer`] is filled from the last byte to
/// the first, so the fields of the envelope are written in reverse order.
pub(crate) fn close<E>(
    out: &mut Writer,
    (api_version, kind): (&str, &str),
    message: impl FnOnce(&mut Writer) -> Result<(), E>,
) -> Result<(), E> {
    out.block(4, b"");
    out.block(3, b"");
    let before = out.len();
    message(out)?;
    out.close(2, before);
    let before = out.len();
    out.block(2, kind.as_bytes());
    out.block(1, api_version.as_bytes());
    out.close(1, before);
    Ok(())
}

/// Returns a protobuf object: [`MAGIC`] and an envelope that contains the encoded `message`.
pub fn enclose(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Writer::default();
    let done: Result<(), std::convert::Infallible> = close(&mut out, (api_version, kind), |out| {
        out.put(message);
        Ok(())
    });
    match done {
        Ok(()) => out.put(&MAGIC),
    }
    out.into_bytes()
}

/// Returns the type of a watch event, such as `ADDED`, and its object in its envelope. `event` is the content
/// of a frame that [`frame`] returned.
///
/// # Errors
///
/// Returns an error if the bytes are not a watch event.
pub fn watch_event(event: &[u8]) -> Result<(&str, &[u8]), TranscodeError> {
    let (mut event_type, mut object) = ("", &[][..]);
    let read = each_field(event, |number, raw| {
        match number {
            1 => event_type = raw.text()?,
            2 => each_field(raw.bytes()?, |number, raw| {
                if number == 1 {
                    object = raw.bytes()?;
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    });
    read.map(|()| (event_type, object)).map_err(|problem| failed("a watch event", problem))
}

/// Writes one watch event with its length prefix, as a server sends it. `object` must be in its envelope.
///
/// ```
/// let frame = informer_schema::write_frame("ADDED", b"k8s\0");
/// let (event, rest) = informer_schema::frame(&frame).ok_or("incomplete")?;
/// assert_eq!(informer_schema::watch_event(event)?, ("ADDED", &b"k8s\0"[..]));
/// assert!(rest.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_frame(event_type: &str, object: &[u8]) -> Vec<u8> {
    let mut out = Writer::default();
    out.put(object);
    out.close(1, 0);
    out.close(2, 0);
    out.block(1, event_type.as_bytes());
    let length = u32::try_from(out.len()).unwrap_or(u32::MAX);
    out.put(&length.to_be_bytes());
    out.into_bytes()
}

/// Returns the bytes that precede a message of `length` bytes in a protobuf object: [`MAGIC`] and the
/// beginning of the envelope. [`ENVELOPE_TAIL`] follows the message. An API server uses this function to
/// write a list item by item, instead of copying the complete list with [`enclose`].
///
/// ```
/// use informer_schema::{ENVELOPE_TAIL, enclose, envelope_head};
///
/// let pieces = [&envelope_head("v1", "PodList", 2)[..], b"\x0a\x00", &ENVELOPE_TAIL].concat();
/// assert_eq!(pieces, enclose("v1", "PodList", b"\x0a\x00"));
/// ```
pub fn envelope_head(api_version: &str, kind: &str, length: usize) -> Vec<u8> {
    let mut type_meta = Writer::default();
    type_meta.block(2, kind.as_bytes());
    type_meta.block(1, api_version.as_bytes());
    type_meta.close(1, 0);
    type_meta.put(&MAGIC);
    let mut head = type_meta.into_bytes();
    head.extend_from_slice(&block_head(2, length));
    head
}

/// The bytes that follow the message in an envelope: an empty content encoding and an empty content type.
pub const ENVELOPE_TAIL: [u8; 4] = [0x1a, 0, 0x22, 0];

/// Returns the bytes of a length-delimited protobuf field that precede its value: tag and length.
///
/// # Panics
///
/// Panics if the field number is over 15, because the tag of such a field is longer than one byte. No field
/// for which an API server needs this function has a larger number.
pub fn block_head(number: u8, length: usize) -> Vec<u8> {
    assert!(number < 16, "the head of field {number} is longer than one byte");
    let mut head = vec![number << 3 | 2];
    let mut rest = length;
    while rest > 0x7f {
        head.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    head.push((rest & 0x7f) as u8);
    head
}

/// Returns the first event of a watch stream and the remaining bytes; `None` if the event is incomplete. The
/// caller must limit the length of an event: [`frame_length`] returns the length before the event is
/// complete.
pub fn frame(stream: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(frame_length(stream)?).ok()?;
    stream[4..].split_at_checked(length)
}

/// Returns the length of the next event of a watch stream, without the four bytes that contain this length.
/// `None` if these four bytes are incomplete.
pub fn frame_length(stream: &[u8]) -> Option<u32> {
    stream.first_chunk().copied().map(u32::from_be_bytes)
}
