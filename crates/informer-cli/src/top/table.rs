//! The rows of the tables.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use informer::runtime::console::{
    ConsoleSnapshot, HandlerSnapshot, InformerSnapshot, QueueSnapshot, ReconcileSnapshot,
};
use ratatui::layout::Constraint;
use ratatui::text::Line;
use tokio::time::Instant;

use super::app::Tab;
use super::health::{Severity, failures};
use super::sample::{Samples, finished};
use crate::failure::plain;
use crate::format::{NONE, bytes, count, optional_seconds, rate, seconds};

/// The widths of columns depend on the texts of this number of rows.
const MEASURED_ROWS: usize = 1_000;

pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) width: Constraint,
    /// The width of the terminal from which the column is shown.
    pub(super) from: u16,
    pub(super) numeric: bool,
}

const fn text(title: &'static str) -> Column {
    share(title, 1)
}

/// Returns a column of text that gets this share of the width that the other columns leave.
const fn share(title: &'static str, share: u16) -> Column {
    Column { title, width: Constraint::Fill(share), from: 0, numeric: false }
}

const fn narrow(title: &'static str, width: u16) -> Column {
    Column { title, width: Constraint::Length(width), from: 0, numeric: false }
}

const fn number(title: &'static str, width: u16) -> Column {
    Column { title, width: Constraint::Length(width), from: 0, numeric: true }
}

const fn wide(column: Column) -> Column {
    Column { from: 100, ..column }
}

const fn wider(column: Column) -> Column {
    Column { from: 120, ..column }
}

pub(super) struct TableCell {
    pub(super) text: String,
    /// The value by which numeric cells are sorted.
    value: f64,
}

impl TableCell {
    fn number(value: u64) -> Self {
        Self { text: count(value), value: value as f64 }
    }

    fn optional(value: Option<u64>) -> Self {
        value.map_or_else(|| Self::of(NONE.to_owned(), -1.0), Self::number)
    }

    fn of(text: String, value: f64) -> Self {
        Self { text, value }
    }

    /// Returns the mean of a number of durations with this sum.
    fn mean(total: f64, number: u64) -> Self {
        let mean = (number > 0).then(|| total / number as f64);
        Self::of(optional_seconds(mean), mean.unwrap_or(-1.0))
    }

    /// Returns the upper bound of a quantile of the durations of a handler's calls.
    fn quantile(handler: &HandlerSnapshot, quantile: f64) -> Self {
        match handler.latency_quantile(quantile) {
            None => Self::of(NONE.to_owned(), -1.0),
            Some(bound) if bound.is_infinite() => Self::of("> 10 s".to_owned(), bound),
            Some(bound) => Self::of(seconds(bound), bound),
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.value.total_cmp(&other.value).then_with(|| self.text.cmp(&other.text))
    }
}

impl From<&str> for TableCell {
    fn from(text: &str) -> Self {
        Self { text: plain(text), value: 0.0 }
    }
}

pub(super) struct TableRow {
    pub(super) cells: Vec<TableCell>,
    pub(super) level: Severity,
    /// A string that identifies the row among those of its table.
    pub(super) id: String,
    /// The key whose history the row opens.
    pub(super) key: Option<String>,
}

impl TableRow {
    fn matches(&self, words: &[String]) -> bool {
        let text = self.cells.iter().map(|cell| cell.text.to_lowercase()).collect::<Vec<_>>().join("\n");
        words.iter().all(|word| text.contains(word))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) column: usize,
    pub(super) descending: bool,
}

const INFORMERS: &[Column] = &[
    text("INFORMER"),
    narrow("PHASE", 12),
    number("OBJECTS", 8),
    number("MEMORY", 10),
    number("EVENTS", 8),
    number("PENDING", 7),
    number("LISTS", 5),
    wide(number("VERSION AGE", 11)),
    wider(number("UNDECODABLE", 11)),
];
const HANDLERS: &[Column] = &[
    text("HANDLER"),
    text("INFORMER"),
    number("PENDING", 7),
    number("CALLS", 8),
    number("P50", 8),
    number("P99", 8),
    number("PANICS", 6),
    wide(number("MEAN", 8)),
    wide(number("BLOCKED", 7)),
];
const QUEUES: &[Column] = &[
    text("QUEUE"),
    number("READY", 7),
    number("OLDEST", 10),
    number("DELAYED", 7),
    number("RUNNING", 7),
    number("LONGEST", 10),
    wide(number("ADDED", 8)),
    number("RETRIES", 7),
    wide(number("MEAN WAIT", 9)),
    wide(number("MEAN WORK", 9)),
];
const CONTROLLERS: &[Column] = &[
    text("CONTROLLER"),
    wider(text("KIND")),
    number("RUNNING", 8),
    number("RATE", 8),
    number("OK", 8),
    number("FAILED", 7),
    number("LAST MINUTE", 15),
    number("FAILING", 7),
    wide(number("REQUEUED", 8)),
    wide(number("PANICS", 6)),
    wider(narrow("PHASE", 14)),
];
const RECONCILES: &[Column] = &[
    number("AGO", 9),
    text("KEY"),
    wide(narrow("CONTROLLER", 18)),
    narrow("RESULT", 8),
    number("TOOK", 8),
    share("CAUSE OR ERROR", 2),
];

pub(super) fn columns(tab: Tab) -> &'static [Column] {
    match tab {
        Tab::Informers => INFORMERS,
        Tab::Handlers => HANDLERS,
        Tab::Queues => QUEUES,
        Tab::Controllers => CONTROLLERS,
        Tab::Reconciles => RECONCILES,
        Tab::Overview | Tab::Key => &[],
    }
}

