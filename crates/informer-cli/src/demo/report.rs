//! The report that the demo prints: a table, or one JSON object.

use std::fmt;

use anstyle::{AnsiColor, Style};
use informer_report::number;
use serde_json::json;

use super::handlers::View;
use crate::format::seconds;
use crate::terminal;

#[derive(Debug)]
pub(crate) struct DemoReport {
    pub(crate) objects: usize,
    pub(crate) config_maps: usize,
    pub(crate) sync_seconds: f64,
    pub(crate) rss_mb: Option<f64>,
    pub(crate) kb_per_object: Option<f64>,
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) changes: u64,
    /// The number of changes a second that the command line requests.
    pub(crate) requested_rate: u32,
    pub(crate) live_seconds: f64,
    pub(crate) events_per_second: f64,
    pub(crate) handlers: Vec<HandlerReport>,
    pub(crate) relists: u64,
    pub(crate) watches: u64,
    pub(crate) reconciles: u64,
    pub(crate) compared: Compared,
    pub(crate) equal: bool,
    pub(crate) differences: Vec<String>,
}

/// The numbers of objects and results that were compared with the server at the end.
#[derive(Debug)]
pub(crate) struct Compared {
    pub(crate) pods: usize,
    pub(crate) config_maps: usize,
    /// The owners of pods, whose usage the reconciler has counted.
    pub(crate) owners: usize,
}

#[derive(Debug)]
pub(crate) struct HandlerReport {
    name: &'static str,
    events: u64,
    p50: u64,
    p99: u64,
    /// The largest number of waiting events in the samples of the run.
    max_waiting: usize,
}

impl HandlerReport {
    pub(crate) fn of(name: &'static str, view: &View, max_waiting: usize) -> Self {
        let (events, p50, p99) = view.read(|seen| {
            let at = |quantile| seen.latency_us.value_at_quantile(quantile);
            (seen.events, at(0.5), at(0.99))
        });
        Self { name, events, p50, p99, max_waiting }
    }
}

impl DemoReport {
    pub(crate) fn to_json(&self) -> String {
        let latency: serde_json::Map<_, _> = self
            .handlers
            .iter()
            .map(|handler| (handler.name.to_owned(), json!({"p50": handler.p50, "p99": handler.p99})))
            .collect();
        json!({
            "objects": self.objects,
            "config_maps": self.config_maps,
            "sync_seconds": self.sync_seconds,
            "rss_mb": self.rss_mb,
            "kb_per_object": self.kb_per_object,
            "cpu_seconds": self.cpu_seconds,
            "changes": self.changes,
            "live_seconds": self.live_seconds,
            "events_per_second": self.events_per_second,
            "latency_us": latency,
            "relists": self.relists,
            "watches": self.watches,
            "reconciles": self.reconciles,
            "equal": self.equal,
            "differences": self.differences,
        })
        .to_string()
    }
}

impl DemoReport {
    /// Returns the names and values of the figures, with their units.
    pub(crate) fn figures(&self) -> Vec<(&'static str, String)> {
        let optional = |value: Option<f64>, unit: &str| {
            value.map_or("-".to_owned(), |value| format!("{value:.1} {unit}"))
        };
        let Self { watches, relists, .. } = self;
        vec![
            (
                "objects at the start",
                format!("{} pods, {} config maps", whole(self.objects), whole(self.config_maps)),
            ),
            ("initial sync", seconds(self.sync_seconds)),
            ("memory per pod", optional(self.kb_per_object, "KB, with indexes and config maps")),
            (
                "peak memory",
                optional(self.rss_mb, "MB resident, of the client process with its initial sync"),
            ),
            ("CPU time", optional(self.cpu_seconds, "s, of the client process")),
            ("changes on the server", self.changes_text()),
            ("events of \"fast\"", format!("{} a second", number(self.events_per_second.round()))),
            ("watches of pods", format!("{watches} (one was cut, and one expired)")),
            ("relists of pods", format!("{relists} (after the watch that expired)")),
            ("reconciles", format!("{} (each counts the pods of one owner)", number(self.reconciles as f64))),
        ]
    }

    /// Returns the number of changes, the time that they took, and their rate.
    fn changes_text(&self) -> String {
        let (changes, rate) = (number(self.changes as f64), number(self.rate()));
        format!("{changes} in {:.1} s, {rate} a second", self.live_seconds)
    }

