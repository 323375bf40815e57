use std::fmt;
use std::str::FromStr;

/// Group, version and kind of an object type. The core group is the empty string.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvk {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version, such as `v1`.
    pub version: String,
    /// The kind, such as `Pod`.
    pub kind: String,
}

/// Group, version and resource, which identify a collection in URLs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvr {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version, such as `v1`.
    pub version: String,
    /// The plural resource name, such as `pods`.
    pub resource: String,
}

impl Gvk {
    /// Returns a kind from its parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Returns a kind from the `apiVersion` and `kind` of an object.
    ///
    /// # Errors
    ///
    /// Returns an error if `api_version` is neither `VERSION` nor `GROUP/VERSION`.
    pub fn from_api_version(api_version: &str, kind: &str) -> Result<Self, ParseGvError> {
        let (group, version) = split_api_version(api_version)?;
        Ok(Self::new(group, version, kind))
    }

    /// Returns the `apiVersion` of objects of this kind.
    pub fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }
}

impl Gvr {
    /// Returns a resource from its parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// Returns the `apiVersion` of the objects of this resource.
    pub fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }

    /// Returns the URL path of the collection. Without a namespace, this is the path for all namespaces, or
    /// the path of a cluster-scoped resource.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.resource),
            None => format!("{root}/{}", self.resource),
        }
    }
}

fn join_api_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

fn split_api_version(text: &str) -> Result<(&str, &str), ParseGvError> {
    let (group, version) = text.split_once('/').unwrap_or(("", text));
    if version.is_empty() || version.contains('/') || text.starts_with('/') {
        Err(ParseGvError { text: text.to_owned() })
    } else {
        Ok((group, version))
    }
}

impl fmt::Display for Gvk {
    /// Writes `Kind.version.group`, or `Kind.version` in the core group.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dotted(f, [&self.kind, &self.version, &self.group])
    }
}

impl fmt::Display for Gvr {
    /// Writes `resource.version.group`, or `resource.version` in the core group.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dotted(f, [&self.resource, &self.version, &self.group])
    }
}

fn write_dotted(f: &mut fmt::Formatter<'_>, [name, version, group]: [&String; 3]) -> fmt::Result {
    match group.as_str() {
        "" => write!(f, "{name}.{version}"),
        group => write!(f, "{name}.{version}.{group}"),
    }
}

impl FromStr for Gvr {
    type Err = ParseGvError;

    /// Parses `resource.version.group` or `resource.version`, the format of [`Display`](fmt::Display).
    fn from_str(text: &str) -> Result<Self, ParseGvError> {
        let mut parts = text.splitn(3, '.');
        match (parts.next(), parts.next(), parts.next().unwrap_or_default()) {
            (Some(resource), Some(version), group) if !resource.is_empty() && !version.is_empty() => {
                Ok(Self::new(group, version, resource))
            }
            _ => Err(ParseGvError { text: text.to_owned() }),
        }
    }
}

/// The error for a string that does not contain a group and a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a group and version; write VERSION or GROUP/VERSION, or RESOURCE.VERSION.GROUP for a \
     resource"
)]
pub struct ParseGvError {
    text: String,
}
