use std::borrow::Borrow;
use std::cmp::Ordering;
use std::error::Error;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

/// Namespace and name of an object, which identify it in a cache.
///
/// The string form of a key is `namespace/name`, or `name` for a cluster-scoped object, as [client-go writes
/// it](https://pkg.go.dev/k8s.io/client-go/tools/cache#MetaNamespaceKeyFunc). A clone shares the string and
/// allocates nothing. Keys compare, hash and sort like their strings, so a map of keys can be looked up with
/// a `&str`.
///
/// ```
/// use informer_core::ObjectKey;
/// use std::collections::HashMap;
///
/// let key = ObjectKey::new("default", "web-0")?;
/// assert_eq!(key.to_string(), "default/web-0");
/// let map = HashMap::from([(key, 1)]);
/// assert_eq!(map.get("default/web-0"), Some(&1));
/// # Ok::<(), informer_core::ParseKeyError>(())
/// ```
#[derive(Clone)]
pub struct ObjectKey {
    text: Arc<str>,
    /// The length of the namespace in bytes; 0 if there is none.
    namespace_len: u32,
}

impl ObjectKey {
    /// Returns the key of `name` in `namespace`. If the namespace is empty, the key is cluster-scoped.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is empty, if the name or the namespace contains a slash, or if the key
    /// would exceed 4 GiB.
    pub fn new(namespace: &str, name: &str) -> Result<Self, ParseKeyError> {
        if name.is_empty() {
            return Err(ParseKeyError::new(format!("{namespace}/"), KeyProblem::NoName));
        }
        if namespace.contains('/') || name.contains('/') {
            return Err(ParseKeyError::new(format!("{namespace}/{name}"), KeyProblem::ManySlashes));
        }
        if namespace.is_empty() {
            return Ok(Self { text: name.into(), namespace_len: 0 });
        }
        let text: Arc<str> = [namespace, "/", name].concat().into();
        match u32::try_from(namespace.len()) {
            Ok(namespace_len) => Ok(Self { text, namespace_len }),
            Err(_) => Err(ParseKeyError::new("(a key of over 4 GiB)".to_owned(), KeyProblem::TooLong)),
        }
    }

    /// Returns the key of a cluster-scoped object.
    ///
    /// # Errors
    ///
    /// The same errors as [`ObjectKey::new`].
    pub fn cluster(name: &str) -> Result<Self, ParseKeyError> {
        Self::new("", name)
    }

    /// Returns a key that is exactly `text`, which may contain slashes, for sources other than Kubernetes.
    /// The key has no namespace, and its name is the whole string.
    pub fn explicit(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), namespace_len: 0 }
    }

    /// Returns the namespace; `None` for cluster-scoped objects and explicit keys.
    pub fn namespace(&self) -> Option<&str> {
        (self.namespace_len > 0).then(|| &self.text[..self.namespace_len as usize])
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        match self.namespace_len {
            0 => &self.text,
            length => &self.text[length as usize + 1..],
        }
    }

    /// Returns the string form of the key, `namespace/name` or `name`.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for ObjectKey {
    type Err = ParseKeyError;

    /// Parses a key of the form `namespace/name` or `name`. A leading slash (`/name`) is accepted and
    /// dropped, as in client-go.
    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        match name.contains('/') {
            true => Err(ParseKeyError::new(text.to_owned(), KeyProblem::ManySlashes)),
            false if name.is_empty() => Err(ParseKeyError::new(text.to_owned(), KeyProblem::NoName)),
            false => Self::new(namespace, name),
        }
    }
}

impl TryFrom<&str> for ObjectKey {
    type Error = ParseKeyError;

    fn try_from(text: &str) -> Result<Self, ParseKeyError> {
        text.parse()
    }
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        // Fast path: the copies of a key in caches and queues usually share one allocation, so that equal
        // keys are recognized without comparing their strings.
        Arc::ptr_eq(&self.text, &other.text) || self.text == other.text
    }
}

impl Eq for ObjectKey {}

impl PartialEq<str> for ObjectKey {
    fn eq(&self, other: &str) -> bool {
        &*self.text == other
    }
}

impl PartialEq<&str> for ObjectKey {
    fn eq(&self, other: &&str) -> bool {
        &*self.text == *other
    }
}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The hash must equal that of the `str`, because keys implement `Borrow<str>`.
        self.text.hash(state);
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl AsRef<str> for ObjectKey {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The error for a string that is not an object key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an object key: {problem}; write NAMESPACE/NAME or NAME")]
pub struct ParseKeyError {
    text: String,
    problem: KeyProblem,
}

impl ParseKeyError {
    fn new(text: String, problem: KeyProblem) -> Self {
        Self { text, problem }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum KeyProblem {
    NoName,
    ManySlashes,
    TooLong,
}

impl fmt::Display for KeyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoName => "the name is empty",
            Self::ManySlashes => "it has more than one slash",
            Self::TooLong => "it is too long",
        })
    }
}

/// The error for an object without a key. The error describes the object, but never contains its content.
///
/// A [key function](https://pkg.go.dev/k8s.io/client-go/tools/cache#KeyFunc) returns this error when it
/// fails.
#[derive(Debug, thiserror::Error)]
#[error("no key for {object}")]
pub struct KeyError {
    object: String,
    #[source]
    cause: Box<dyn Error + Send + Sync>,
}

impl KeyError {
    /// Creates the error for one object. `object` describes the object and is written to logs.
    pub fn new(object: impl Into<String>, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { object: object.into(), cause: cause.into() }
    }

    /// Returns the description of the object.
    pub fn object(&self) -> &str {
        &self.object
    }
}
