//! Prints handler events as lines on stdout.
//!
//! # Lock order
//!
//! One lock guards the output. It is held while a line is written, which may block until the reader of the
//! output continues. Only the threads of blocking handlers take it.

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use indicatif::ProgressBar;
use informer::Object;
use informer::cache::Event;
use informer::client::ResourceKind;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::oneshot;

use super::diff::{Rendering, differences};
use super::notes::{chain, plain};
use super::{Output, Text, WatchArguments};
use crate::failure::Failure;
use crate::terminal;

/// Prints events, from any thread, line by line.
pub(super) struct Printer {
    out: Mutex<Out>,
    /// The progress bar, if stdout is the same terminal. If stdout is not a terminal, its reader may pause,
    /// and must not block messages on stderr.
    bar: Option<ProgressBar>,
    output: Output,
    show_secrets: bool,
    /// Whether lines include the kind.
    several_kinds: bool,
    styles: Styles,
}

struct Out {
    stdout: io::Stdout,
    /// Receives the error of the first failed write. `None` after that; nothing more is written.
    failed: Option<oneshot::Sender<io::Error>>,
}

/// Completes when stdout can no longer be written.
pub(super) struct Closed(oneshot::Receiver<io::Error>);

/// The colors of the line prefixes; empty if colors are disabled.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Styles {
    pub(super) added: Style,
    pub(super) updated: Style,
    pub(super) deleted: Style,
    dim: Style,
}

impl Styles {
    fn of_terminal() -> Self {
        let colour = |colour: AnsiColor| terminal::style(Style::new().fg_color(Some(colour.into())));
        Self {
            added: colour(AnsiColor::Green),
            updated: colour(AnsiColor::Yellow),
            deleted: colour(AnsiColor::Red),
            dim: terminal::style(Style::new().dimmed()),
        }
    }
}

impl Closed {
    /// Waits until nothing more can be written. A closed pipe, as `head` leaves it, is not an error.
    pub(super) async fn wait(self) -> Result<(), Failure> {
        match self.0.await {
            Ok(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Ok(error) => Err(Failure::io("write to the standard output", error)),
            // The printer and its informers were dropped.
            Err(_) => Ok(()),
        }
    }
}

impl Printer {
    /// Returns a printer, and a future that completes when nothing more can be written.
    pub(super) fn new(arguments: &WatchArguments, several_kinds: bool, bar: ProgressBar) -> (Self, Closed) {
        let (failed, closed) = oneshot::channel();
        let printer = Self {
            out: Mutex::new(Out { stdout: io::stdout(), failed: Some(failed) }),
            bar: io::stdout().is_terminal().then_some(bar),
            output: arguments.output,
            show_secrets: arguments.show_secrets,
            several_kinds,
            styles: Styles::of_terminal(),
        };
        (printer, Closed(closed))
    }

    /// Prints one event, and flushes it.
    pub(super) fn print(&self, kind: &ResourceKind, event: &Event<Text>) {
        let text = match self.output {
            Output::Diff => self.diff(kind, event),
            Output::Json => self.json(kind, event),
            Output::Name => name(kind, event),
        };
        let mut out = self.out.lock();
        if out.failed.is_none() {
            return;
        }
        let mut write = || {
            out.stdout.write_all(text.as_bytes())?;
            out.stdout.flush()
        };
        let written = match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        };
        if let Err(error) = written
            && let Some(failed) = out.failed.take()
        {
            // If the receiver was dropped, nothing waits for the error.
            let _ = failed.send(error);
        }
    }

    fn diff(&self, kind: &ResourceKind, event: &Event<Text>) -> String {
        let Styles { added, updated, deleted, dim } = self.styles;
        let mut what = plain(event.key().as_str());
        if self.several_kinds {
            what = format!("{} {what}", kind.resource());
        }
        match event {
            Event::Added { object, initial } => {
                let note = if *initial { " (initial)" } else { "" };
                format!("{added}+ {what}{added:#} {dim}@{}{note}{dim:#}\n", version(object))
            }
            Event::Updated { new, resync: true, .. } => {
                format!("{dim}= {what} @{} (resync){dim:#}\n", version(new))
            }
            Event::Updated { old, new, .. } => {
                let (from, to) = (version(old), version(new));
                let lines = self.changes(kind, old, new);
                format!("{updated}~ {what}{updated:#} {dim}@{from} -> @{to}{dim:#}\n{lines}")
            }
            Event::Deleted { last, stale } => {
                let note = if *stale { " (last known)" } else { "" };
                format!("{deleted}- {what}{deleted:#} {dim}@{}{note}{dim:#}\n", version(last))
            }
        }
    }

    /// Formats the lines below an update.
    fn changes(&self, kind: &ResourceKind, old: &Text, new: &Text) -> String {
        let (old, new) = match (old.get(), new.get()) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(error), _) | (_, Err(error)) => return format!("    ({})\n", plain(&chain(&error))),
        };
        let differences = differences(&old, &new);
        if differences.is_empty() {
            return "    (nothing but its version or managed fields)\n".to_owned();
        }
        let masked = !self.show_secrets && is_secret(kind);
        Rendering { masked, styles: &self.styles }.lines(&differences)
    }

    fn json(&self, kind: &ResourceKind, event: &Event<Text>) -> String {
        let mut line = Line::of(event);
        if self.several_kinds {
            (line.kind, line.group) = (Some(kind.kind()), Some(kind.gvk().group.as_str()));
        }
        format!("{}\n", serde_json::to_string(&line).expect("plain data is JSON"))
    }
}

/// An event as JSON.
#[derive(Default, Serialize)]
struct Line<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    key: &'a str,
    old_rv: Option<String>,
    new_rv: Option<String>,
    initial: bool,
    tombstone: bool,
    resync: bool,
}

impl<'a> Line<'a> {
    fn of(event: &'a Event<Text>) -> Self {
        let version = |object: &Text| Some(object.resource_version().to_string());
        let line = Self { key: event.key().as_str(), ..Self::default() };
        match event {
            Event::Added { object, initial } => {
                Self { r#type: "add", new_rv: version(object), initial: *initial, ..line }
            }
            Event::Updated { old, new, resync } => {
                Self { r#type: "update", old_rv: version(old), new_rv: version(new), resync: *resync, ..line }
            }
            Event::Deleted { last, stale } => {
                Self { r#type: "delete", old_rv: version(last), tombstone: *stale, ..line }
            }
        }
    }
}

/// `pod/default/web-0`, or `deployment.apps/default/web`.
fn name(kind: &ResourceKind, event: &Event<Text>) -> String {
    let dot = if kind.gvk().group.is_empty() { "" } else { "." };
    format!("{}{dot}{}/{}\n", kind.kind().to_lowercase(), kind.gvk().group, plain(event.key().as_str()))
}

fn version(object: &Text) -> String {
    plain(&object.resource_version().to_string())
}

fn is_secret(kind: &ResourceKind) -> bool {
    kind.gvk().group.is_empty() && kind.kind() == "Secret"
}
