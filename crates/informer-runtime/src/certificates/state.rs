//! Decides what a replica does with the certificates that all replicas share in a Secret.
//!
//! ```text
//! authority A issues ──A is old──▶ A and B trusted ──everywhere, for a while──▶ B issues
//!        ▲                                                                        │
//!        └──────────────── only B trusted ◀──all replicas serve it────────────────┘
//! ```
//!
//! # Invariants
//!
//! 1. The Secret has the private key of its newest authority only. That authority issues the next
//!    certificate.
//! 2. A valid certificate is replaced by one of another authority only after all targets have trusted that
//!    authority for [`PROPAGATION`].
//! 3. An authority stays trusted as long as a registered replica may serve a certificate that it issued. A
//!    replica registers before it serves its first certificate, and reports a new one after it serves it.
//! 4. Expired authorities are not trusted.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// The time for which all targets must have trusted an authority before it issues the served certificate. In
/// this time the API servers of a cluster observe the changed configurations of their webhooks.
pub(super) const PROPAGATION: SignedDuration = SignedDuration::from_mins(2);

/// The time after which a replica that did not report counts as ended. It is longer than an outage of the API
/// server in which webhooks are called.
const REPLICA_EXPIRY: SignedDuration = SignedDuration::from_hours(24);

/// The interval at which a replica reports that it runs.
const REPORT_INTERVAL: SignedDuration = SignedDuration::from_hours(6);

/// The minimum time for which an authority stays trusted after its successor has issued a certificate. In
/// this time a replica of an older version of the program, which does not report, can be replaced.
const MIN_OVERLAP: SignedDuration = SignedDuration::from_hours(1);

/// The maximum number of replicas that the Secret lists. If more register, the oldest reports are dropped.
pub(super) const MAX_REPLICAS: usize = 1000;

/// Identifies a certificate: a hash of its encoding.
pub(super) type CertificateId = String;

/// How long certificates are valid. They are renewed when two thirds of that time have passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) authority: SignedDuration,
    pub(super) certificate: SignedDuration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Period {
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

impl Period {
    pub(super) fn contains(&self, now: Timestamp) -> bool {
        self.from <= now && now < self.until
    }

    /// Returns the time at which a certificate with this period should be replaced.
    fn renewal(&self) -> Timestamp {
        self.until.saturating_sub(self.until.duration_since(self.from) / 3).unwrap_or(self.from)
    }
}

/// A certificate authority in the Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Authority {
    pub(super) id: CertificateId,
    pub(super) period: Period,
}

/// The certificate in the Secret, which replicas serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) id: CertificateId,
    /// The authority that issued the certificate; `None` if it is not in the Secret.
    pub(super) issuer: Option<CertificateId>,
    pub(super) period: Period,
    /// True if the certificate is valid for all names, and the Secret has its key.
    pub(super) usable: bool,
}

/// The last report of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replica {
    /// The certificate that the replica serves.
    pub(super) serves: CertificateId,
    pub(super) reported: Timestamp,
}

/// The content of the Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SecretContent {
    /// The trusted authorities, the newest first.
    pub(super) authorities: Vec<Authority>,
    /// True if the Secret has the key of the newest authority.
    pub(super) issues: bool,
    pub(super) certificate: Option<Certificate>,
    /// The time since which all targets have trusted the newest authority.
    pub(super) trusted_since: Option<Timestamp>,
    pub(super) replicas: BTreeMap<String, Replica>,
}

/// The state of the replica itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observed<'a> {
    pub(super) identity: &'a str,
    /// The certificate that this replica serves; `None` before its first one.
    pub(super) serves: Option<&'a str>,
    /// True if all targets trust exactly the authorities in the Secret.
    pub(super) injected: bool,
}

/// A change of the Secret. The driver writes it only if the Secret is still the one that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// Add a new authority, in front of the others.
    AddAuthority,
    /// Record that all targets trust the newest authority.
    MarkTrusted,
    /// Issue a certificate by the newest authority.
    Issue,
    /// Keep only the newest authority.
    Retire,
    /// Record that this replica serves the certificate with this id, or is about to.
    Report(CertificateId),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Change the Secret, then read it again.
    Change(Change),
    /// Write the authorities of the Secret to all targets, then read all again.
    Inject,
    /// Serve the certificate of the Secret, then decide again.
    Serve,
    /// Nothing is to be done before this time, unless the Secret or a target changes.
    Wait(Timestamp),
}

