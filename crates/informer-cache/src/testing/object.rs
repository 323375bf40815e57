use std::borrow::Cow;
use std::fmt;

use informer_core::{FieldPath, Header, Object, ObjectKey, ResourceVersion};

/// A small object for tests of code that uses informers: a header, and a string as body.
#[derive(Clone, PartialEq, Eq)]
pub struct TestObject {
    header: Header,
    text: Box<str>,
}

/// Returns an object with this key (`namespace/name` or `name`) and version. The uid is derived from the key,
/// so two values with the same key are states of the same object.
///
/// # Panics
///
/// Panics if `key` is invalid.
#[track_caller]
pub fn object(key: &str, version: impl Into<ResourceVersion>) -> TestObject {
    let parsed: ObjectKey = match key.parse() {
        Ok(parsed) => parsed,
        Err(error) => panic!("a test object needs a key: {error}"),
    };
    let header = Header::new(parsed).with_uid(format!("uid of {key}")).with_version(version);
    TestObject { header, text: Box::default() }
}

impl TestObject {
    /// Sets the string that is the body of the object.
    pub fn with_text(mut self, text: impl Into<Box<str>>) -> Self {
        self.text = text.into();
        self
    }

    /// Sets the uid of the object, for example for an object that is re-created with the same name.
    pub fn with_uid(mut self, uid: impl Into<Box<str>>) -> Self {
        self.header = self.header.with_uid(uid);
        self
    }

    /// Sets the labels of the object.
    pub fn with_labels<K: AsRef<str>, V: AsRef<str>>(
        mut self,
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.header = self.header.with_labels(labels);
        self
    }

    /// Returns the string that is the body of the object.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Object for TestObject {
    fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the field at a path, which is a field of the header or `text`.
    fn field(&self, path: &FieldPath) -> Option<Cow<'_, str>> {
        match path.as_str() {
            "text" => Some((&*self.text).into()),
            _ => self.header.field(path),
        }
    }

    fn held_bytes(&self) -> usize {
        self.header.held_bytes() + self.text.len()
    }
}

impl fmt::Debug for TestObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} @{}", self.key(), self.resource_version())
    }
}
