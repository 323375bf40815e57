//! What must run neither within itself nor beside itself: emptying something removes objects, which leads back to it.

use std::collections::HashMap;
use std::thread::{self, ThreadId};

use parking_lot::Mutex;

/// What is settled right now.
#[derive(Debug, Default)]
pub(crate) struct Settling(Mutex<HashMap<String, Turn>>);

#[derive(Debug)]
struct Turn {
    by: ThreadId,
    /// Somebody else wanted the same meanwhile.
    again: bool,
}

impl Settling {
    /// Runs something, unless it runs already. Where another thread runs it, that one runs it once more, since it may have looked
    /// before there was what brought us here.
    pub(crate) fn once(&self, what: &str, run: impl Fn()) {
        if !self.begin(what) {
            return;
        }
        run();
        while self.is_wanted_again(what) {
            run();
        }
    }

    fn begin(&self, what: &str) -> bool {
        let by = thread::current().id();
        let mut turns = self.0.lock();
        if let Some(turn) = turns.get_mut(what) {
            turn.again |= turn.by != by;
            return false;
        }
        turns.insert(what.to_owned(), Turn { by, again: false });
        true
    }

    fn is_wanted_again(&self, what: &str) -> bool {
        let mut turns = self.0.lock();
        let again = turns.get_mut(what).is_some_and(|turn| std::mem::take(&mut turn.again));
        if !again {
            turns.remove(what);
        }
        again
    }
}

#[cfg(test)]
mod tests;
