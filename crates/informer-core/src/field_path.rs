use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The path of one field in an object: `spec.nodeName`, `metadata.annotations['example.com/role']`.
///
/// Segments of a path are member names, separated by dots. A name that contains dots is written in brackets
/// and quotes. A path cannot index a list, so it always names a single value.
///
/// ```
/// use informer_core::FieldPath;
///
/// let path: FieldPath = "metadata.annotations['example.com/role']".parse()?;
/// assert_eq!(path.segments().collect::<Vec<_>>(), ["metadata", "annotations", "example.com/role"]);
/// # Ok::<(), informer_core::ParseFieldPathError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct FieldPath {
    text: Arc<str>,
    segments: Arc<[Box<str>]>,
}

impl FieldPath {
    /// Returns the member names of the path, outermost first.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = &str> {
        self.segments.iter().map(|segment| &**segment)
    }

    /// Returns the path as it was parsed.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for FieldPath {
    type Err = ParseFieldPathError;

    fn from_str(text: &str) -> Result<Self, ParseFieldPathError> {
        let error = |at, expected| ParseFieldPathError { text: text.to_owned(), at, expected };
        let (mut segments, mut at) = (Vec::new(), 0);
        while at < text.len() || segments.is_empty() {
            let rest = &text[at..];
            let (segment, used) = match rest.strip_prefix("['") {
                Some(quoted) => {
                    let end = quoted.find("']").ok_or_else(|| error(text.len(), "']"))?;
                    (&quoted[..end], end + 4)
                }
                None => {
                    let end = rest.find(['.', '[']).unwrap_or(rest.len());
                    (&rest[..end], end)
                }
            };
            if segment.is_empty() {
                return Err(error(at, "a field name"));
            }
            segments.push(segment.into());
            at += used;
            at += match text[at..].chars().next() {
                None => break,
                Some('.') if at + 1 == text.len() => return Err(error(at + 1, "a field name")),
                Some('.') => 1,
                Some('[') if text[at..].starts_with("['") => 0,
                Some(_) => return Err(error(at, "'.', \"['\" or the end")),
            };
        }
        Ok(Self { text: text.into(), segments: segments.into() })
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The error for a string that is not a field path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field path {text:?}: expected {expected} at offset {at}")]
pub struct ParseFieldPathError {
    text: String,
    at: usize,
    expected: &'static str,
}
