use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};

use super::{ObjectForm, Stored, Wiring};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }

    /// Returns the bytes before the object in the JSON line of a watch event.
    pub(crate) fn head(self) -> &'static [u8] {
        match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
        }
    }
}

/// The bytes after the object in the JSON line of a watch event.
pub(crate) const LINE_TAIL: &[u8] = b"}\n";

/// A commit: the object before and after it. Only one of them is present if the commit created or removed the
/// object.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) previous: Option<Arc<Stored>>,
    pub(crate) next: Option<Arc<Stored>>,
    /// Lines for watchers that receive this event with another type or form than the commit. Each is encoded
    /// when the first watcher needs it.
    lines: [OnceLock<Bytes>; 6],
    /// The protobuf frame of the DELETED event, encoded when it is needed. The frames of other events are
    /// cached with their objects.
    deletion_frame: OnceLock<Option<Bytes>>,
}

impl Event {
    pub(crate) fn new(version: u64, previous: Option<Arc<Stored>>, next: Option<Arc<Stored>>) -> Self {
        Self { version, previous, next, lines: Default::default(), deletion_frame: OnceLock::new() }
    }

    pub(crate) fn key(&self) -> &str {
        let stored = self.next.as_ref().or(self.previous.as_ref());
        stored.map_or("", |stored| stored.key.as_str())
    }

    /// Returns the size of the event in memory, for the size limit of the history.
    pub(super) fn cost(&self) -> usize {
        size_of::<Self>() + self.next.as_ref().or(self.previous.as_ref()).map_or(0, |stored| stored.cost())
    }

    /// Returns the JSON line for watchers that receive this event as `kind`. It is encoded once and shared by
    /// all watchers.
    ///
    /// A DELETED event contains the last state of the object with the resourceVersion of this event, even if
    /// the object only stopped matching a selector.
    pub(crate) fn line(&self, kind: EventType, form: ObjectForm) -> Bytes {
        let natural = if self.previous.is_some() { EventType::Modified } else { EventType::Added };
        if let (Some(next), ObjectForm::Object) = (&self.next, form)
            && kind == natural
        {
            return next.line.clone();
        }
        let slot = kind as usize * 2 + usize::from(form == ObjectForm::Metadata);
        self.lines[slot].get_or_init(|| self.encode(kind, form)).clone()
    }

    /// Returns the protobuf frame of the event with its length prefix, or `None` if the kind has no protobuf
    /// encoding.
    pub(crate) fn frame(&self, kind: EventType, wiring: Wiring<'_>) -> Option<Bytes> {
        match (kind, &self.next) {
            (EventType::Added | EventType::Modified, Some(next)) => next.frame(kind, wiring),
            _ => self.deletion_frame.get_or_init(|| self.last_frame(kind, wiring)).clone(),
        }
    }

    fn last_frame(&self, kind: EventType, wiring: Wiring<'_>) -> Option<Bytes> {
        let previous = self.previous.as_ref()?;
        let mut object = BytesMut::new();
        previous.write_at(self.version, ObjectForm::Object, &mut object);
        let object = wiring.schema.to_protobuf(&object).ok()?;
        Some(informer_schema::write_frame(kind.name(), &object).into())
    }

    /// Returns the object that a watch event of this type contains, and its resourceVersion.
    pub(crate) fn shown(&self, kind: EventType) -> Option<(&Stored, u64)> {
        match (kind, &self.previous, &self.next) {
            (EventType::Deleted, Some(previous), _) | (_, Some(previous), None) => {
                Some((previous, self.version))
            }
            (_, _, Some(next)) => Some((next, next.version)),
            (_, None, None) => None,
        }
    }

    fn encode(&self, kind: EventType, form: ObjectForm) -> Bytes {
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