/// Decides the next step of a replica.
pub(super) fn next_step(shared: &SecretContent, observed: &Observed<'_>, now: Timestamp) -> Step {
    let Some(newest) = shared.authorities.first().filter(|newest| newest.period.contains(now)) else {
        return Step::Change(Change::AddAuthority);
    };
    let certificate = shared.certificate.as_ref().filter(|one| one.usable && one.period.contains(now));
    let by_newest = certificate.is_some_and(|one| one.issuer.as_ref() == Some(&newest.id));
    if !shared.issues || (by_newest && newest.period.renewal() <= now) {
        return Step::Change(Change::AddAuthority);
    }
    let renewed = by_newest && certificate.is_some_and(|one| one.period.renewal() > now);
    // Without a valid certificate all requests are refused, so there is no reason to wait.
    let Some(certificate) = certificate else {
        return Step::Change(Change::Issue);
    };
    if let Some(step) = serve(shared, observed, certificate, now) {
        return step;
    }
    if !observed.injected {
        return Step::Inject;
    }
    let Some(trusted_since) = shared.trusted_since else {
        return Step::Change(Change::MarkTrusted);
    };
    let ready = later(trusted_since, PROPAGATION);
    if !renewed {
        // A certificate of the same authority is trusted already.
        return if by_newest || ready <= now { Step::Change(Change::Issue) } else { Step::Wait(ready) };
    }
    let retirement = later(certificate.period.from, MIN_OVERLAP).max(ready);
    let outdated = shared.authorities.len() > 1;
    let acknowledged = shared
        .replicas
        .values()
        .filter(|replica| is_alive(replica, now))
        .all(|replica| replica.serves == certificate.id);
    if outdated && acknowledged && retirement <= now {
        return Step::Change(Change::Retire);
    }
    let mut deadlines = vec![newest.period.renewal(), certificate.period.renewal()];
    deadlines.extend(shared.replicas.get(observed.identity).map(|own| later(own.reported, REPORT_INTERVAL)));
    if outdated {
        // A replica that has ended is noticed when its report expires.
        deadlines.extend(Some(retirement).filter(|at| *at > now));
        let expiries = shared.replicas.values().map(|replica| later(replica.reported, REPLICA_EXPIRY));
        deadlines.extend(expiries.filter(|at| *at > now));
    }
    Step::Wait(deadlines.into_iter().min().unwrap_or(now).max(now))
}

/// Returns the step by which this replica serves the certificate of the Secret and reports it; `None` if both
/// are done.
fn serve(
    shared: &SecretContent,
    observed: &Observed<'_>,
    certificate: &Certificate,
    now: Timestamp,
) -> Option<Step> {
    let own = shared.replicas.get(observed.identity);
    let report = || Some(Step::Change(Change::Report(certificate.id.clone())));
    match (observed.serves, own) {
        (_, None) => match observed.serves {
            // The report of a running replica was dropped. It may still serve an older certificate.
            Some(serves) => Some(Step::Change(Change::Report(serves.to_owned()))),
            None => report(),
        },
        (Some(serves), _) if serves != certificate.id => Some(Step::Serve),
        (None, Some(own)) if own.serves != certificate.id => report(),
        (None, Some(_)) => Some(Step::Serve),
        (Some(serves), Some(own)) if own.serves != serves || later(own.reported, REPORT_INTERVAL) <= now => {
            report()
        }
        _ => None,
    }
}

/// Removes what the next write of the Secret must not keep: reports of replicas that have ended, and expired
/// authorities except for the newest.
pub(super) fn prune(shared: &mut SecretContent, now: Timestamp) {
    shared.replicas.retain(|_, replica| is_alive(replica, now));
    while shared.replicas.len() > MAX_REPLICAS {
        let oldest = shared.replicas.iter().min_by_key(|(_, replica)| replica.reported);
        let Some(name) = oldest.map(|(name, _)| name.clone()) else { return };
        shared.replicas.remove(&name);
    }
    shared.authorities.retain(|authority| authority.period.until > now);
}

fn is_alive(replica: &Replica, now: Timestamp) -> bool {
    later(replica.reported, REPLICA_EXPIRY) > now
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_add(by).unwrap_or(at)
}

#[cfg(test)]
mod tests;
