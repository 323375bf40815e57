//! The trace: the log of a run, whose lines have simulated times.

use std::fmt::Display;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The lines of the log, with the simulated time at which each was written. A clone writes to the same trace.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    begin: Instant,
    lines: Arc<Mutex<Vec<String>>>,
    /// True if each line is printed as soon as it is written, so that the log of a run that never ends is
    /// visible.
    prints: bool,
}

impl Trace {
    /// Creates an empty trace whose time begins now. Must be called within a tokio runtime.
    pub(crate) fn new(prints: bool) -> Self {
        Self { begin: Instant::now(), lines: Arc::default(), prints }
    }

    pub(crate) fn line(&self, text: impl Display) {
        let at = self.begin.elapsed().as_secs_f64();
        let line = format!("{at:10.3}  {text}");
        if self.prints {
            println!("{line}");
        }
        self.lines.lock().push(line);
    }

    pub(crate) fn elapsed(&self) -> std::time::Duration {
        self.begin.elapsed()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }
}
