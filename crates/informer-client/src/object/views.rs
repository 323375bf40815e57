//! Typed views that are kept though nobody holds them, so that what is read again and again is decoded once.
//!
//! # Invariants
//!
//! 1. What is kept takes no more than the budget, by an estimate of what each view takes.
//! 2. The oldest go first. Those that somebody holds get another turn: to forget them would free nothing, and
//!    cost a decode later.
//!
//! # Lock order
//!
//! `kept` by itself. What is forgotten is dropped outside of it, since that runs code of the type.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Encoding;
use super::body::BodyRef;

/// What a decoded object takes of memory, in bytes of its JSON: a pod of 5.9 KB takes 26.
const TYPED_PER_JSON: usize = 5;

/// The same in bytes of its protobuf, of which that pod has 3.5 KB.
const TYPED_PER_PROTOBUF: usize = 8;

/// So many views that are held get another turn at one time: more would make a read as slow as there are
/// views.
const MAX_TURNS: usize = 16;

/// A view of some type.
type View = Arc<dyn Any + Send + Sync>;

/// The views of one source.
pub(crate) struct Views {
    budget: usize,
    kept: Mutex<Kept>,
}

/// What is kept, the oldest first.
#[derive(Default)]
struct Kept {
    views: VecDeque<(View, usize)>,
    bytes: usize,
}

impl Views {
    /// Room for so many bytes; `None` where nothing is to be kept.
    pub(crate) fn within(budget: usize) -> Option<Arc<Self>> {
        (budget > 0).then(|| Arc::new(Self { budget, kept: Mutex::default() }))
    }

    /// Keeps the view of a body, in place of the oldest ones. A view that is larger than all the room is not
    /// kept.
    pub(crate) fn keep(&self, view: View, body: BodyRef<'_>) {
        let bytes = typed_bytes(&view, body);
        if bytes <= self.budget {
            let forgotten = self.kept.lock().put(view, bytes, self.budget);
            drop(forgotten);
        }
    }
}

/// What a view takes, about.
fn typed_bytes(view: &View, body: BodyRef<'_>) -> usize {
    let times = match body.encoding() {
        Encoding::Json => TYPED_PER_JSON,
        Encoding::Protobuf => TYPED_PER_PROTOBUF,
    };
    size_of_val(&**view).saturating_add(body.len().saturating_mul(times))
}

impl Kept {
    /// Takes a view in, and hands out those that have no room beside it.
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
