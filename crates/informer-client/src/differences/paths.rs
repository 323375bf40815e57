//! The paths of changed fields as text, without their values.

use std::fmt::{self, Write};
use std::sync::Arc;

use super::node::JsonText;
use super::{Order, PathSegment, Walk};

/// The maximum number of paths that [`ChangedFields`] contains. Further changed fields are only counted.
pub const MAX_CHANGED_FIELDS: usize = 8;

/// The maximum number of segments of a path. Changes in deeper values have the path of the value at this
/// depth.
const MAX_DEPTH: usize = 12;

/// The maximum length of a path in bytes. A longer path ends with `…`.
const MAX_PATH_BYTES: usize = 200;

/// The paths of the fields that differ between two states of an object, such as `spec.replicas`,
/// `spec.template.spec.containers[0].image` or `metadata.labels["app"]`. It never contains the value of a
/// field.
///
/// It contains at most [`MAX_CHANGED_FIELDS`] paths: first those of `spec`, `data` and others, then those of
/// the metadata, and those of the status last. Clones share the paths. `Display` prints the paths and the
/// number of the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedFields {
    paths: Arc<[Box<str>]>,
    omitted: usize,
}

/// Compares two states of an object as JSON text, and returns the paths of the changed fields. Equal subtrees
/// are compared as text and not parsed.
///
/// An array item has the index of the new array, or of the old one if it was removed. Items with a name,
/// such as containers, are compared with the item of the same name. An added or removed object has one path.
/// The resourceVersion, managed fields and the generation are ignored. The result is empty if nothing else
/// differs, or if a text is not a JSON object.
///
/// ```
/// use informer_client::changed_fields;
///
/// let old = r#"{"metadata":{"labels":{"app":"a"}},"spec":{"replicas":1}}"#;
/// let new = r#"{"metadata":{"labels":{"app":"b"}},"spec":{"replicas":2}}"#;
/// assert_eq!(changed_fields(old, new).to_string(), r#"spec.replicas, metadata.labels["app"]"#);
/// ```
pub fn changed_fields(old: &str, new: &str) -> ChangedFields {
    let (mut paths, mut omitted) = (Vec::new(), 0);
    let mut report = |path: &[PathSegment<'_>], _: Option<JsonText<'_>>, _: Option<JsonText<'_>>| {
        if path.is_empty() {
            // One of the texts is not a JSON object.
            return;
        }
        if paths.len() < MAX_CHANGED_FIELDS {
            paths.push(text(path).into_boxed_str());
        } else {
            omitted += 1;
        }
    };
    let mut walk =
        Walk { path: Vec::new(), max_depth: MAX_DEPTH, order: Order::Relevance, report: &mut report };
    walk.values(JsonText::new(old), JsonText::new(new));
    ChangedFields { paths: paths.into(), omitted }
}

impl ChangedFields {
    /// Returns the paths, at most [`MAX_CHANGED_FIELDS`].
    pub fn paths(&self) -> impl ExactSizeIterator<Item = &str> {
        self.paths.iter().map(|path| &**path)
    }

    /// Returns the number of changed fields whose paths are left out.
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    /// Returns true if no changed field is known.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }
}

impl fmt::Display for ChangedFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.paths.join(", "))?;
        match self.omitted {
            0 => Ok(()),
            omitted => write!(f, " and {omitted} more"),
        }
    }
}

/// Formats a path. Keys of labels and annotations, and keys that are not identifiers, are quoted in brackets.
/// Control characters are escaped.
fn text(segments: &[PathSegment<'_>]) -> String {
    let mut path = String::new();
    for (at, segment) in segments.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = match segment {
            PathSegment::Key(key) if is_identifier(key) && !is_label(&segments[..at]) => {
                let dot = if path.is_empty() { "" } else { "." };
                write!(path, "{dot}{key}")
            }
            PathSegment::Key(key) => write!(path, "[{key:?}]"),
            PathSegment::Index(index) | PathSegment::Item { index, .. } => write!(path, "[{index}]"),
        };
        if path.len() > MAX_PATH_BYTES {
            let end = (0..=MAX_PATH_BYTES).rfind(|&end| path.is_char_boundary(end)).unwrap_or_default();
            path.truncate(end);
            path.push('…');
            break;
        }
    }
    path
}

fn is_identifier(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// Returns true if the parent of a member are labels, annotations or the labels of a selector.
fn is_label(parents: &[PathSegment<'_>]) -> bool {
    parents.last().is_some_and(|parent| {
        matches!(parent.key(), Some("labels" | "annotations" | "matchLabels" | "nodeSelector"))
    })
}