/// Returns the widths of columns in a terminal of this width. Columns of text share what the others leave, so
/// that short texts are shown in full and the rest is divided by the shares of the columns.
pub(super) fn widths(columns: &[(usize, &Column)], rows: &[TableRow], width: u16) -> Vec<Constraint> {
    let gaps = columns.len().saturating_sub(1) as u16;
    let fixed: u16 = columns.iter().filter_map(|(_, column)| fixed_width(column)).sum();
    let mut rest = width.saturating_sub(gaps + fixed);
    let mut wanted: Vec<(u16, u16, usize)> = Vec::new();
    for (at, (index, column)) in columns.iter().enumerate() {
        let Constraint::Fill(share) = column.width else { continue };
        let texts =
            rows.iter().take(MEASURED_ROWS).map(|row| Line::from(row.cells[*index].text.as_str()).width());
        let longest = texts.chain([column.title.len() + 1]).max().unwrap_or_default();
        wanted.push((u16::try_from(longest).unwrap_or(u16::MAX), share, at));
    }
    // Those that need the least of their share come first, and leave the rest to the others.
    wanted.sort_by(|(a, a_share, _), (b, b_share, _)| {
        (u32::from(*a) * u32::from(*b_share)).cmp(&(u32::from(*b) * u32::from(*a_share)))
    });
    let mut shares: u16 = wanted.iter().map(|(_, share, _)| share).sum();
    let mut widths: Vec<Constraint> = columns.iter().map(|(_, column)| column.width).collect();
    for (longest, share, at) in &wanted {
        let part = u32::from(rest) * u32::from(*share) / u32::from(shares);
        let given = (*longest).min(part as u16);
        widths[*at] = Constraint::Length(given);
        (rest, shares) = (rest - given, shares - share);
    }
    // The last column of text also gets what none of them needs.
    if let Some(last) = wanted.iter().map(|(_, _, at)| *at).max()
        && let Constraint::Length(width) = &mut widths[last]
    {
        *width += rest;
    }
    widths
}

fn fixed_width(column: &Column) -> Option<u16> {
    match column.width {
        Constraint::Length(width) => Some(width),
        _ => None,
    }
}

/// The rows of a table. They are built again only if the data, the filter or the order has changed, and not
/// for each key that the user presses.
#[derive(Default)]
pub(super) struct RowCache {
    input: Option<RowInput>,
    rows: Vec<TableRow>,
    /// The number of rows without the filter.
    pub(super) total: usize,
}

/// The input from which rows are built. The ages of the rows are those at the last change.
#[derive(PartialEq)]
struct RowInput {
    tab: Tab,
    /// The version of the samples.
    version: u64,
    filter: String,
    sort: Option<Sort>,
}

impl RowCache {
    /// Returns the rows of a view; `None` if the last frame has shown another one.
    pub(super) fn of(&self, tab: Tab) -> Option<&[TableRow]> {
        self.input.as_ref().filter(|input| input.tab == tab).map(|_| self.rows.as_slice())
    }

    /// Returns the rows that match the filter, in the order of the sort.
    pub(super) fn update(
        &mut self,
        tab: Tab,
        samples: &Samples,
        filter: &str,
        sort: Option<Sort>,
        now: Instant,
    ) -> &[TableRow] {
        let input = RowInput { tab, version: samples.version, filter: filter.to_owned(), sort };
        if self.input.as_ref() != Some(&input) {
            (self.rows, self.total) = rows(tab, samples, filter, sort, now);
            self.input = Some(input);
        }
        &self.rows
    }
}

