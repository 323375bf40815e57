//! Creates the fault scripts of an exploration: first each fault at each write, then random combinations of
//! faults.

use std::collections::BTreeSet;

use informer_apiserver::{FaultScript, RunFault, ScheduledFault};
use informer_core::random::next;

/// The maximum number of writes at which each fault is tried. A write is identified by its number in the run
/// without faults.
pub(super) const MAX_SYSTEMATIC_WRITES: u64 = 200;

/// The maximum number of faults of a random fault script.
const MAX_FAULTS: u64 = 4;

/// The delays with which late watches receive events, in simulated seconds. The longer ones exceed the 5 s
/// for which a cached read waits for an own write by default, so such reads also fail.
const LAGS: [u64; 4] = [1, 3, 8, 20];

/// How late a process that has read a stale list receives the events after it, in seconds. With the delay of
/// a restart it is shorter than the time without writes after which a program has settled.
const STALE: u64 = 5;

/// The maximum number of scripts with a crash and a stale list.
const MAX_STALE_SCRIPTS: usize = 200;

/// How long a process cannot reach the API server, in simulated seconds. A default lease expires after 15 s,
/// so a leader loses its lease in the two longer isolations.
const ISOLATIONS: [u64; 3] = [5, 20, 40];

/// The properties of the run without faults, from which the fault scripts are created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Observed {
    /// The number of writes that the program sends in the run without faults.
    pub(super) writes: u64,
    /// The plural names of the resources that the program watched.
    pub(super) watched: BTreeSet<String>,
    /// True if the program used leader election.
    pub(super) elects: bool,
}

/// Returns the fault scripts with a single fault. For each write of the run without faults, there is one
/// script for each fault of a request. For each watched resource, there are scripts in which its watches
/// receive events late, from the start of the run or from one of the writes. There are also scripts that
/// crash the program, after which the lists of a resource with `resourceVersion=0` are stale.
pub(super) fn systematic(observed: &Observed) -> Vec<FaultScript> {
    let faults = [
        RunFault::CrashAfter,
        RunFault::InternalError,
        RunFault::LostResponse,
        RunFault::Conflict,
        RunFault::CrashBefore,
    ];
    let writes = 1..=observed.writes.min(MAX_SYSTEMATIC_WRITES);
    let of_fault =
        |fault: RunFault| writes.clone().map(move |write| FaultScript::single(write, fault.clone()));
    let late = observed.watched.iter().flat_map(|resource| {
        let lag = RunFault::LagWatch { resource: resource.clone(), seconds: 8 };
        (0..=observed.writes.min(MAX_SYSTEMATIC_WRITES))
            .map(move |write| FaultScript::single(write, lag.clone()))
    });
    faults.into_iter().flat_map(of_fault).chain(late).chain(stale(observed)).collect()
}

/// Returns scripts that crash the program after a write, and answer a list of the new process with the state
/// before this or an earlier write. If there are too many combinations of the two writes, returns a part of
/// them at equal distances.
fn stale(observed: &Observed) -> Vec<FaultScript> {
    let writes = observed.writes.min(MAX_SYSTEMATIC_WRITES);
    let moments: Vec<(u64, u64)> =
        (1..=writes).flat_map(|crash| (0..=crash).map(move |read| (crash, read))).collect();
    let most = (MAX_STALE_SCRIPTS / observed.watched.len().max(1)).max(1);
    let step = moments.len().div_ceil(most).max(1);
    // Later crashes come first: the new process can then read a state that the program has left behind.
    let chosen = moments.into_iter().rev().step_by(step);
    let script = |(crash, read), resource: &String| {
        let stale = RunFault::StaleList { resource: resource.clone(), seconds: STALE };
        let faults = vec![
            ScheduledFault { write: read, fault: stale },
            ScheduledFault { write: crash, fault: RunFault::CrashAfter },
        ];
        FaultScript::new(0, faults)
    };
    chosen.flat_map(|moment| observed.watched.iter().map(move |resource| script(moment, resource))).collect()
}

/// Returns the random fault script of a seed. Equal seeds return equal scripts.
pub(super) fn random(observed: &Observed, seed: u64) -> FaultScript {
    let mut state = seed;
    let mut below = |limit: u64| next(&mut state) % limit.max(1);
    let count = 1 + below(MAX_FAULTS);
    // After a fault the program repeats writes, so a run with faults has more writes than the run without.
    // The random faults may also affect these additional writes.
    let last_write = observed.writes + observed.writes / 2 + 2;
    let watched: Vec<&String> = observed.watched.iter().collect();
    let faults: Vec<ScheduledFault> = (0..count)
        .map(|_| {
            let write = 1 + below(last_write);
            let kind = below(if observed.elects { 13 } else { 12 });
            let resource = watched.get(below(watched.len() as u64) as usize);
            let length = below(12) as usize;
            let at_start = below(4) == 0;
            let fault = match (kind, resource) {
                (0 | 1, _) => RunFault::CrashAfter,
                (2, _) => RunFault::CrashBefore,
                (3 | 4, _) => RunFault::Conflict,
                (5, _) => RunFault::InternalError,
                (6, _) => RunFault::LostResponse,
                (7 | 8, Some(resource)) => {
                    let seconds = LAGS[length % LAGS.len()];
                    RunFault::LagWatch { resource: (*resource).clone(), seconds }
                }
                (9, Some(resource)) => RunFault::CutWatch { resource: (*resource).clone() },
                (10, Some(resource)) => RunFault::ExpireWatch { resource: (*resource).clone() },
                (11, Some(resource)) => RunFault::StaleList { resource: (*resource).clone(), seconds: STALE },
                (12, _) => RunFault::Isolate { seconds: ISOLATIONS[length % ISOLATIONS.len()] },
                _ => RunFault::CrashAfter,
            };
            let write = if at_start && !fault.is_of_request() { 0 } else { write };
            ScheduledFault { write, fault }
        })
        .collect();
    FaultScript::new(seed.wrapping_add(1).max(1), faults)
}
