//! The decoded objects of an event.

use informer::cache::Event;
use serde_json::Value;

use super::Text;
use super::diff::{Difference, differences};
use super::table::{self, Cell};
use crate::failure::{chain, plain};

/// The decoded objects of an event. An object that cannot be decoded is `None`.
#[derive(Default)]
pub(super) struct States {
    /// The object before an update; `None` for other events.
    pub(super) old: Option<Value>,
    /// The object after the event, or the last known state of a deleted object.
    pub(super) new: Option<Value>,
    /// The error message if one of the objects `old` and `new` could not be decoded.
    pub(super) error: Option<String>,
}

impl States {
    pub(super) fn of(event: &Event<Text>) -> Self {
        let (old, new) = match event {
            Event::Added { object, .. } => (None, object),
            Event::Updated { old, new, .. } => (Some(old), new),
            Event::Deleted { last, .. } => (None, last),
        };
        let mut error = None;
        let mut decoded = |object: &Text| match object.get() {
            Ok(value) => Some(Value::clone(&value)),
            Err(cause) => {
                error.get_or_insert_with(|| plain(&chain(&cause)));
                None
            }
        };
        let (old, new) = (old.and_then(|old| decoded(old)), decoded(new));
        Self { old, new, error }
    }

    /// Removes the columns of a table from the objects and returns those of the new one.
    pub(super) fn take_columns(&mut self) -> Option<Vec<Cell>> {
        self.old.as_mut().and_then(table::take_columns);
        self.new.as_mut().and_then(table::take_columns)
    }

    pub(super) fn changes(&self) -> Vec<Difference<'_>> {
        self.old.as_ref().zip(self.new.as_ref()).map(|(old, new)| differences(old, new)).unwrap_or_default()
    }
}