/// Returns the rows that match the filter, in the order of the sort, and the number of all rows.
fn rows(
    tab: Tab,
    samples: &Samples,
    filter: &str,
    sort: Option<Sort>,
    now: Instant,
) -> (Vec<TableRow>, usize) {
    let Some(snapshot) = &samples.now else { return (Vec::new(), 0) };
    let mut rows: Vec<TableRow> = match tab {
        Tab::Informers => snapshot.informers.iter().map(|one| informer(one, samples)).collect(),
        Tab::Handlers => snapshot.informers.iter().flat_map(handlers).collect(),
        Tab::Queues => snapshot.queues.iter().map(queue).collect(),
        Tab::Controllers => controllers(snapshot, samples),
        Tab::Reconciles => samples
            .reconciles
            .iter()
            .rev()
            .map(|one| reconcile(&one.reconcile, (now - one.began).as_secs_f64()))
            .collect(),
        Tab::Overview | Tab::Key => Vec::new(),
    };
    let total = rows.len();
    let words: Vec<String> = filter.to_lowercase().split_whitespace().map(str::to_owned).collect();
    if !words.is_empty() {
        rows.retain(|row| row.matches(&words));
    }
    if let Some(Sort { column, descending }) = sort {
        rows.sort_by(|a, b| {
            let order = a.cells[column].compare(&b.cells[column]);
            if descending { order.reverse() } else { order }
        });
    }
    (rows, total)
}

fn informer(one: &InformerSnapshot, samples: &Samples) -> TableRow {
    let events = samples.rate(|all| all.informers.iter().find(|of| of.name == one.name).map(|of| of.events));
    let pending: u64 = one.handlers.iter().map(|handler| handler.depth).sum();
    let age = one.version_age_seconds;
    let level = match () {
        () if one.crash.is_some() || (one.running && !one.synced) => Severity::Bad,
        () if one.failures > 0 || one.undecodable > 0 => Severity::Warn,
        () => Severity::Ok,
    };
    TableRow {
        cells: vec![
            one.name.as_str().into(),
            one.phase.as_str().into(),
            TableCell::number(one.objects),
            TableCell::of(bytes(one.bytes), one.bytes as f64),
            TableCell::of(rate(events), events.unwrap_or(-1.0)),
            TableCell::number(pending),
            TableCell::number(one.relists.values().sum()),
            TableCell::of(optional_seconds(age), age.unwrap_or(-1.0)),
            TableCell::number(one.undecodable),
        ],
        level,
        id: one.name.clone(),
        key: None,
    }
}

fn handlers(informer: &InformerSnapshot) -> impl Iterator<Item = TableRow> + '_ {
    let row = |(number, one): (usize, &HandlerSnapshot)| TableRow {
        cells: vec![
            one.name.as_str().into(),
            informer.name.as_str().into(),
            TableCell::number(one.depth),
            TableCell::number(one.calls),
            TableCell::quantile(one, 0.5),
            TableCell::quantile(one, 0.99),
            TableCell::number(one.panics),
            TableCell::mean(one.seconds_total, one.latency.iter().map(|bucket| bucket.calls).sum()),
            TableCell::number(one.blocked),
        ],
        level: if one.panics > 0 { Severity::Warn } else { Severity::Plain },
        id: format!("{} {number}", informer.name),
        key: None,
    };
    informer.handlers.iter().enumerate().map(row)
}

fn queue(one: &QueueSnapshot) -> TableRow {
    TableRow {
        cells: vec![
            one.name.as_str().into(),
            TableCell::number(one.ready),
            TableCell::of(seconds(one.oldest_seconds), one.oldest_seconds),
            TableCell::number(one.waiting),
            TableCell::number(one.processing),
            TableCell::of(seconds(one.longest_seconds), one.longest_seconds),
            TableCell::number(one.added),
            TableCell::number(one.retries),
            TableCell::mean(one.queued_seconds_total, one.started),
            TableCell::mean(one.worked_seconds_total, one.done),
        ],
        level: if one.order_failed { Severity::Bad } else { Severity::Plain },
        id: one.name.clone(),
        key: None,
    }
}

