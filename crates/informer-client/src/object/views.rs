//! A cache of typed views (decoded objects). A cached view stays in memory after its last user has dropped
//! it, so that an object that is read repeatedly is decoded once.
//!
//! # Invariants
//!
//! 1. The estimated total size of the cached views never exceeds the budget.
//! 2. The oldest views are evicted first. Views in use are moved to the back instead: evicting them would
//!    free nothing and cost a decode later.
//!
//! # Lock order
//!
//! `kept` is the only lock. Evicted views are dropped after it is released, because dropping runs code of the
//! type.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Encoding;
use super::body::BodyRef;

/// The estimated memory of a decoded object per byte of its JSON. A pod with 5.9 KB of JSON takes 26 KB.
const TYPED_PER_JSON: usize = 5;

/// The estimated memory of a decoded object per byte of its protobuf. A pod with 3.5 KB of protobuf takes 26
/// KB.
const TYPED_PER_PROTOBUF: usize = 8;

/// The maximum number of views in use that one insertion moves to the back of the queue. Without this limit,
/// inserting a view would take time linear in the number of cached views.
const MAX_TURNS: usize = 16;

type View = Arc<dyn Any + Send + Sync>;

pub(crate) struct Views {
    budget: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    views: VecDeque<(View, usize)>,
    bytes: usize,
}

impl Views {
    /// Returns a view cache with this budget in bytes; `None` if the budget is 0.
    pub(crate) fn within(budget: usize) -> Option<Arc<Self>> {
        (budget > 0).then(|| Arc::new(Self { budget, kept: Mutex::default() }))
    }

    /// Caches a view and evicts the oldest views. A view that is larger than the budget is not cached.
    pub(crate) fn keep(&self, view: View, body: BodyRef<'_>) {
        let bytes = typed_bytes(&view, body);
        if bytes <= self.budget {
            let forgotten = self.kept.lock().put(view, bytes, self.budget);
            drop(forgotten);
        }
    }
}

fn typed_bytes(view: &View, body: BodyRef<'_>) -> usize {
    let times = match body.encoding() {
        Encoding::Json => TYPED_PER_JSON,
        Encoding::Protobuf => TYPED_PER_PROTOBUF,
    };
    size_of_val(&**view).saturating_add(body.len().saturating_mul(times))
}

impl Kept {
    /// Adds a view to the cache. Returns the evicted views, which the caller drops after releasing the lock.
    fn put(&mut self, view: View, bytes: usize, budget: usize) -> Vec<View> {
        let (mut forgotten, mut turns) = (Vec::new(), 0);
        while self.bytes.saturating_add(bytes) > budget {
            let Some((oldest, its_bytes)) = self.views.pop_front() else { break };
            if Arc::strong_count(&oldest) > 1 && turns < MAX_TURNS {
                turns += 1;
                self.views.push_back((oldest, its_bytes));
            } else {
                self.bytes -= its_bytes;
                forgotten.push(oldest);
            }
        }
        self.bytes += bytes;
        self.views.push_back((view, bytes));
        forgotten
    }
}

impl fmt::Debug for Views {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, bytes) = {
            let kept = self.kept.lock();
            (kept.views.len(), kept.bytes)
        };
        f.debug_struct("Views")
            .field("count", &count)
            .field("bytes", &bytes)
            .field("budget", &self.budget)
            .finish()
    }
}

#[cfg(test)]
mod tests;
