//! Reads X.509 certificates from PEM.

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// Certificates that expire within this time, in seconds, are reported with a warning.
const EXPIRES_SOON: f64 = 7.0 * 24.0 * 3600.0;

/// The validity of the certificates in a chain or in a CA bundle. All times are seconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Validity {
    /// The certificates are valid until this time, which is so far away that there is no warning.
    Until(f64),
    /// The certificates are valid until this time, which is within a week.
    ExpiresSoon(f64),
    /// A certificate is no longer valid, because it expired at this time.
    Expired(f64),
    /// A certificate is not valid yet, because it becomes valid at this time.
    NotYetValid(f64),
}

impl Validity {
    /// Returns the validity of PEM certificates at `now`, in seconds since the Unix epoch. If `any` is true,
    /// the result is that of the certificate that is valid longest, as in a CA bundle; otherwise that of the
    /// certificate that expires first, as in a chain.
    ///
    /// # Errors
    ///
    /// Returns the reason if a certificate cannot be parsed, or if the PEM contains no certificate.
    pub(super) fn of_pem(pem: &[u8], now: f64, any: bool) -> Result<Self, String> {
        let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let certificates = parsed.map_err(|error| format!("it is not PEM: {error}"))?;
        Self::of_der(certificates.iter().map(|certificate| &**certificate), now, any)
    }

    /// Returns the validity of DER certificates at `now`, like [`of_pem`](Self::of_pem) does for PEM.
    pub(super) fn of_der<'a>(
        certificates: impl Iterator<Item = &'a [u8]>,
        now: f64,
        any: bool,
    ) -> Result<Self, String> {
        let mut all = Vec::new();
        for certificate in certificates {
            let certificate = Certificate::from_der(certificate)
                .map_err(|error| format!("it contains an invalid certificate: {error}"))?;
            let validity = certificate.tbs_certificate().validity();
            let from = validity.not_before.to_unix_duration().as_secs_f64();
            let until = validity.not_after.to_unix_duration().as_secs_f64();
            all.push(Self::of_period(from, until, now));
        }
        let best = |left: &Self, right: &Self| left.rank().total_cmp(&right.rank());
        let found = if any { all.into_iter().max_by(best) } else { all.into_iter().min_by(best) };
        found.ok_or_else(|| "it contains no certificate".to_owned())
    }

    fn of_period(from: f64, until: f64, now: f64) -> Self {
        if until <= now {
            Self::Expired(until)
        } else if from > now {
            Self::NotYetValid(from)
        } else if until - now <= EXPIRES_SOON {
            Self::ExpiresSoon(until)
        } else {
            Self::Until(until)
        }
    }

    /// Returns a number that orders certificates from the worst to the best: expired ones, those that are not
    /// valid yet, and valid ones in the order of their expiry. The worst certificate of a chain, and the best
    /// one of a CA bundle, determine the result of the check.
    fn rank(self) -> f64 {
        match self {
            Self::Expired(_) => f64::MIN,
            Self::NotYetValid(from) => -from,
            Self::ExpiresSoon(until) | Self::Until(until) => until,
        }
    }

    /// Describes the validity, for example `expires at 2027-01-01T00:00:00Z`.
    pub(super) fn text(self) -> String {
        match self {
            Self::Until(at) | Self::ExpiresSoon(at) => format!("expires at {}", time(at)),
            Self::Expired(at) => format!("expired at {}", time(at)),
            Self::NotYetValid(at) => format!("is not valid before {}", time(at)),
        }
    }
}

/// Formats a time in seconds since the Unix epoch, for messages about certificates and tokens.
pub(super) fn time(seconds: f64) -> String {
    // The expiry time in a token can be outside of the range of a `Timestamp`. It is then printed as a number
    // of seconds.
    #[expect(clippy::cast_possible_truncation, reason = "the conversion saturates")]
    let seconds = seconds as i64;
    Timestamp::from_second(seconds).map_or_else(|_| format!("{seconds} s"), |time| time.to_string())
}
