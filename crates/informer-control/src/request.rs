use std::fmt;

use informer_core::ObjectKey;
use informer_workqueue::QueueKey;

/// The key of one object to reconcile. A request does not contain the event that enqueued it, because a
/// reconciler acts on the current state of the object and not on changes.
///
/// ```
/// use informer_control::Request;
///
/// let request: Request = "default/web".parse()?;
/// assert_eq!((request.namespace(), request.name()), (Some("default"), "web"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// The namespace and the name of the object to reconcile.
    pub key: ObjectKey,
}

/// A request type of a controller: [`Request`], or a custom type if one key of one kind is not enough. The
/// trait is implemented for all types that can be queued, sent between threads and displayed; logs show the
/// `Display` form.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the request type of a controller",
    label = "a required trait is missing",
    note = "derive the traits of a key, `#[derive(Clone, PartialEq, Eq, Hash)]`, and implement `Display`"
)]
pub trait ReconcileRequest: QueueKey + Sync + fmt::Display {}

impl<R: QueueKey + Sync + fmt::Display> ReconcileRequest for R {}

impl Request {
    /// Creates a request to reconcile an object.
    pub fn new(key: ObjectKey) -> Self {
        Self { key }
    }

    /// Returns the namespace of the object to reconcile; `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.key.namespace()
    }

    /// Returns the name of the object to reconcile.
    pub fn name(&self) -> &str {
        self.key.name()
    }
}

impl From<ObjectKey> for Request {
    fn from(key: ObjectKey) -> Self {
        Self { key }
    }
}

impl From<&ObjectKey> for Request {
    fn from(key: &ObjectKey) -> Self {
        Self { key: key.clone() }
    }
}

impl std::str::FromStr for Request {
    type Err = informer_core::ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self::new)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key.as_str())
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({})", self.key.as_str())
    }
}
