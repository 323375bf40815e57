//! The resources that this process has used, as reported by the operating system.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub(super) fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Returns nanoseconds since 1970, from a clock that all processes of a machine share.
pub(super) fn wall_nanos() -> u64 {
    let now = Duration::try_from(clock_gettime(ClockId::Realtime)).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the current time as a label value of fixed length, so that it can replace a placeholder in encoded
/// objects.
pub(super) fn stamp() -> String {
    format!("t{:019}", wall_nanos())
}

/// Returns the number of allocations of this process and their bytes; `None` unless this program uses the
/// allocator that counts them.
pub(super) fn allocations() -> Option<(f64, f64)> {
    let stats = stats_alloc::INSTRUMENTED_SYSTEM.stats();
    let times = stats.allocations + stats.reallocations;
    (times > 0).then_some((times as f64, stats.bytes_allocated as f64))
}

/// Returns the resident memory of this process in kilobytes: now, and the maximum since [`forget_peak`]; zero
/// if the system does not report it.
pub(super) fn resident() -> (f64, f64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
    };
    (line("VmRSS:"), line("VmHWM:"))
}

/// Returns how often the threads of this process have blocked so far, for example to wait for a timer or for
/// a response; zero if the system does not report it. A thread that has blocked is woken up later.
pub(super) fn wake_ups() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let statuses = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let count = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|line| line.trim().parse::<f64>().ok())
    };
    statuses.filter_map(count).sum()
}

pub(super) fn forget_peak() {
    // If this process may not write `clear_refs`, the peak is not reset and includes earlier cases.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
