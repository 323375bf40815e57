//! Problems that the data shows, most severe first. The rules are those of the page of the console.

use informer::runtime::console::{ConsoleSnapshot, ControllerSnapshot, InformerSnapshot};

use super::sample::Samples;
use crate::format::{count, plural, seconds};

/// A reconcile that runs longer than this many seconds is shown as a problem.
const LONG_RECONCILE: f64 = 60.0;
/// A handler with more pending events than this is shown as a problem.
const DEEP_HANDLER: u64 = 1_000;

/// Failed reconciles are an error, and not a warning, if a key has been failing for this number of seconds.
const LONG_FAILURE: f64 = 10.0;

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
        if let Some((level, text)) = failures(one, samples) {
            add(level, subject() + ":", text);
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

/// Returns the failed reconciles of a controller, and its failing keys. They are a warning as long as no key
/// has been failing for ten seconds.
pub(super) fn failures(one: &ControllerSnapshot, samples: &Samples) -> Option<(Severity, String)> {
    let recent = samples.failures(&one.name);
    let failing_seconds = one.failing_seconds.unwrap_or_default();
    if recent.failed == 0 && one.failing.unwrap_or_default() == 0 {
        return None;
    }
    let number = match recent.finished {
        None => plural(recent.failed as usize, "reconcile"),
        Some(finished) => format!("{} of {}", count(recent.failed), plural(finished as usize, "reconcile")),
    };
    let mut parts = vec![format!("{number} failed in the last minute{}", recent.share())];
    let time = seconds(failing_seconds);
    match one.failing {
        None => {}
        Some(0) => parts.push("no key is failing now".to_owned()),
        Some(1) => parts.push(format!("1 key is failing now, for {time}")),
        Some(failing) => {
            parts.push(format!("{} keys are failing now, one of them for {time}", count(failing)));
        }
    }
    parts.extend(recent.error.as_ref().map(|error| format!("last error: {error}")));
    let is_error = one.failing.is_none() || failing_seconds >= LONG_FAILURE;
    Some((if is_error { Severity::Bad } else { Severity::Warn }, parts.join("; ")))
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
