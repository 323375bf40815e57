//! Reads the memory and the CPU time of this process from `/proc` on Linux. On other systems all functions
//! return `None`.

pub(crate) fn peak_rss_mb() -> Option<f64> {
    status_kb("VmHWM:").map(|kb| kb as f64 / 1024.0)
}

pub(crate) fn rss_mb() -> Option<f64> {
    status_kb("VmRSS:").map(|kb| kb as f64 / 1024.0)
}

fn status_kb(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Returns the CPU time of this process so far, in seconds: the sum of user and system time.
pub(crate) fn cpu_seconds() -> Option<f64> {
    /// The unit of the CPU times in `/proc/self/stat`: clock ticks per second. Linux reports this value to
    /// user space on every machine.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command name in `/proc/self/stat` is in brackets and may contain spaces, which would shift the
    // fields. Therefore only the text after the closing bracket is split into fields.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}
