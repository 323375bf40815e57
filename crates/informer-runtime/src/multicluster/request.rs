use std::fmt;
use std::sync::Arc;

use informer_core::ObjectKey;

use crate::Request;

/// The name of a cluster, which a program chooses. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Arc<str>);

impl ClusterName {
    /// Returns the name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: AsRef<str> + ?Sized> From<&T> for ClusterName {
    fn from(name: &T) -> Self {
        Self(name.as_ref().into())
    }
}

impl From<String> for ClusterName {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl AsRef<str> for ClusterName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// The key of an object in one of several clusters. It is displayed as `CLUSTER:NAMESPACE/NAME`.
///
/// ```
/// use informer_runtime::multicluster::ClusterRequest;
///
/// let request = ClusterRequest::new("east", "default/web".parse()?);
/// assert_eq!(request.to_string(), "east:default/web");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct ClusterRequest {
    /// The cluster that has the object.
    pub cluster: ClusterName,
    /// The namespace and the name of the object.
    pub key: ObjectKey,
}

impl ClusterRequest {
    /// Creates a request to reconcile an object of a cluster.
    pub fn new(cluster: impl Into<ClusterName>, key: ObjectKey) -> Self {
        Self { cluster: cluster.into(), key }
    }

    /// Returns the request without its cluster.
    pub fn request(&self) -> Request {
        Request::new(self.key.clone())
    }
}

impl fmt::Display for ClusterRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.cluster, self.key.as_str())
    }
}
