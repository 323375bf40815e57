use informer_core::{FieldPath, ObjectKey, ResourceVersion};

use super::Target;

pub(super) const TARGET: Target =
    Target { name: "keys", run, words: &["/", "['", "']", ".", "18446744073709551615"] };

/// Parses keys, field paths and versions. Each must format back to its input and compare correctly.
fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(key) = text.parse::<ObjectKey>() {
        assert_eq!(key.as_str(), text.strip_prefix('/').unwrap_or(text));
        assert_eq!(ObjectKey::new(key.namespace().unwrap_or(""), key.name()).as_ref(), Ok(&key));
    }
    if let Ok(path) = text.parse::<FieldPath>() {
        assert!(path.segments().all(|segment| !segment.is_empty()), "{path:?}");
        assert_eq!(path.as_str().parse::<FieldPath>().as_ref(), Ok(&path));
    }
    let (one, other) = text.split_once('\n').unwrap_or((text, ""));
    check_versions(&ResourceVersion::from(one), &ResourceVersion::from(other));
}

fn check_versions(one: &ResourceVersion, other: &ResourceVersion) {
    assert_eq!(
        one.compare(other),
        other.compare(one).map(std::cmp::Ordering::reverse),
        "{one:?} and {other:?}"
    );
    assert_eq!(ResourceVersion::from(&*one.to_string()), *one);
    if let (Some(a), Some(b)) = (one.as_u64(), other.as_u64()) {
        assert_eq!(one.compare(other), Some(a.cmp(&b)));
    }
}
