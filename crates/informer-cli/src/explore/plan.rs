//! Creates the fault scripts of an exploration: first single faults, then random combinations.

use std::collections::BTreeSet;

use informer_apiserver::{FaultScript, RunFault, ScheduledFault};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The maximum number of writes at which each fault of a request is tried.
const MAX_SYSTEMATIC_WRITES: u64 = 200;

/// The maximum number of faults of a random fault script.
const MAX_FAULTS: u64 = 4;

/// The delays with which late watches receive events, in seconds of real time. Tests wait a few seconds for
/// an effect, so a longer delay would make the tests of correct programs fail.
const LAGS: [u64; 2] = [1, 2];

/// The properties of the run without faults, from which the fault scripts are created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) writes: u64,
    /// The plural names of the resources that selected clients watched.
    pub(super) watched: BTreeSet<String>,
}

/// Returns the fault scripts in the order in which they run. The iterator does not end, because it continues
/// with random scripts; the caller limits the number of runs.
pub(super) fn scripts(observed: Observed) -> impl Iterator<Item = FaultScript> {
    systematic(&observed).into_iter().chain((0..).map(move |seed| random(&observed, seed)))
}

fn systematic(observed: &Observed) -> Vec<FaultScript> {
    let writes = observed.writes.min(MAX_SYSTEMATIC_WRITES);
    let mut scripts = Vec::new();
    for fault in [RunFault::LostResponse, RunFault::InternalError, RunFault::Conflict] {
        scripts.extend((1..=writes).map(|write| FaultScript::single(write, fault.clone())));
    }
    // Faults of open watches are tried only at the first write and at the middle one, to limit the number of
    // runs.
    let moments: BTreeSet<u64> = [1, writes.div_ceil(2)].into_iter().filter(|write| *write > 0).collect();
    for resource in &observed.watched {
        let faults = |seconds| watch_faults(resource, seconds);
        scripts.extend(faults(LAGS[1]).map(|fault| FaultScript::single(0, fault)));
        for write in &moments {
            scripts.extend(faults(LAGS[1]).map(|fault| FaultScript::single(*write, fault)));
        }
    }
    scripts
}

fn watch_faults(resource: &str, seconds: u64) -> [RunFault; 3] {
    [
        RunFault::CutWatch { resource: resource.to_owned() },
        RunFault::ExpireWatch { resource: resource.to_owned() },
        RunFault::LagWatch { resource: resource.to_owned(), seconds },
    ]
}

/// Returns the random fault script of a seed. Equal seeds return equal scripts.
fn random(observed: &Observed, seed: u64) -> FaultScript {
    let mut rng = StdRng::seed_from_u64(seed);
    // A program repeats writes that failed, so a run with faults has more writes than the run without. The
    // random faults may also affect these additional writes.
    let last_write = observed.writes + observed.writes / 2 + 2;
    let watched: Vec<&String> = observed.watched.iter().collect();
    let faults = (0..rng.random_range(1..=MAX_FAULTS)).map(|_| {
        let write = rng.random_range(1..=last_write);
        let of_watch = !watched.is_empty() && (observed.writes == 0 || rng.random_range(0..3) == 0);
        if of_watch {
            let resource = watched[rng.random_range(0..watched.len())];
            let seconds = LAGS[rng.random_range(0..LAGS.len())];
            let [cut, expire, lag] = watch_faults(resource, seconds);
            let write = if rng.random_range(0..4) == 0 { 0 } else { write };
            return ScheduledFault { write, fault: [cut, expire, lag][rng.random_range(0..3)].clone() };
        }
        let kinds = [RunFault::LostResponse, RunFault::InternalError, RunFault::Conflict];
        ScheduledFault { write, fault: kinds[rng.random_range(0..kinds.len())].clone() }
    });
    FaultScript::new(seed.wrapping_add(1).max(1), faults.collect())
}
