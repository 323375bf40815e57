//! Formats durations as Go does, and parses them for a server.

#[cfg(feature = "server")]
pub(crate) mod parse;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;

/// Writes a duration in Go's notation: `1h0m0.5s`, `1.5ms`, `0s`.
pub(crate) fn write(out: &mut Vec<u8>, nanos: i64) {
    use std::io::Write;
    let size = nanos.unsigned_abs();
    if nanos < 0 {
        out.push(b'-');
    }
    let done = match size {
        0 => write!(out, "0s"),
        1..1_000 => write!(out, "{size}ns"),
        1_000..1_000_000 => write!(out, "{}\u{b5}s", decimal(size, 1_000)),
        1_000_000..1_000_000_000 => write!(out, "{}ms", decimal(size, 1_000_000)),
        _ => {
            let (minutes, rest) = (size / (MINUTE), size % (MINUTE));
            let seconds = decimal(rest, SECOND);
            match minutes {
                0 => write!(out, "{seconds}s"),
                1..60 => write!(out, "{minutes}m{seconds}s"),
                _ => write!(out, "{}h{}m{seconds}s", minutes / 60, minutes % 60),
            }
        }
    };
    done.expect("writing to a Vec does not fail");
}

fn decimal(value: u64, unit: u64) -> String {
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{rest:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}
