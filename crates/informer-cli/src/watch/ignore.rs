//! Paths of the fields whose changes `informer watch --ignore` does not print.

use super::diff::{Difference, path};

/// The path of an ignored field, in the format in which paths are printed, for example
/// `status.conditions[type=Ready].lastHeartbeatTime`. The path also covers the fields below it. `[*]` stands
/// for any array item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IgnoredPath(Vec<String>);

pub(super) fn parse(text: &str) -> Result<IgnoredPath, String> {
    match segments(text) {
        Some(segments) if !segments.is_empty() => Ok(IgnoredPath(segments)),
        _ => Err("not a path; write it as printed below an update, such as status.conditions[*].message"
            .to_owned()),
    }
}

impl IgnoredPath {
    /// Returns true if the printed path of a change is this path or a path below it.
    pub(super) fn covers(&self, path: &str) -> bool {
        let Some(path) = segments(path) else { return false };
        let matches = |(pattern, segment): (&String, &String)| {
            pattern == segment || pattern == "[*]" && segment.starts_with('[')
        };
        self.0.len() <= path.len() && self.0.iter().zip(&path).all(matches)
    }
}

/// Returns the changes of fields that no ignored path covers.
pub(super) fn without_ignored<'c, 'v>(
    changes: &'c [Difference<'v>],
    ignored: &[IgnoredPath],
) -> Vec<&'c Difference<'v>> {
    let is_ignored = |change: &&Difference<'_>| {
        let path = path(&change.path);
        ignored.iter().any(|ignored| ignored.covers(&path))
    };
    changes.iter().filter(|change| !is_ignored(change)).collect()
}

/// Splits a path into field names and items in brackets. Returns `None` if a bracket is not closed or a name
/// is empty.
fn segments(path: &str) -> Option<Vec<String>> {
    let (mut segments, mut rest) = (Vec::new(), path);
    while !rest.is_empty() {
        let segment = if rest.starts_with('[') {
            &rest[..=rest.find(']')?]
        } else {
            let name = rest.strip_prefix('.').filter(|_| !segments.is_empty()).unwrap_or(rest);
            let end = name.find(['.', '[']).unwrap_or(name.len());
            if end == 0 {
                return None;
            }
            rest = name;
            &name[..end]
        };
        segments.push(segment.to_owned());
        rest = &rest[segment.len()..];
    }
    Some(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_covers_itself_and_the_fields_below() {
        let covers = |pattern: &str, path: &str| parse(pattern).unwrap().covers(path);
        assert!(covers("status", "status.phase") && covers("status.phase", "status.phase"));
        assert!(!covers("status.phase", "status") && !covers("status", "statusCode"));
        let heartbeat = "status.conditions[type=Ready].lastHeartbeatTime";
        assert!(covers("status.conditions[*].lastHeartbeatTime", heartbeat));
        assert!(covers("status.conditions[type=Ready]", heartbeat));
        assert!(!covers("status.conditions[type=Failed]", heartbeat));
        assert!(covers("metadata.annotations[example.com/at]", "metadata.annotations[example.com/at]"));
    }

    #[test]
    fn text_that_is_no_path_is_refused() {
        for invalid in ["", ".", "a..b", "a[b", "."] {
            assert!(parse(invalid).is_err(), "{invalid:?}");
        }
    }
}
