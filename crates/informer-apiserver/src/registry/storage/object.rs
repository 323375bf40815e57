//! One object at one version: its bytes and the few parts that the server itself looks at.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::{BufMut, Bytes, BytesMut};
use informer_core::{Labels, ObjectKey};

use super::wire::Wire;

/// An encoded object. Immutable; lists, events and gets share its bytes.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) key: ObjectKey,
    pub(crate) version: u64,
    pub(crate) uid: Box<str>,
    /// Somebody has deleted it, and it is still there.
    pub(crate) terminating: bool,
    pub(crate) labels: Labels,
    /// The uids of its owners.
    pub(crate) owners: Box<[Box<str>]>,
    /// The values of the kind's selectable fields, in their order.
    pub(crate) fields: Box<[Box<str>]>,
    /// The event that announced it, with its newline.
    pub(super) line: Bytes,
    /// The object within `line`.
    pub(super) object: Range<usize>,
    /// Within the object: the digits of its version, and the value of `metadata`.
    pub(super) version_at: Range<usize>,
    pub(super) metadata: Range<usize>,
    /// Within the object: what follows kind and apiVersion, for list items that omit them.
    pub(super) bare_at: usize,
    /// The same as protobuf, once somebody has asked for it.
    pub(super) wire: OnceLock<Option<Wire>>,
}

/// In which shape objects are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As stored.
    Object,
    /// As stored, without kind and apiVersion: items of built-in lists.
    Bare,
    /// Only the metadata, as `PartialObjectMetadata`.
    Metadata,
}

impl Form {
    /// What stands before the part of an object that a form has.
    pub(crate) fn head(self) -> &'static [u8] {
        match self {
            Self::Object => b"",
            Self::Bare => b"{",
            Self::Metadata => METADATA_HEAD,
        }
    }

    /// What stands behind it.
    pub(crate) fn tail(self) -> &'static [u8] {
        match self {
            Self::Object | Self::Bare => b"",
            Self::Metadata => b"}",
        }
    }
}

const METADATA_HEAD: &[u8] = br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#;

impl Stored {
    /// The object as stored.
    pub(crate) fn bytes(&self) -> Bytes {
        self.line.slice(self.object.clone())
    }

    /// Whether it is stored in this version. Only asked of custom kinds, whose members are in the order of their names.
    pub(crate) fn is_in(&self, api_version: &str) -> bool {
        const NAME: &[u8] = br#"{"apiVersion":""#;
        match self.as_slice().strip_prefix(NAME) {
            Some(rest) => {
                rest.strip_prefix(api_version.as_bytes()).is_some_and(|rest| rest.starts_with(b"\""))
            }
            // Another member comes before it.
            None => serde_json::from_slice::<serde_json::Value>(self.as_slice())
                .is_ok_and(|object| object["apiVersion"] == api_version),
        }
    }

    /// Whether its line announces it so.
    pub(crate) fn is_announced_as(&self, event: super::EventType) -> bool {
        self.line.starts_with(event.head())
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.line[self.object.clone()]
    }

    /// Its metadata.
    pub(crate) fn metadata(&self) -> &[u8] {
        &self.as_slice()[self.metadata.clone()]
    }

    /// Size of the object.
    pub(crate) fn len(&self) -> usize {
        self.object.len()
    }

    /// What it takes in memory at most: its text, and as much again where there is protobuf, which is shorter.
    pub(super) fn cost(&self) -> usize {
        match self.bare_at {
            // Custom resources have no bare form, and no protobuf.
            0 => self.len(),
            _ => 2 * self.len(),
        }
    }

    /// The part of the object that a form has, between its [head](Form::head) and its [tail](Form::tail).
    pub(crate) fn part(&self, form: Form) -> &[u8] {
        let object = self.as_slice();
        match form {
            Form::Object => object,
            Form::Bare => &object[self.bare_at..],
            Form::Metadata => &object[self.metadata.clone()],
        }
    }

    /// Appends the object in a shape.
    pub(crate) fn write(&self, form: Form, out: &mut BytesMut) {
        [form.head(), self.part(form), form.tail()].into_iter().for_each(|part| out.put_slice(part));
    }

    /// As [`write`](Self::write), as if it had another version: an object in the event of its deletion.
    pub(crate) fn write_at(&self, version: u64, form: Form, out: &mut BytesMut) {
        let object = self.as_slice();
        let (start, end) = match form {
            Form::Object => (0, object.len()),
            Form::Bare => (self.bare_at, object.len()),
            Form::Metadata => (self.metadata.start, self.metadata.end),
        };
        out.put_slice(form.head());
        out.put_slice(&object[start..self.version_at.start]);
        out.put_slice(version.to_string().as_bytes());
        out.put_slice(&object[self.version_at.end..end]);
        out.put_slice(form.tail());
    }
}
