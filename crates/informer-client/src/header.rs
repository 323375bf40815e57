//! Reads the header of an object (identity, resourceVersion, labels, and the byte ranges that pruning can
//! remove) from its JSON without serde.
//!
//! The scan walks once over the members of the object and of its `metadata` and records their offsets. All
//! other values are skipped at the speed of [`Structure`](crate::scan::Structure). Of duplicate keys the last
//! one wins, as with serde.

mod build;
mod layout;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

pub(crate) use layout::{Layout, Role};

use crate::scan::{Cursor, ScanError, Text};

/// The result of scanning the JSON of one object. Strings without escapes are borrowed from the JSON.
#[derive(Debug, Default)]
pub(crate) struct RawHeader<'a> {
    pub(crate) api_version: Option<Cow<'a, str>>,
    pub(crate) kind: Option<Cow<'a, str>>,
    /// True if the object has a member `apiVersion` or `kind`, even if its value is null.
    pub(crate) has_type_member: bool,
    pub(crate) metadata: MetadataSpans<'a>,
    /// True once the scan has found a `metadata` member whose value is an object.
    pub(crate) has_metadata: bool,
    pub(crate) layout: Layout,
}

/// Arrays and objects in `metadata` are recorded as byte ranges and parsed only when needed.
#[derive(Debug, Default)]
pub(crate) struct MetadataSpans<'a> {
    pub(crate) name: Option<Cow<'a, str>>,
    pub(crate) namespace: Option<Cow<'a, str>>,
    pub(crate) uid: Option<Cow<'a, str>>,
    pub(crate) version: Option<Cow<'a, str>>,
    pub(crate) generation: Option<i64>,
    pub(crate) deletion_timestamp: Option<Cow<'a, str>>,
    pub(crate) labels: Option<Range<usize>>,
    pub(crate) annotations: Option<Range<usize>>,
    pub(crate) owners: Option<Range<usize>>,
    pub(crate) finalizers: Option<Range<usize>>,
    pub(crate) creation_timestamp: Option<Cow<'a, str>>,
}

/// The error for an object whose header cannot be read.
///
/// The error names the field and the problem. It never contains a value of the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", Field(.field))]
pub struct HeaderError {
    field: &'static str,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    Syntax(ScanError),
    NotUtf8(usize),
    Missing,
    Type(&'static str),
    BadString,
    Key(String),
    DecoderPanicked,
}

struct Field<'a>(&'a str);

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "{}: ", self.0) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => write!(f, "not JSON: {error}"),
            Self::NotUtf8(at) => write!(f, "not UTF-8 at byte {at}"),
            Self::Missing => f.write_str("missing"),
            Self::Type(expected) => write!(f, "is not {expected}"),
            Self::BadString => f.write_str("a string with a broken escape or a control character"),
            Self::Key(problem) => f.write_str(problem),
            Self::DecoderPanicked => f.write_str("the decoder of the type panicked"),
        }
    }
}

impl HeaderError {
    pub(crate) fn new(field: &'static str, problem: Problem) -> Self {
        Self { field, problem }
    }
}

impl From<ScanError> for HeaderError {
    fn from(error: ScanError) -> Self {
        Self::new("", Problem::Syntax(error))
    }
}

impl<'a> RawHeader<'a> {
    /// Returns true if the object contains an `apiVersion` or a `kind`.
    pub(crate) fn has_type(&self) -> bool {
        self.kind.is_some() || self.api_version.is_some()
    }

    /// Returns true if the object contains an `apiVersion` and a `kind` that are not empty.
    pub(crate) fn has_complete_type(&self) -> bool {
        [&self.api_version, &self.kind]
            .into_iter()
            .all(|text| text.as_ref().is_some_and(|text| !text.is_empty()))
    }

    /// Scans the header of an object into `self`. After an error, `self` contains the values read before the
    /// error.
    ///
    /// The cursor must be at the beginning of the object.
    pub(crate) fn scan(&mut self, mut cursor: Cursor<'a>) -> Result<(), HeaderError> {
        if cursor.peek() != Some(b'{') {
            return Err(HeaderError::new("", Problem::Type("an object")));
        }
        cursor.object()?;
        let mut first = true;
        while let Some(key) = cursor.member(&mut first)? {
            if key.is("metadata") {
                self.scan_metadata(&mut cursor)?;
            } else if key.is("apiVersion") {
                self.has_type_member = true;
                self.api_version = string(&mut cursor, "apiVersion")?;
            } else if key.is("kind") {
                self.has_type_member = true;
                self.kind = string(&mut cursor, "kind")?;
            } else {
                cursor.skip()?;
            }
        }
        if self.has_metadata { Ok(()) } else { Err(HeaderError::new("metadata", Problem::Missing)) }
    }

