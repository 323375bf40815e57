use std::fmt;

use informer_core::ObjectKey;
use informer_workqueue::QueueKey;

/// What a reconciler is asked to look at: one object, by its key. It says nothing of what happened, since the reconciler acts
/// upon what is, not upon what was.
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
    /// Namespace and name of the object.
    pub key: ObjectKey,
}

/// Anything that a controller can be asked to look at: [`Request`], or a type of one's own, where one key of one kind does not
/// say enough. Implemented for all types that can be queued, shared and shown; what is shown stands in logs.
pub trait ReconcileRequest: QueueKey + Sync + fmt::Display {}

impl<R: QueueKey + Sync + fmt::Display> ReconcileRequest for R {}

impl Request {
    /// A request for an object.
    pub fn new(key: ObjectKey) -> Self {
        Self { key }
    }

    /// The namespace; `None` for cluster-scoped objects.
    pub fn namespace(&self) -> Option<&str> {
        self.key.namespace()
    }

    /// The name.
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
