//! The report that the demo prints: a table, or one JSON object.

use std::fmt;

use anstyle::{AnsiColor, Style};
use informer::cache::HandlerRegistration;
use informer::client::Lazy;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::handlers::View;
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
    pub(crate) live_seconds: f64,
    pub(crate) events_per_second: f64,
    pub(crate) handlers: Vec<HandlerReport>,
    pub(crate) relists: u64,
    pub(crate) watches: u64,
    pub(crate) reconciles: u64,
    pub(crate) equal: bool,
    pub(crate) differences: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct HandlerReport {
    name: &'static str,
    events: u64,
    p50: u64,
    p99: u64,
    max_depth: usize,
}

impl HandlerReport {
    pub(crate) fn of(name: &'static str, view: &View, registration: &HandlerRegistration<Lazy<Pod>>) -> Self {
        let (events, p50, p99) = view.read(|seen| {
            let at = |quantile| seen.latency_us.value_at_quantile(quantile);
            (seen.events, at(0.5), at(0.99))
        });
        Self { name, events, p50, p99, max_depth: registration.state().max_depth }
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
        vec![
            ("objects", format!("{} pods, {} config maps", self.objects, self.config_maps)),
            ("time to sync", format!("{:.3} s", self.sync_seconds)),
            ("memory per object", optional(self.kb_per_object, "KB")),
            ("peak memory", optional(self.rss_mb, "MB (this client alone, with the first sync)")),
            ("processor time", optional(self.cpu_seconds, "s (this client alone)")),
            ("changes", self.changes_text()),
            ("events", format!("{:.0} a second", self.events_per_second)),
            ("watches, relists", format!("{}, {} (one watch cut, one expired)", self.watches, self.relists)),
            ("reconciles", self.reconciles.to_string()),
        ]
    }

    /// Returns the number of changes, the time that they took, and their rate. The rate is below the
    /// requested one if the server or the client is not fast enough.
    fn changes_text(&self) -> String {
        let Self { changes, live_seconds, .. } = self;
        let rate = *changes as f64 / live_seconds.max(0.1);
        format!("{changes} in {live_seconds:.1} s, {rate:.0} a second")
    }

    /// Returns for each handler its name, its events, the p50 and p99 of their latencies in microseconds, and
    /// the largest number of waiting events.
    pub(crate) fn handler_rows(&self) -> Vec<[String; 5]> {
        let row = |handler: &HandlerReport| {
            let HandlerReport { name, events, p50, p99, max_depth } = handler;
            [(*name).to_owned(), events.to_string(), p50.to_string(), p99.to_string(), max_depth.to_string()]
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
            live_seconds: 4.0,
            events_per_second: 2_000.0,
            handlers: vec![HandlerReport { name: "slow", events: 7, p50: 80, p99: 900, max_depth: 400 }],
            relists: 1,
            watches: 3,
            reconciles: 12,
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
            "handler", "events", "p50 us", "p99 us", "waited, max"
        )?;
        for [name, events, p50, p99, max_depth] in self.handler_rows() {
            writeln!(f, "  {name:<12} {events:>10} {p50:>12} {p99:>12} {max_depth:>12}")?;
        }
        let (word, color) = if self.equal {
            (
                "equal: cache, handlers and reconciler agree with the server, object by object",
                AnsiColor::Green,
            )
        } else {
            ("NOT EQUAL", AnsiColor::Red)
        };
        let style = terminal::style(Style::new().fg_color(Some(color.into())).bold());
        writeln!(f, "\n  {style}{word}{style:#}")?;
        for difference in &self.differences {
            writeln!(f, "  - {difference}")?;
        }
        Ok(())
    }
}
