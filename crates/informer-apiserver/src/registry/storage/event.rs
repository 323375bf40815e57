//! One commit of one kind, and its line for watchers.

use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};

use super::{Form, Stored, Wiring};

/// The type of an event that concerns an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    /// As events name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }

    /// What stands before the object in the event's line.
    pub(crate) fn head(self) -> &'static [u8] {
        match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
        }
    }
}

/// What stands after the object in the event's line.
pub(crate) const LINE_TAIL: &[u8] = b"}\n";

/// One commit: the object before and after it. At least one of both is there.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) previous: Option<Arc<Stored>>,
    pub(crate) next: Option<Arc<Stored>>,
    /// Lines that are not the one made at the commit, made when the first watcher needs them: by type and form.
    lines: [OnceLock<Bytes>; 6],
    /// The frame of the deletion, likewise; other frames are with their objects.
    farewell: OnceLock<Option<Bytes>>,
}

impl Event {
    pub(crate) fn new(version: u64, previous: Option<Arc<Stored>>, next: Option<Arc<Stored>>) -> Self {
        Self { version, previous, next, lines: Default::default(), farewell: OnceLock::new() }
    }

    pub(crate) fn key(&self) -> &str {
        let stored = self.next.as_ref().or(self.previous.as_ref());
        stored.map_or("", |stored| stored.key.as_str())
    }

    /// What it keeps in memory, for the bound of the history.
    pub(super) fn cost(&self) -> usize {
        size_of::<Self>() + self.next.as_ref().or(self.previous.as_ref()).map_or(0, |stored| stored.cost())
    }

    /// The line of the event for watchers that see it as `kind`; made once and shared by all of them.
    ///
    /// A deletion (or the leaving of a selector) shows the last state at the version of this event.
    pub(crate) fn line(&self, kind: EventType, form: Form) -> Bytes {
        let natural = if self.previous.is_some() { EventType::Modified } else { EventType::Added };
        if let (Some(next), Form::Object) = (&self.next, form)
            && kind == natural
        {
            return next.line.clone();
        }
        let slot = kind as usize * 2 + usize::from(form == Form::Metadata);
        self.lines[slot].get_or_init(|| self.encode(kind, form)).clone()
    }

    /// The same as protobuf, with its length in front; `None` where the object has none.
    pub(crate) fn frame(&self, kind: EventType, wiring: Wiring<'_>) -> Option<Bytes> {
        match (kind, &self.next) {
            (EventType::Added | EventType::Modified, Some(next)) => next.frame(kind, wiring),
            _ => self.farewell.get_or_init(|| self.last_frame(kind, wiring)).clone(),
        }
    }

    fn last_frame(&self, kind: EventType, wiring: Wiring<'_>) -> Option<Bytes> {
        let previous = self.previous.as_ref()?;
        let mut object = BytesMut::new();
        previous.write_at(self.version, Form::Object, &mut object);
        let object = wiring.schema.to_protobuf(&object).ok()?;
        Some(informer_schema::write_frame(kind.name(), &object).into())
    }

    /// The object that watchers see, and its version.
    pub(crate) fn shown(&self, kind: EventType) -> Option<(&Stored, u64)> {
        match (kind, &self.previous, &self.next) {
            (EventType::Deleted, Some(previous), _) | (_, Some(previous), None) => {
                Some((previous, self.version))
            }
            (_, _, Some(next)) => Some((next, next.version)),
            (_, None, None) => None,
        }
    }

    fn encode(&self, kind: EventType, form: Form) -> Bytes {
        let mut line = BytesMut::new();
        line.put_slice(kind.head());
        match (kind, &self.previous, &self.next) {
            (EventType::Deleted, Some(previous), _) => previous.write_at(self.version, form, &mut line),
            (_, _, Some(next)) => next.write(form, &mut line),
            (_, Some(previous), None) => previous.write_at(self.version, form, &mut line),
            (_, None, None) => line.put_slice(b"null"),
        }
        line.put_slice(LINE_TAIL);
        line.freeze()
    }
}
