//! Messages on stderr: progress, failures and recoveries. Repeated failures with the same message are
//! reported once.
//!
//! # Lock order
//!
//! One lock guards the record of reported failures. The lock is held while a line is written, so that lines
//! stay in order.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use informer::cache::InformerState;
use informer::cache::reflector::ReflectorPhase;
use informer::source::{SourceError, SourceErrorKind};
use parking_lot::Mutex;

use crate::failure::{chain, plain};

/// The maximum number of different failures that are reported in one outage. Without a limit, a server whose
/// responses all have different messages would flood stderr.
const MAX_FAILURES: usize = 8;

/// Writes the messages of `informer watch` to stderr. Clones share the record of reported failures.
#[derive(Clone)]
pub(super) struct Notes {
    reported: Arc<Mutex<ReportedState>>,
    bar: ProgressBar,
    /// False if the messages are shown on a screen, which reads them with [`last`](Self::last).
    prints: bool,
}

#[derive(Default)]
struct ReportedState {
    /// The failures that were reported since the last success of each operation, by the name of the
    /// operation.
    outages: BTreeMap<String, Outage>,
    progress: BTreeMap<String, String>,
    last: Option<String>,
}

#[derive(Default)]
struct Outage {
    told: BTreeSet<String>,
    /// True if one of the failures is an error; its recovery is then also reported. False if all of them are
    /// a normal part of watching, such as an expired watch.
    wrong: bool,
}

impl Notes {
    pub(super) fn new() -> Self {
        // The progress bar is drawn on stderr, and only if stderr is a terminal.
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {elapsed:>4} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { reported: Arc::default(), bar, prints: true }
    }

    /// Returns notes that print nothing, because a screen shows the last message.
    pub(super) fn for_screen() -> Self {
        Self { reported: Arc::default(), bar: ProgressBar::hidden(), prints: false }
    }

    /// Returns the last message, without progress.
    pub(super) fn last(&self) -> Option<String> {
        self.reported.lock().last.clone()
    }

    /// Returns the progress bar on stderr. Code that writes lines to the same terminal must suspend the bar
    /// meanwhile, because the bar would overwrite them.
    pub(super) fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// Reports that a list, a watch or discovery failed and will be retried.
    pub(super) fn failed(&self, what: &str, error: &SourceError) {
        let text = chain(error);
        let mut reported = self.reported.lock();
        let outage = reported.outages.entry(what.to_owned()).or_default();
        let list = match error.kind() {
            SourceErrorKind::Expired => Some("listing again"),
            SourceErrorKind::EncodingChanged => Some("listing again as JSON"),
            _ => None,
        };
        outage.wrong |= list.is_none();
        if outage.told.len() < MAX_FAILURES && outage.told.insert(text.clone()) {
            self.report(&mut reported, format!("{what}: {text}; {}", list.unwrap_or("trying again")));
        }
    }

    /// Reports that an operation has succeeded again, if one of its failures since the last success was an
    /// error.
    pub(super) fn recovered(&self, what: &str) {
        let mut reported = self.reported.lock();
        if reported.outages.remove(what).is_some_and(|outage| outage.wrong) {
            self.report(&mut reported, format!("{what}: the server responds again"));
        }
    }

    pub(super) fn synced(&self, resource: &str, objects: usize) {
        let mut reported = self.reported.lock();
        reported.progress.insert(resource.to_owned(), "synced".to_owned());
        let plural = if objects == 1 { "" } else { "s" };
        self.report(&mut reported, format!("{resource}: synced, {objects} object{plural}"));
    }

    pub(super) fn progress(&self, resource: &str, state: &InformerState) {
        let reflector = &state.reflector;
        let far = match reflector.phase {
            ReflectorPhase::Listing => format!("listing, page {}", reflector.list_requests),
            ReflectorPhase::StreamingList => format!("listing, {} objects", reflector.events.added),
            ReflectorPhase::BackingOff => "waiting before the next attempt".to_owned(),
            _ => "connecting".to_owned(),
        };
        let mut reported = self.reported.lock();
        reported.progress.insert(resource.to_owned(), far);
        let parts: Vec<String> =
            reported.progress.iter().map(|(what, far)| format!("{what}: {far}")).collect();
        self.bar.set_message(plain(&parts.join("; ")));
    }

    pub(super) fn progress_done(&self) {
        if !self.bar.is_finished() {
            self.bar.finish_and_clear();
        }
    }

    fn report(&self, reported: &mut ReportedState, text: String) {
        if !self.prints {
            reported.last = Some(text);
            return;
        }
        // Writing fails if stderr is closed. The error is ignored, because the events on stdout are still
        // useful.
        self.bar.suspend(|| drop(writeln!(io::stderr().lock(), "{}", plain(&text))));
    }
}