fn controllers(snapshot: &ConsoleSnapshot, samples: &Samples) -> Vec<TableRow> {
    let row = |one: &informer::runtime::console::ControllerSnapshot| {
        let of = |all: &ConsoleSnapshot| all.controllers.iter().find(|of| of.name == one.name).map(finished);
        let done = samples.rate(of);
        let results = &one.results;
        let recent = samples.failures(&one.name);
        TableRow {
            cells: vec![
                one.name.as_str().into(),
                one.kind.as_str().into(),
                TableCell::of(format!("{}/{}", one.active, one.workers), one.active as f64),
                TableCell::of(rate(done), done.unwrap_or(-1.0)),
                TableCell::number(finished(one) - results.error),
                TableCell::number(results.error),
                TableCell::of(format!("{}{}", count(recent.failed), recent.share()), recent.failed as f64),
                TableCell::optional(one.failing),
                TableCell::number(results.requeue + results.requeue_after),
                TableCell::number(one.panics),
                one.phase.as_str().into(),
            ],
            level: failures(one, samples).map_or(Severity::Plain, |(level, _)| level),
            id: one.name.clone(),
            key: one.running.first().map(|running| running.request.clone()),
        }
    };
    snapshot.controllers.iter().map(row).collect()
}

/// Returns the causes of a reconcile. The event of an object, such as `updated Pod default/web
/// (spec)`, omits the key of the object if that is the reconciled key, which is shown before the causes.
/// Kinds omit their API group, unless the causes contain different kinds with the same name.
pub(super) fn causes(one: &ReconcileSnapshot) -> Vec<String> {
    let kinds: BTreeSet<&str> = one.causes.iter().filter_map(|cause| kind_of(cause)).collect();
    let names: BTreeSet<&str> = kinds.iter().map(|kind| name_of(kind)).collect();
    let short = |cause: &String| {
        let cause = without_key(cause, &one.request);
        match kind_of(&cause) {
            Some(kind) if names.len() == kinds.len() => cause.replacen(kind, name_of(kind), 1),
            _ => cause,
        }
    };
    one.causes.iter().map(short).collect()
}

/// Returns the kind in a cause, such as `Deployment.apps`; `None` if the cause is not an event of an object.
fn kind_of(cause: &str) -> Option<&str> {
    const EVENTS: [&str; 6] = ["listed ", "added ", "updated ", "deleted ", "resync of ", "event of "];
    let rest = EVENTS.iter().find_map(|event| cause.strip_prefix(event))?;
    rest.split(' ').next().filter(|kind| !kind.is_empty())
}

/// Returns the name of a kind without its API group.
fn name_of(kind: &str) -> &str {
    kind.split('.').next().unwrap_or(kind)
}

fn without_key(cause: &str, key: &str) -> String {
    if kind_of(cause).is_none() {
        return cause.to_owned();
    }
    let ends_key = |rest: &str| rest.is_empty() || rest.starts_with(" (");
    let mut places = cause.match_indices(key).filter(|(at, _)| cause[..*at].ends_with(' '));
    match places.find(|(at, _)| ends_key(&cause[at + key.len()..])) {
        Some((at, _)) => format!("{}{}", &cause[..at - 1], &cause[at + key.len()..]),
        None => cause.to_owned(),
    }
}

/// Returns the key, the whole error and the causes of a reconcile, which are shown while its row is selected.
pub(super) fn detail(one: &ReconcileSnapshot) -> String {
    let because = Some(causes(one).join("; ")).filter(|causes| !causes.is_empty());
    let because = because.map(|causes| format!("because {causes}"));
    let parts: Vec<String> = one.error.iter().cloned().chain(because).collect();
    plain(&format!("{}: {}", one.request, parts.join("; ")))
}

/// Returns an error without the key of its row and without the words `the server responded with`.
fn short_error(error: &str, key: &str) -> String {
    error.replacen(&format!(" {key}:"), ":", 1).replacen("the server responded with ", "", 1)
}

fn reconcile(one: &ReconcileSnapshot, ago: f64) -> TableRow {
    let failed = one.result.as_deref() == Some("error");
    let result = match one.result.as_deref() {
        Some("success") => "ok",
        Some("error") => "failed",
        Some("requeue" | "requeue_after") => "requeued",
        Some(other) => other,
        None => "running",
    };
    let cause = match &one.error {
        Some(error) => short_error(error, &one.request),
        None => causes(one).join("; "),
    };
    TableRow {
        cells: vec![
            TableCell::of(seconds(ago), ago),
            one.request.as_str().into(),
            one.controller.as_str().into(),
            result.into(),
            TableCell::of(optional_seconds(one.seconds), one.seconds.unwrap_or(-1.0)),
            if cause.is_empty() { NONE.into() } else { cause.as_str().into() },
        ],
        level: if failed { Severity::Bad } else { Severity::Plain },
        id: one.id.clone(),
        key: Some(one.request.clone()),
    }
}
