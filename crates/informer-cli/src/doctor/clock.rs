//! The difference between the clocks of the server and of this machine.

use jiff::Timestamp;

use super::findings::Findings;

/// A difference between the clocks above this number of seconds is a warning. Leader election and expiring
/// tokens tolerate some seconds.
const MAX_SKEW: f64 = 5.0;

/// A difference between the clocks above this number of seconds is a problem, because certificates and tokens
/// are then rejected as expired or not yet valid.
const MAX_TOLERATED_SKEW: f64 = 60.0;

/// Returns the current time of this machine's clock, in seconds since the Unix epoch.
pub(super) fn now() -> f64 {
    Timestamp::now().as_duration().as_secs_f64()
}

/// Parses the value of the HTTP header `Date`. Returns the seconds since the Unix epoch.
pub(super) fn parse_date(text: &str) -> Option<f64> {
    jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp().as_duration().as_secs_f64())
}

/// One measurement of the server's clock: the `Date` header of a response, and the local times at which the
/// request was sent and the response received. All are seconds since the Unix epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) sent: f64,
    pub(super) received: f64,
    pub(super) date: f64,
}

/// Returns the smallest and the largest difference of the server's clock from the local one that agree with
/// all samples, in seconds. A positive difference means that the server's clock is ahead. Returns `None`
/// without samples.
pub(super) fn skew(samples: &[Sample]) -> Option<(f64, f64)> {
    // The `Date` header has no fractions of a second: the server wrote it within the second that begins at
    // `date`. A server that caches the string can exceed this bound; the limits for warnings and problems are
    // large enough to tolerate this.
    let of = |sample: &Sample| (sample.date - sample.received, sample.date + 1.0 - sample.sent);
    let first = of(samples.first()?);
    Some(samples.iter().map(of).fold(first, |(least, most), (low, high)| (least.max(low), most.min(high))))
}

pub(super) fn check(samples: &[Sample], findings: &mut Findings) {
    let Some((least, most)) = skew(samples) else {
        let remedy = "compare the clocks of the machines, for example with `timedatectl`";
        return findings.warning("clock", "the responses have no Date header", remedy);
    };
    // The smallest absolute difference between the clocks that agrees with all samples. The clocks differ by
    // at least this number of seconds.
    let certain = least.max(0.0) - most.min(0.0);
    let direction = if most < 0.0 { "behind" } else { "ahead" };
    let remedy = "synchronize the clocks with NTP: certificates, tokens and Leases depend on them";
    let message = format!("the clock of the server is at least {certain:.1} s {direction}");
    if certain > MAX_TOLERATED_SKEW {
        findings.problem("clock", message, remedy);
    } else if certain > MAX_SKEW {
        findings.warning("clock", message, remedy);
    } else {
        let (least, most) = (least.min(most), most.max(least));
        findings.ok("clock", format!("the server is {least:+.1} s to {most:+.1} s ahead"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(sent: f64, received: f64, date: f64) -> Sample {
        Sample { sent, received, date }
    }

    #[test]
    fn skew_is_bounded_by_the_round_trip_and_the_fraction_of_the_date() {
        assert_eq!(skew(&[]), None);
        assert_eq!(skew(&[sample(100.0, 100.5, 100.0)]), Some((-0.5, 1.0)));
        assert_eq!(skew(&[sample(100.0, 104.0, 100.0), sample(105.0, 105.5, 105.0)]), Some((-0.5, 1.0)));
        assert_eq!(skew(&[sample(100.0, 101.0, 400.0)]), Some((299.0, 301.0)));
    }

    #[test]
    fn date_header_is_parsed() {
        assert_eq!(parse_date("Thu, 01 Jan 1970 00:01:40 GMT"), Some(100.0));
        assert_eq!(parse_date("yesterday"), None);
    }
}
