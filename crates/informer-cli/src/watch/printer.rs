//! Prints handler events as lines on stdout.
//!
//! # Lock order
//!
//! One lock guards stdout. The lock is held while a line is written, which may block while the program that
//! reads stdout pauses. Only the threads of blocking handlers take the lock.

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use indicatif::ProgressBar;
use informer::Object;
use informer::cache::Event;
use informer::client::ResourceKind;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use super::diff::{Difference, Rendering, path};
use super::ignore::{IgnoredPath, without_ignored};
use super::states::States;
use super::table::{Cell, Lines, Table};
use super::{Text, WatchArguments, WatchOutput};
use crate::failure::{Failure, chain, plain};
use crate::terminal;

pub(super) struct Printer {
    out: Mutex<Out>,
    /// The progress bar to suspend while a line is written, if stdout is the terminal on which the bar is
    /// drawn. `None` if stdout is not a terminal: a program that reads stdout may pause during the write, and
    /// a bar that stays suspended would block messages on stderr.
    bar: Option<ProgressBar>,
    output: WatchOutput,
    show_secrets: bool,
    timestamps: bool,
    ignore: Vec<IgnoredPath>,
    /// True if several kinds are watched; then each printed line contains the kind.
    several_kinds: bool,
    styles: Styles,
}

struct Out {
    stdout: io::Stdout,
    /// Sends the error of the first failed write to [`Closed`]. `None` after a failed write; from then on
    /// nothing is written.
    failed: Option<oneshot::Sender<io::Error>>,
    /// The kind and the names of the columns of the last printed header of a table.
    header: Option<(String, Vec<String>)>,
}

/// A future that completes when writing events to stdout has failed, so that `informer watch` ends.
pub(super) struct Closed(oneshot::Receiver<io::Error>);

/// The colors of the prefixes of printed lines, such as that of an added object. Without a color terminal,
/// the styles have no effect.
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
    /// Waits until writing events to stdout has failed. Returns success for a closed pipe, such as one to
    /// `head`, because a reader may end early. Returns other failures as an error.
    pub(super) async fn wait(self) -> Result<(), Failure> {
        match self.0.await {
            Ok(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Ok(error) => Err(Failure::io("write to the standard output", error)),
            // The printer was dropped together with its informers, so nothing will be written any more.
            Err(_) => Ok(()),
        }
    }
}

impl Printer {
    pub(super) fn new(arguments: &WatchArguments, several_kinds: bool, bar: ProgressBar) -> (Self, Closed) {
        let (failed, closed) = oneshot::channel();
        let printer = Self {
            out: Mutex::new(Out { stdout: io::stdout(), failed: Some(failed), header: None }),
            bar: io::stdout().is_terminal().then_some(bar),
            output: arguments.output,
            show_secrets: arguments.show_secrets,
            timestamps: arguments.timestamps,
            ignore: arguments.ignore.clone(),
            several_kinds,
            styles: Styles::of_terminal(),
        };
        (printer, Closed(closed))
    }

    pub(super) fn print(&self, kind: &ResourceKind, table: &Table, event: &Event<Text>) {
        let mut states = if self.reads_states(event) { States::of(event) } else { States::default() };
        let columns = states.take_columns();
        let all = states.changes();
        let changes = without_ignored(&all, &self.ignore);
        if changes.is_empty() && !all.is_empty() {
            return;
        }
        let call = Call { kind, event, states: &states, changes: &changes };
        let mut lines = None;
        let text = match self.output {
            WatchOutput::Table | WatchOutput::Wide => {
                let lines = lines.insert(call.lines(table, columns));
                self.table_row(event, &lines.row)
            }
            WatchOutput::Diff => self.diff(&call),
            WatchOutput::Json => self.json(&call),
            WatchOutput::Yaml => self.yaml(&call),
            WatchOutput::Name => self.stamped(&name(kind, event)),
        };
        let mut out = self.out.lock();
        if out.failed.is_none() {
            return;
        }
        let header = lines.and_then(|lines| out.header(kind, lines));
        let header = header.map(|header| self.table_header(&header)).unwrap_or_default();
        let mut write = || {
            out.stdout.write_all(header.as_bytes())?;
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
            // Sending the write error fails if nothing waits for it any more. It is then ignored.
            let _ = failed.send(error);
        }
    }

    /// Returns true if the output needs the content of the event's objects, to print or to compare it.
    /// Otherwise the objects are not decoded, which saves time.
    fn reads_states(&self, event: &Event<Text>) -> bool {
        let is_change = matches!(event, Event::Updated { resync: false, .. });
        match self.output {
            WatchOutput::Json | WatchOutput::Yaml | WatchOutput::Table | WatchOutput::Wide => true,
            WatchOutput::Diff => is_change,
            WatchOutput::Name => is_change && !self.ignore.is_empty(),
        }
    }

    /// Returns a line of output. If the option `--timestamps` is set, the line begins with the current time.
    fn stamped(&self, line: &str) -> String {
        if self.timestamps { format!("{} {line}", now()) } else { line.to_owned() }
    }

