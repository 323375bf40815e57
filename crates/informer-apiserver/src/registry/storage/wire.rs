//! Objects as protobuf: made when the first client asks, and kept with the version of the object, so that lists, watches and gets of all
//! clients share the bytes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use informer_schema::{ENVELOPE_TAIL, Envelope, Schema, block_head, write_frame};

use super::{EventType, Stored};

/// Every kind of lists has its items in this field.
const ITEMS: u8 = 2;

/// How many bytes of protobuf are kept, over all objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct WireBytes(Arc<AtomicUsize>);

impl WireBytes {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// An object as protobuf.
#[derive(Debug)]
pub(crate) struct Wire {
    /// The event that announced the object, with its length in front.
    pub(crate) frame: Bytes,
    /// Within the frame: the object in its envelope, which ends it, and the message with what stands before it there. That is what
    /// stands before an item of a list, too: both are the second field.
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
            "an envelope has its message where lists have their items"
        );
        Some(wire)
    }

    /// The object in its envelope.
    pub(crate) fn object(&self) -> Bytes {
        self.frame.slice(self.object_at..)
    }

    /// The message as an item of a list.
    pub(crate) fn item(&self) -> &[u8] {
        &self.frame[self.item.clone()]
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.kept.0.fetch_sub(self.frame.len(), Ordering::Relaxed);
    }
}

/// What is needed to write protobuf.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wiring<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) kept: &'a WireBytes,
}

impl Stored {
    /// The object as protobuf; `None` where it has none. Two who ask at once wait for one of them.
    pub(crate) fn wire(&self, wiring: Wiring<'_>) -> Option<&Wire> {
        let made = || {
            let object = wiring.schema.to_protobuf(self.as_slice()).ok()?;
            Wire::new(self.event(), &object, wiring.kept)
        };
        self.wire.get_or_init(made).as_ref()
    }

    /// The same, where somebody has asked for it before.
    pub(crate) fn wired(&self) -> Option<&Wire> {
        self.wire.get()?.as_ref()
    }

    /// The event that announced it.
    fn event(&self) -> EventType {
        match self.line.starts_with(EventType::Added.head()) {
            true => EventType::Added,
            false => EventType::Modified,
        }
    }

    /// The frame of an event that shows the object as it is.
    pub(crate) fn frame(&self, event: EventType, wiring: Wiring<'_>) -> Option<Bytes> {
        let wire = self.wire(wiring)?;
        match event == self.event() {
            true => Some(wire.frame.clone()),
            false => Some(write_frame(event.name(), &wire.object()).into()),
        }
    }
}
