use std::cmp::Ordering;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// The `resourceVersion` of an object, of a list, or of a point in a watch.
///
/// Resource versions are opaque strings. Since Kubernetes 1.35 ([KEP-5504](https://kep.k8s.io/5504)) the
/// versions of one resource are decimal numbers of any length without leading zeros, which may be compared.
/// All other versions can only be compared for equality. Therefore `==` always has a meaning,
/// [`ResourceVersion::compare`] returns `None` if an order is not defined, and there is no `Ord`.
///
/// ```
/// use informer_core::ResourceVersion;
/// use std::cmp::Ordering;
///
/// let old = ResourceVersion::from("9");
/// assert_eq!(old.compare(&ResourceVersion::from("10")), Some(Ordering::Less));
/// assert_eq!(old.compare(&ResourceVersion::from("x9")), None);
/// assert!(ResourceVersion::default().is_empty());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Repr);

/// The representation of a version string. A decimal number without leading zeros that fits into 64 bits is
/// always a `Number`, and any other string is a `Text`. The derived equality relies on this.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Number(u64),
    Text(Box<str>),
}

impl ResourceVersion {
    /// Returns the empty version: "the most recent state, consistently" in a list request.
    pub fn unset() -> Self {
        Self(Repr::Text(Box::default()))
    }

    /// Returns version 0: "any state" in a list request.
    pub fn any() -> Self {
        Self(Repr::Number(0))
    }

    /// Returns true if the server returned no version. Two empty versions do not mean that two states are
    /// equal.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Repr::Text(text) if text.is_empty())
    }

    /// Returns true for version `0`, which in a request means "any state".
    pub fn is_any(&self) -> bool {
        self.0 == Repr::Number(0)
    }

    /// Returns the version as a number, if it is a number that fits into 64 bits.
    pub fn as_u64(&self) -> Option<u64> {
        match self.0 {
            Repr::Number(number) => Some(number),
            Repr::Text(_) => None,
        }
    }

    /// Returns the order of two versions of the same resource; `None` if one of them is not a number.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (&self.0, &other.0) {
            (Repr::Number(a), Repr::Number(b)) => Some(a.cmp(b)),
            (Repr::Number(_), Repr::Text(b)) => is_number(b).then_some(Ordering::Less),
            (Repr::Text(a), Repr::Number(_)) => is_number(a).then_some(Ordering::Greater),
            // Numbers have no leading zeros, so the longer one is the greater one.
            (Repr::Text(a), Repr::Text(b)) => {
                (is_number(a) && is_number(b)).then(|| a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
            }
        }
    }

    /// Returns true if both versions are comparable and this one is older.
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.compare(other) == Some(Ordering::Less)
    }
}

/// Returns true if a resource version can be ordered, as defined in Kubernetes 1.35: it consists of decimal
/// digits without a leading zero. Returns false for `0`, which the callers that parse a version also accept.
fn is_number(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Default for ResourceVersion {
    fn default() -> Self {
        Self::unset()
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        if (is_number(text) || text == "0")
            && let Ok(number) = text.parse()
        {
            return Self(Repr::Number(number));
        }
        Self(Repr::Text(text.into()))
    }
}

impl From<String> for ResourceVersion {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<u64> for ResourceVersion {
    fn from(number: u64) -> Self {
        Self(Repr::Number(number))
    }
}

impl FromStr for ResourceVersion {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::from(text))
    }
}

impl PartialEq<str> for ResourceVersion {
    fn eq(&self, other: &str) -> bool {
        match &self.0 {
            Repr::Number(number) => (is_number(other) || other == "0") && other.parse() == Ok(*number),
            Repr::Text(text) => **text == *other,
        }
    }
}

impl PartialEq<&str> for ResourceVersion {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Number(number) => number.fmt(f),
            Repr::Text(text) => f.pad(text),
        }
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Text(text) if text.is_empty() => f.write_str("(unset)"),
            _ => fmt::Display::fmt(self, f),
        }
    }
}
