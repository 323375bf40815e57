//! Problems that the data shows, most severe first. The rules are those of the page of the console.

use informer::runtime::console::{ConsoleSnapshot, InformerSnapshot};

use super::sample::Samples;
use crate::format::{count, plural, seconds};

/// A reconcile that runs longer than this many seconds is shown as a problem.
const LONG_RECONCILE: f64 = 60.0;
/// A handler with more pending events than this is shown as a problem.
const DEEP_HANDLER: u64 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    Bad,
    Warn,
    Ok,
    Plain,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) level: Severity,
    pub(super) subject: String,
    pub(super) text: String,
}

pub(super) fn problems(snapshot: &ConsoleSnapshot, samples: &Samples) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut add = |level, subject: String, text| found.push(Problem { level, subject, text });
    for one in &snapshot.informers {
        of_informer(one, |level, text| add(level, format!("informer {}", one.name), text));
    }
    for one in &snapshot.controllers {
        let subject = || format!("controller {}", one.name);
        if let Some((failed, last)) = samples.failures(&one.name) {
            let failed = plural(failed as usize, "failed reconcile");
            let text = format!("had {failed} in the last minute; the last error: {last}");
            add(Severity::Bad, subject(), text);
        }
        if one.panics > 0 {
            add(
                Severity::Warn,
                subject(),
                format!("had {} in reconciles", plural(one.panics as usize, "panic")),
            );
        }
        let longest = one.running.iter().map(|running| running.began_seconds_ago).fold(0.0, f64::max);
        if longest > LONG_RECONCILE {
            add(Severity::Warn, subject(), format!("has a reconcile that has run for {}", seconds(longest)));
        }
    }
    for one in snapshot.queues.iter().filter(|one| one.order_failed) {
        add(Severity::Bad, format!("queue {}", one.name), "is FIFO now, because its order failed".to_owned());
    }
    for one in &snapshot.leases {
        if let Some(error) = &one.last_error {
            let since = seconds(one.failing_seconds.unwrap_or_default());
            let subject = format!("lease {}/{}", one.namespace, one.name);
            add(Severity::Bad, subject, format!("has had failing requests for {since}: {error}"));
        }
    }
    if snapshot.manager != "Running" {
        add(Severity::Warn, "manager".to_owned(), format!("is {}", snapshot.manager.to_lowercase()));
    }
    found.sort_by_key(|problem| problem.level);
    found
}

fn of_informer(one: &InformerSnapshot, mut add: impl FnMut(Severity, String)) {
    let error = one.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    if let Some(crash) = &one.crash {
        add(Severity::Bad, format!("restarts after a panic: {crash}"));
    } else if one.not_served {
        add(Severity::Bad, format!("watches a kind that the server does not serve{error}"));
    } else if one.running && !one.synced {
        add(Severity::Bad, format!("has not synced{error}"));
    } else if one.failures > 0 {
        add(Severity::Warn, format!("retries after {} failed requests{error}", count(one.failures)));
    }
    if one.undecodable > 0 {
        add(Severity::Warn, format!("has {} objects that cannot be decoded", count(one.undecodable)));
    }
    for handler in &one.handlers {
        if handler.depth > DEEP_HANDLER {
            let text = format!("has {} pending events of handler {}", count(handler.depth), handler.name);
            add(Severity::Warn, text);
        }
        if handler.panics > 0 {
            let text =
                format!("has had {} of handler {}", plural(handler.panics as usize, "panic"), handler.name);
            add(Severity::Warn, text);
        }
    }
}
