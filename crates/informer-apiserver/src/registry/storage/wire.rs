//! Protobuf encodings of objects. An encoding is created when a client first requests it and cached with the
//! stored object, so that all lists, watches and gets share its bytes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use informer_schema::{ENVELOPE_TAIL, Envelope, Schema, block_head, write_frame};

use super::{EventType, Stored};

/// The protobuf field number of `items` in all list messages.
const ITEMS: u8 = 2;

/// Total size in bytes of the cached protobuf encodings.
#[derive(Debug, Clone, Default)]
pub(crate) struct WireBytes(Arc<AtomicUsize>);

impl WireBytes {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct Wire {
    /// The protobuf frame of the commit's watch event, with its length prefix.
    pub(crate) frame: Bytes,
    /// `object_at` is the offset in the frame at which the object with its envelope begins; it extends to the
    /// end. `item` is the range of its message with the field header. This header is also that of a list
    /// item, because both are field 2.
    object_at: usize,
    item: Range<usize>,
    kept: WireBytes,
}

impl Wire {
    fn new(event: EventType, object: &[u8], kept: &WireBytes) -> Option<Self> {
        let length = Envelope::parse(object).ok()?.raw.len();
        let frame = Bytes::from(write_frame(event.name(), object));
        let end = frame.len() - ENVELOPE_TAIL.len();
        kept.0.fetch_add(frame.len(), Ordering::Relaxed);
        let head = block_head(ITEMS, length);
        let item = end.checked_sub(head.len() + length)?..end;
        let wire = Self { object_at: frame.len() - object.len(), item, frame, kept: kept.clone() };
        debug_assert!(
            wire.item().starts_with(&head),
            "the tag of the envelope's message is that of a list item"
        );
        Some(wire)
    }

    /// Returns the protobuf encoding of the object in its envelope.
    pub(crate) fn object(&self) -> Bytes {
        self.frame.slice(self.object_at..)
    }

    /// Returns the protobuf message of the object with the field header of a list item.
    pub(crate) fn item(&self) -> &[u8] {
        &self.frame[self.item.clone()]
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.kept.0.fetch_sub(self.frame.len(), Ordering::Relaxed);
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Wiring<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) kept: &'a WireBytes,
}

impl Stored {
    /// Returns the protobuf encoding of the object, or `None` if the kind has none. Concurrent callers encode
    /// the object only once.
    pub(crate) fn wire(&self, wiring: Wiring<'_>) -> Option<&Wire> {
        let made = || {
            let object = wiring.schema.to_protobuf(self.as_slice()).ok()?;
            Wire::new(self.event(), &object, wiring.kept)
        };
        self.wire.get_or_init(made).as_ref()
    }

    pub(crate) fn wired(&self) -> Option<&Wire> {
        self.wire.get()?.as_ref()
    }

    fn event(&self) -> EventType {
        if self.line.starts_with(EventType::Added.head()) { EventType::Added } else { EventType::Modified }
    }

    pub(crate) fn frame(&self, event: EventType, wiring: Wiring<'_>) -> Option<Bytes> {
        let wire = self.wire(wiring)?;
        if event == self.event() {
            Some(wire.frame.clone())
        } else {
            Some(write_frame(event.name(), &wire.object()).into())
        }
    }
}
