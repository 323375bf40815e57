use std::borrow::Cow;
use std::fmt;

use informer_core::{FieldPath, Header, Object, ObjectKey, ResourceVersion};

/// A small object: a header, and a text for a body.
#[derive(Clone, PartialEq, Eq)]
pub struct TestObject {
    header: Header,
    text: Box<str>,
}

/// An object from its key (`namespace/name` or `name`) and version. Its uid follows from the key, so that two
/// states of one key are states of one object.
///
/// # Panics
///
/// When `key` is not a key.
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
    /// The same object with this body.
    pub fn with_text(mut self, text: impl Into<Box<str>>) -> Self {
        self.text = text.into();
        self
    }

    /// The same object with this uid: what is created again under one name.
    pub fn with_uid(mut self, uid: impl Into<Box<str>>) -> Self {
        self.header = self.header.with_uid(uid);
        self
    }

    /// The same object with these labels.
    pub fn with_labels<K: AsRef<str>, V: AsRef<str>>(
        mut self,
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.header = self.header.with_labels(labels);
        self
    }

    /// The body.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Object for TestObject {
    fn header(&self) -> &Header {
        &self.header
    }

    /// The fields of the header, and `text`.
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