    fn rendering(&self, kind: &ResourceKind) -> Rendering<'_> {
        Rendering { masked: !self.show_secrets && is_secret(kind), styles: &self.styles }
    }

    fn diff(&self, &Call { kind, event, states, changes }: &Call<'_>) -> String {
        let below = match (event, &states.error) {
            (Event::Updated { resync: false, .. }, Some(error)) => format!("    ({error})\n"),
            (Event::Updated { resync: false, .. }, None) if changes.is_empty() => {
                "    (only resourceVersion or managed fields changed)\n".to_owned()
            }
            _ => self.rendering(kind).lines(changes),
        };
        self.stamped(&self.headline(kind, event)) + &below
    }

    fn headline(&self, kind: &ResourceKind, event: &Event<Text>) -> String {
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
                format!("{updated}~ {what}{updated:#} {dim}@{from} -> @{to}{dim:#}\n")
            }
            Event::Deleted { last, stale } => {
                let note = if *stale { " (last known)" } else { "" };
                format!("{deleted}- {what}{deleted:#} {dim}@{}{note}{dim:#}\n", version(last))
            }
        }
    }

    /// Returns the line of a table for an event. It begins with the sign of the event, as with `-o diff`.
    fn table_row(&self, event: &Event<Text>, row: &str) -> String {
        let Styles { added, updated, deleted, dim } = self.styles;
        let (style, sign) = match event {
            Event::Added { .. } => (added, '+'),
            Event::Updated { resync: true, .. } => (dim, '='),
            Event::Updated { .. } => (updated, '~'),
            Event::Deleted { .. } => (deleted, '-'),
        };
        self.stamped(&format!("{style}{sign}{style:#} {row}\n"))
    }

    /// Returns the header of a table, aligned with its rows.
    fn table_header(&self, names: &str) -> String {
        let stamp = if self.timestamps { " ".repeat(now().len() + 1) } else { String::new() };
        format!("{stamp}  {names}\n")
    }

    fn yaml(&self, &Call { kind, event, states, .. }: &Call<'_>) -> String {
        let object = states.new.as_ref().map(|object| self.rendering(kind).value(&[], object));
        let text = match object.map(|object| serde_norway::to_string(&object)) {
            Some(Ok(text)) => text,
            Some(Err(error)) => format!("# {}\n", plain(&chain(&error))),
            None => format!("# {}\n", states.error.as_deref().unwrap_or_default()),
        };
        format!("---\n# {} {}{text}", now(), self.headline(kind, event))
    }

    fn json(&self, &Call { kind, event, states, changes }: &Call<'_>) -> String {
        let rendering = self.rendering(kind);
        let mut line = EventLine::of(event);
        if self.several_kinds {
            (line.kind, line.group) = (Some(kind.kind()), Some(kind.gvk().group.as_str()));
        }
        line.time = now();
        line.object = states.new.as_ref().map(|object| rendering.value(&[], object));
        if let Event::Updated { .. } = event {
            let change = |change: &&Difference<'_>| FieldChange {
                path: path(&change.path),
                old: change.old.map(|value| rendering.value(&change.path, value)),
                new: change.new.map(|value| rendering.value(&change.path, value)),
            };
            line.changes = Some(changes.iter().map(change).collect());
        }
        format!("{}\n", serde_json::to_string(&line).expect("JSON values can be serialized"))
    }
}

/// An event to print: its kind, its decoded objects and, for an update, the fields that changed.
struct Call<'c> {
    kind: &'c ResourceKind,
    event: &'c Event<Text>,
    states: &'c States,
    /// The fields that an update changed, without those that the option `--ignore` excludes.
    changes: &'c [&'c Difference<'c>],
}

impl Call<'_> {
    fn lines(&self, table: &Table, columns: Option<Vec<Cell>>) -> Lines {
        let (Event::Added { object, .. }
        | Event::Updated { new: object, .. }
        | Event::Deleted { last: object, .. }) = self.event;
        let created = self.states.new.as_ref().and_then(|new| new["metadata"]["creationTimestamp"].as_str());
        table.lines(object, columns, created)
    }
}

impl Out {
    /// Returns the header to print before a row; `None` if the last header has the same columns.
    fn header(&mut self, kind: &ResourceKind, lines: Lines) -> Option<String> {
        let columns = Some((kind.resource(), lines.names));
        if self.header == columns {
            return None;
        }
        self.header = columns;
        Some(lines.header)
    }
}

/// Returns the current time in UTC, to the millisecond.
fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

#[derive(Default, Serialize)]
struct EventLine<'a> {
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
    time: String,
    object: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<FieldChange>>,
}

/// One changed field of an update in the JSON line of an event. The old value of an added field, and the new
/// value of a removed field, are omitted.
#[derive(Serialize)]
struct FieldChange {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<Value>,
}

impl<'a> EventLine<'a> {
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

/// Returns the kind and key of an object for printing, such as `pod/default/web-0` or
/// `deployment.apps/default/web`.
fn name(kind: &ResourceKind, event: &Event<Text>) -> String {
    format!("{}/{}\n", kind_name(kind), plain(event.key().as_str()))
}

/// Returns the name of a kind for printing, such as `pod` or `deployment.apps`.
pub(super) fn kind_name(kind: &ResourceKind) -> String {
    let dot = if kind.gvk().group.is_empty() { "" } else { "." };
    format!("{}{dot}{}", kind.kind().to_lowercase(), kind.gvk().group)
}

pub(super) fn version(object: &Text) -> String {
    plain(&object.resource_version().to_string())
}

pub(super) fn is_secret(kind: &ResourceKind) -> bool {
    kind.gvk().group.is_empty() && kind.kind() == "Secret"
}