    /// Returns the changes per second.
    fn rate(&self) -> f64 {
        (self.changes as f64 / self.live_seconds.max(0.1)).round()
    }

    /// Returns a warning if the server or the client was not fast enough for the requested rate.
    pub(crate) fn warning(&self) -> Option<String> {
        let requested = f64::from(self.requested_rate);
        (self.rate() < requested * 0.98).then(|| {
            let (rate, requested) = (number(self.rate()), number(requested));
            format!(
                "the server changed only {rate} of the requested {requested} objects a second, because this \
                 machine is too slow or too busy, so the latencies are not those of the requested rate"
            )
        })
    }

    /// Returns what was compared at the end, and with which result.
    pub(crate) fn verdict(&self) -> String {
        let Compared { pods, config_maps, owners } = &self.compared;
        let what = format!(
            "{} in the cache and in {}, {}, {} of the reconciler",
            things(*pods, "pod"),
            things(self.handlers.len(), "handler"),
            things(*config_maps, "config map"),
            things(*owners, "result"),
        );
        if self.equal {
            format!("equal: the client agrees with the server ({what})")
        } else {
            format!("NOT EQUAL: the client differs from the server (compared: {what})")
        }
    }

    /// Returns for each handler its name, its events, the p50 and p99 of their latencies, and the largest
    /// number of waiting events.
    pub(crate) fn handler_rows(&self) -> Vec<[String; 5]> {
        let time = |microseconds: u64| seconds(microseconds as f64 / 1e6);
        let row = |handler: &HandlerReport| {
            let HandlerReport { name, events, p50, p99, max_waiting } = handler;
            [(*name).to_owned(), number(*events as f64), time(*p50), time(*p99), whole(*max_waiting)]
        };
        self.handlers.iter().map(row).collect()
    }

    #[cfg(test)]
    pub(crate) fn example(differences: Vec<String>) -> Self {
        Self {
            objects: 5,
            config_maps: 2,
            sync_seconds: 0.125,
            rss_mb: Some(100.0),
            kb_per_object: None,
            cpu_seconds: Some(1.0),
            changes: 8_000,
            requested_rate: 2_000,
            live_seconds: 4.0,
            events_per_second: 2_000.0,
            handlers: vec![HandlerReport { name: "slow", events: 7, p50: 80, p99: 900, max_waiting: 400 }],
            relists: 1,
            watches: 3,
            reconciles: 12,
            compared: Compared { pods: 6, config_maps: 2, owners: 1 },
            equal: differences.is_empty(),
            differences,
        }
    }
}

impl fmt::Display for DemoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.figures() {
            writeln!(f, "  {name:<24} {value}")?;
        }
        writeln!(
            f,
            "\n  {:<12} {:>10} {:>12} {:>12} {:>12}",
            "handler", "events", "p50 latency", "p99 latency", "most waiting"
        )?;
        for [name, events, p50, p99, max_waiting] in self.handler_rows() {
            writeln!(f, "  {name:<12} {events:>10} {p50:>12} {p99:>12} {max_waiting:>12}")?;
        }
        let color = if self.equal { AnsiColor::Green } else { AnsiColor::Red };
        let style = terminal::style(Style::new().fg_color(Some(color.into())).bold());
        for line in wrapped_paragraph(&self.verdict()) {
            writeln!(f, "{style}{line}{style:#}")?;
        }
        let yellow = terminal::style(Style::new().fg_color(Some(AnsiColor::Yellow.into())));
        for line in
            self.warning().iter().flat_map(|warning| wrapped_paragraph(&format!("warning: {warning}")))
        {
            writeln!(f, "{yellow}{line}{yellow:#}")?;
        }
        for difference in &self.differences {
            writeln!(f, "  - {difference}")?;
        }
        Ok(())
    }
}

/// Returns an empty line and the text, wrapped at 80 columns.
fn wrapped_paragraph(text: &str) -> Vec<String> {
    let options = textwrap::Options::new(80).initial_indent("  ").subsequent_indent("    ");
    let lines = textwrap::wrap(text, options).into_iter().map(|line| line.into_owned());
    std::iter::once(String::new()).chain(lines).collect()
}

fn whole(value: usize) -> String {
    number(value as f64)
}

/// Returns a number of things, such as `1 pod` and `20,000 pods`.
fn things(value: usize, thing: &str) -> String {
    format!("{} {thing}{}", whole(value), if value == 1 { "" } else { "s" })
}
