//! Counts the writes of a controller for the console.
//!
//! # Lock order
//!
//! The lock of the counts is never held together with another lock.

use std::fmt;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Operation, OperationVerb};
use crate::ResourceKind;

/// The maximum number of combinations of verb, kind and subresource that are counted separately. A controller
/// writes a few kinds. Writes of further combinations are counted together.
const MAX_WRITE_COUNTS: usize = 64;

/// The writes of one controller. A write takes the lock once, and allocates only for a new combination.
#[derive(Default)]
pub(crate) struct WriteCounts(Mutex<Counts>);

#[derive(Clone, Default)]
struct Counts {
    /// The combinations, in the order in which they were first written.
    counted: Vec<(WriteKey, WriteCount)>,
    other: WriteCount,
}

#[derive(Clone)]
struct WriteKey {
    verb: OperationVerb,
    kind: ResourceKind,
    subresource: Option<String>,
}

#[derive(Clone, Copy, Default)]
struct WriteCount {
    count: u64,
    failed: u64,
}

impl WriteCounts {
    /// Counts a request of a write with the status code of its response; 0 without a response.
    pub(super) fn add(&self, operation: &Operation, code: u16) {
        let mut counts = self.0.lock();
        let found = counts.counted.iter().position(|(key, _)| key.is_of(operation));
        let at = found.or_else(|| {
            let key = (counts.counted.len() < MAX_WRITE_COUNTS).then(|| WriteKey::of(operation))?;
            counts.counted.push((key, WriteCount::default()));
            Some(counts.counted.len() - 1)
        });
        let count = match at {
            Some(at) => &mut counts.counted[at].1,
            None => &mut counts.other,
        };
        count.count += 1;
        count.failed += u64::from(!(200..300).contains(&code));
    }

    /// Returns the counts as JSON. One entry with an empty `resource` has the sum of all combinations beyond
    /// the limit.
    pub(crate) fn page(&self) -> Value {
        let Counts { counted, other } = self.0.lock().clone();
        let mut pages: Vec<Value> = counted.iter().map(|(key, count)| key.page(*count)).collect();
        if other.count > 0 {
            let (count, failed) = (other.count, other.failed);
            pages.push(
                json!({"verb": "other", "resource": "", "subresource": "", "count": count, "failed": failed}),
            );
        }
        pages.into()
    }
}

impl WriteKey {
    fn of(operation: &Operation) -> Self {
        let (kind, subresource) = (operation.kind.clone(), operation.subresource.clone());
        Self { verb: operation.verb, kind, subresource }
    }

    fn is_of(&self, operation: &Operation) -> bool {
        self.verb.as_str() == operation.verb.as_str()
            && self.kind == operation.kind
            && self.subresource == operation.subresource
    }

    fn page(&self, count: WriteCount) -> Value {
        json!({
            "verb": self.verb.kubernetes_name(),
            "resource": resource_name(&self.kind),
            "subresource": self.subresource.as_deref().unwrap_or_default(),
            "count": count.count,
            "failed": count.failed,
        })
    }
}

/// Returns the resource of a kind with its version, such as `deployments.apps/v1`.
pub(crate) fn resource_name(kind: &ResourceKind) -> String {
    format!("{}/{}", kind.resource(), kind.gvk().version)
}

impl fmt::Debug for WriteCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteCounts").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_beyond_the_limit_are_counted_together() {
        let counts = WriteCounts::default();
        let write = |number: usize, code: u16| {
            let kind = ResourceKind::new("example.com", "v1", "Thing", &format!("things{number}"));
            counts.add(&Operation::of(OperationVerb::Apply, &kind), code);
        };
        (0..MAX_WRITE_COUNTS + 2).for_each(|number| write(number, 200));
        write(0, 409);
        write(MAX_WRITE_COUNTS, 0);
        let page = counts.page();
        assert_eq!(page.as_array().map(Vec::len), Some(MAX_WRITE_COUNTS + 1));
        let first = json!({
            "verb": "apply", "resource": "things0.example.com/v1", "subresource": "", "count": 2, "failed": 1,
        });
        assert_eq!(page[0], first);
        assert_eq!(
            (&page[MAX_WRITE_COUNTS]["count"], &page[MAX_WRITE_COUNTS]["failed"]),
            (&json!(3), &json!(1))
        );
    }
}
