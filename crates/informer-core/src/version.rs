use std::cmp::Ordering;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// The version of an object, of a list, or of a point in a watch.
///
/// Servers hand versions out as opaque text. Since Kubernetes 1.35 ([KEP-5504](https://kep.k8s.io/5504)) those of
/// one resource are decimal numbers of any length without leading zeros, which may be compared; everything else is
/// compared for equality only. So `==` is always meaningful, and [`ResourceVersion::compare`] answers `None` where
/// an order is not defined. There is no `Ord`.
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
pub struct ResourceVersion(Form);

/// One form for each text: a canonical number that fits is always `Number`, so derived equality holds.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    Number(u64),
    Text(Box<str>),
}

impl ResourceVersion {
    /// No version: "the newest state, consistently" in a list request.
    pub fn unset() -> Self {
        Self(Form::Text(Box::default()))
    }

    /// Version 0: "any state you have" in a list request.
    pub fn any() -> Self {
        Self(Form::Number(0))
    }

    /// True where the server gave no version. Empty versions never count as equal states.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Text(text) if text.is_empty())
    }

    /// True for `0`, which as a request means "any".
    pub fn is_any(&self) -> bool {
        self.0 == Form::Number(0)
    }

    /// The number, where the version is one and fits into 64 bits.
    pub fn as_u64(&self) -> Option<u64> {
        match self.0 {
            Form::Number(number) => Some(number),
            Form::Text(_) => None,
        }
    }

    /// The order of two versions of the same resource; `None` where either is not a number.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (&self.0, &other.0) {
            (Form::Number(a), Form::Number(b)) => Some(a.cmp(b)),
            (Form::Number(_), Form::Text(b)) => is_number(b).then_some(Ordering::Less),
            (Form::Text(a), Form::Number(_)) => is_number(a).then_some(Ordering::Greater),
            // Without leading zeros the longer number is the greater one.
            (Form::Text(a), Form::Text(b)) => {
                (is_number(a) && is_number(b)).then(|| a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
            }
        }
    }

    /// True where both are comparable and this one is the older.
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.compare(other) == Some(Ordering::Less)
    }
}

/// A number of Kubernetes 1.35: digits without a leading zero. Zero itself only occurs as [`Form::Number`].
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
            return Self(Form::Number(number));
        }
        Self(Form::Text(text.into()))
    }
}

impl From<String> for ResourceVersion {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<u64> for ResourceVersion {
    fn from(number: u64) -> Self {
        Self(Form::Number(number))
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
            Form::Number(number) => (is_number(other) || other == "0") && other.parse() == Ok(*number),
            Form::Text(text) => **text == *other,
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
            Form::Number(number) => number.fmt(f),
            Form::Text(text) => f.pad(text),
        }
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Text(text) if text.is_empty() => f.write_str("(unset)"),
            _ => fmt::Display::fmt(self, f),
        }
    }
}
