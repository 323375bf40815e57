use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use informer_core::{Header, Object, ObjectKey};

pub(crate) const MAX_KEYS: usize = 16;

thread_local! {
    /// Number of live objects that this thread created. It reveals objects that a stopped informer has not
    /// freed.
    static ALIVE: Cell<i64> = const { Cell::new(0) };
    static KEYS: Vec<ObjectKey> = (0..MAX_KEYS).map(new_key).collect();
}

fn new_key(number: usize) -> ObjectKey {
    let namespace = if number.is_multiple_of(2) { "a" } else { "a-b" };
    ObjectKey::new(namespace, &format!("k{number}")).expect("letters and digits are a valid name")
}

pub(crate) fn key(number: usize) -> ObjectKey {
    KEYS.with(|keys| keys[number].clone())
}

pub(crate) fn alive() -> i64 {
    ALIVE.get()
}

pub(crate) const COLOURS: [&str; 4] = ["red", "green", "blue", "grey"];

pub(crate) struct SimObject {
    header: Header,
    pub(crate) number: u8,
    /// The serial number of this state of the object. A deletion event has the serial number of the deleted
    /// state.
    pub(crate) serial: u32,
    pub(crate) colour: u8,
    /// True if the selector of the informer matches the object.
    pub(crate) in_view: bool,
    pub(crate) readable: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct Parts {
    pub(crate) number: usize,
    pub(crate) uid: u32,
    pub(crate) version: u64,
    pub(crate) serial: u32,
    pub(crate) colour: u8,
    pub(crate) in_view: bool,
    pub(crate) readable: bool,
}

impl SimObject {
    pub(crate) fn new(parts: Parts) -> Self {
        ALIVE.set(ALIVE.get() + 1);
        let header =
            Header::new(key(parts.number)).with_uid(format!("{:x}", parts.uid)).with_version(parts.version);
        Self {
            header,
            number: parts.number as u8,
            serial: parts.serial,
            colour: parts.colour,
            in_view: parts.in_view,
            readable: parts.readable,
        }
    }

    /// Returns this state as a deletion event at the given version reports it.
    pub(crate) fn deleted_at(&self, version: u64) -> Self {
        ALIVE.set(ALIVE.get() + 1);
        let header = self.header.clone().with_version(version);
        let Self { number, serial, colour, in_view, readable, .. } = *self;
        Self { header, number, serial, colour, in_view, readable }
    }

    pub(crate) fn version(&self) -> u64 {
        self.header.resource_version().as_u64().unwrap_or_default()
    }

    pub(crate) fn number(&self) -> usize {
        usize::from(self.number)
    }

    /// Returns the values of the object in the index by color: none for grey, two for blue, otherwise one.
    pub(crate) fn colours(&self) -> &'static [&'static str] {
        match self.colour {
            0 => &COLOURS[..1],
            1 => &COLOURS[1..2],
            2 => &COLOURS[1..3],
            _ => &[],
        }
    }

    /// Returns the value of the object in the index by parity, which is added to a running informer.
    pub(crate) fn parity(&self) -> &'static str {
        if self.serial.is_multiple_of(2) { "even" } else { "odd" }
    }
}

impl Drop for SimObject {
    fn drop(&mut self) {
        ALIVE.set(ALIVE.get() - 1);
    }
}

impl Object for SimObject {
    fn header(&self) -> &Header {
        &self.header
    }

    fn held_bytes(&self) -> usize {
        100 + usize::from(self.colour)
    }
}

impl fmt::Debug for SimObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} @{} #{}", self.key(), self.resource_version(), self.serial)
    }
}

pub(crate) fn by_colour(object: &SimObject) -> Vec<Cow<'_, str>> {
    object.colours().iter().map(|colour| Cow::Borrowed(*colour)).collect()
}

pub(crate) fn by_parity(object: &SimObject) -> Vec<Cow<'_, str>> {
    vec![Cow::Borrowed(object.parity())]
}