    fn scan_metadata(&mut self, cursor: &mut Cursor<'a>) -> Result<(), HeaderError> {
        // If an object has several `metadata` members, the last one replaces the earlier ones.
        (self.metadata, self.has_metadata) = (MetadataSpans::default(), false);
        if cursor.peek() == Some(b'n') {
            cursor.skip()?;
            return Ok(());
        }
        if cursor.peek() != Some(b'{') {
            return Err(HeaderError::new("metadata", Problem::Type("an object")));
        }
        cursor.object()?;
        self.layout.open(cursor.at());
        let mut first = true;
        while let Some(key) = cursor.member(&mut first)? {
            let role = self.metadata.take(key, cursor)?;
            self.layout.push(role, key.start(), cursor.at());
        }
        self.has_metadata = true;
        Ok(())
    }
}

impl<'a> MetadataSpans<'a> {
    fn take(&mut self, key: Text<'a>, cursor: &mut Cursor<'a>) -> Result<Role, HeaderError> {
        if key.is("name") {
            self.name = string(cursor, "metadata.name")?;
        } else if key.is("namespace") {
            self.namespace = string(cursor, "metadata.namespace")?;
        } else if key.is("uid") {
            self.uid = string(cursor, "metadata.uid")?;
        } else if key.is("resourceVersion") {
            self.version = string(cursor, "metadata.resourceVersion")?;
        } else if key.is("generation") {
            self.generation = integer(cursor, "metadata.generation")?;
        } else if key.is("deletionTimestamp") {
            self.deletion_timestamp = string(cursor, "metadata.deletionTimestamp")?;
        } else if key.is("creationTimestamp") {
            self.creation_timestamp = string(cursor, "metadata.creationTimestamp")?;
        } else if key.is("labels") {
            self.labels = container(cursor, b'{', "metadata.labels", "an object")?;
            return Ok(Role::Labels);
        } else if key.is("annotations") {
            self.annotations = container(cursor, b'{', "metadata.annotations", "an object")?;
            return Ok(Role::Annotations);
        } else if key.is("ownerReferences") {
            self.owners = container(cursor, b'[', "metadata.ownerReferences", "an array")?;
            return Ok(Role::Owners);
        } else if key.is("finalizers") {
            self.finalizers = container(cursor, b'[', "metadata.finalizers", "an array")?;
        } else {
            cursor.skip()?;
            if key.is("managedFields") {
                return Ok(Role::ManagedFields);
            }
        }
        Ok(Role::Own)
    }
}

/// Reads a JSON string; returns `None` for null.
pub(crate) fn string<'a>(
    cursor: &mut Cursor<'a>,
    field: &'static str,
) -> Result<Option<Cow<'a, str>>, HeaderError> {
    match cursor.peek() {
        Some(b'"') => {
            let text = cursor.string()?.decode();
            text.map(Some).map_err(|_| HeaderError::new(field, Problem::BadString))
        }
        Some(b'n') => {
            cursor.skip()?;
            Ok(None)
        }
        Some(b'0'..=b'9' | b'-') => Err(HeaderError::new(field, Problem::Type("a string but a number"))),
        _ => Err(HeaderError::new(field, Problem::Type("a string"))),
    }
}

fn integer(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Option<i64>, HeaderError> {
    let value = cursor.skip()?;
    match cursor.slice(&value) {
        "null" => Ok(None),
        text => match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(HeaderError::new(field, Problem::Type("an integer of 64 bits"))),
        },
    }
}

fn container(
    cursor: &mut Cursor<'_>,
    open: u8,
    field: &'static str,
    expected: &'static str,
) -> Result<Option<Range<usize>>, HeaderError> {
    match cursor.peek() {
        Some(b'n') => {
            cursor.skip()?;
            Ok(None)
        }
        Some(byte) if byte == open => Ok(Some(cursor.skip()?)),
        _ => Err(HeaderError::new(field, Problem::Type(expected))),
    }
}

#[cfg(test)]
mod tests;
