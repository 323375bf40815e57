//! A stored object at one resourceVersion: its encoding, and the fields that the server reads from it.

use std::ops::Range;
use std::sync::OnceLock;

use bytes::{BufMut, Bytes, BytesMut};
use informer_core::{Labels, ObjectKey};

use super::wire::Wire;

/// A stored object with its encoding. It is immutable, so lists, events and gets share its bytes.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) key: ObjectKey,
    pub(crate) version: u64,
    pub(crate) uid: Box<str>,
    /// The object has a `deletionTimestamp`.
    pub(crate) terminating: bool,
    pub(crate) labels: Labels,
    pub(crate) owners: Box<[Box<str>]>,
    /// The values of the fields that field selectors support, in the order in which the kind declares them.
    pub(crate) fields: Box<[Box<str>]>,
    /// The JSON line of the commit's watch event (ADDED or MODIFIED), with its newline.
    pub(super) line: Bytes,
    /// The range of the object within `line`.
    pub(super) object: Range<usize>,
    /// The ranges of the resourceVersion's digits and of the value of `metadata` within the object.
    pub(super) version_at: Range<usize>,
    pub(super) metadata: Range<usize>,
    /// The offset after `kind` and `apiVersion` within the object, for list items that omit both.
    pub(super) bare_at: usize,
    /// The object as it was written, if reads return it with other fields: a custom resource whose schema has
    /// defaults for missing fields, or no longer contains a field.
    pub(super) written: Option<Box<[u8]>>,
    /// The protobuf encoding, created when a client first requests it.
    pub(super) wire: OnceLock<Option<Wire>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectForm {
    Object,
    /// The object without `kind` and `apiVersion`, as in the items of a list of a built-in kind.
    Bare,
    /// Only the metadata of the object, as `PartialObjectMetadata`.
    Metadata,
}

impl ObjectForm {
    /// Returns the bytes before the part of the object that this form contains.
    pub(crate) fn head(self) -> &'static [u8] {
        match self {
            Self::Object => b"",
            Self::Bare => b"{",
            Self::Metadata => METADATA_HEAD,
        }
    }

    /// Returns the bytes after the part of the object that this form contains.
    pub(crate) fn tail(self) -> &'static [u8] {
        match self {
            Self::Object | Self::Bare => b"",
            Self::Metadata => b"}",
        }
    }
}

const METADATA_HEAD: &[u8] = br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#;

impl Stored {
    pub(crate) fn bytes(&self) -> Bytes {
        self.line.slice(self.object.clone())
    }

    /// Returns true if a custom resource is stored in this API version. The members of custom resources are
    /// sorted by name, so `apiVersion` is the first.
    pub(crate) fn is_in(&self, api_version: &str) -> bool {
        const NAME: &[u8] = br#"{"apiVersion":""#;
        match self.as_slice().strip_prefix(NAME) {
            Some(rest) => {
                rest.strip_prefix(api_version.as_bytes()).is_some_and(|rest| rest.starts_with(b"\""))
            }
            // The first member is not `apiVersion`, so the whole object is parsed.
            None => serde_json::from_slice::<serde_json::Value>(self.as_slice())
                .is_ok_and(|object| object["apiVersion"] == api_version),
        }
    }

    /// Returns true if the watch event of the object's commit has this type.
    pub(crate) fn is_announced_as(&self, event: super::EventType) -> bool {
        self.line.starts_with(event.head())
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.line[self.object.clone()]
    }

    /// Returns the object as it was written, if reads return it with other fields.
    pub(crate) fn written(&self) -> Option<&[u8]> {
        self.written.as_deref()
    }

    pub(crate) fn metadata(&self) -> &[u8] {
        &self.as_slice()[self.metadata.clone()]
    }

    /// Returns the size of the object as JSON.
    pub(crate) fn len(&self) -> usize {
        self.object.len()
    }

    /// Returns an upper bound of the object's size in memory: the JSON, and the same size again for the
    /// protobuf encoding, which is smaller.
    pub(super) fn cost(&self) -> usize {
        match self.bare_at {
            // A `bare_at` of 0 means a custom resource, which has no protobuf encoding.
            0 => self.len(),
            _ => 2 * self.len(),
        }
    }

    /// Returns the part of the object that this form contains between [`head`](Form::head) and
    /// [`tail`](Form::tail).
    pub(crate) fn part(&self, form: ObjectForm) -> &[u8] {
        let object = self.as_slice();
        match form {
            ObjectForm::Object => object,
            ObjectForm::Bare => &object[self.bare_at..],
            ObjectForm::Metadata => &object[self.metadata.clone()],
        }
    }

    pub(crate) fn write(&self, form: ObjectForm, out: &mut BytesMut) {
        [form.head(), self.part(form), form.tail()].into_iter().for_each(|part| out.put_slice(part));
    }

    /// Appends the object like [`write`](Self::write), but with another resourceVersion, as for its DELETED
    /// event.
    pub(crate) fn write_at(&self, version: u64, form: ObjectForm, out: &mut BytesMut) {
        let object = self.as_slice();
        let (start, end) = match form {
            ObjectForm::Object => (0, object.len()),
            ObjectForm::Bare => (self.bare_at, object.len()),
            ObjectForm::Metadata => (self.metadata.start, self.metadata.end),
        };
        out.put_slice(form.head());
        out.put_slice(&object[start..self.version_at.start]);
        out.put_slice(version.to_string().as_bytes());
        out.put_slice(&object[self.version_at.end..end]);
        out.put_slice(form.tail());
    }
}
