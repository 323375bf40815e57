//! Performance targets of informers. Most are fractions of the figures of client-go or kube-rs in the same
//! run.
//!
//! The targets of the function `scaled` are for the machine on which they were set. On another machine, a
//! target is larger or smaller by the same factor as the figure of client-go.

use super::arguments::Kind;
use super::names::{
    ACKNOWLEDGED, CLIENT_GO, CLIENT_GO_DYNAMIC, DELAY, DELAY_OF_TEN, DELAY_OF_TEN_P99, DELAY_P99, DRAIN,
    DRAIN_PROTOBUF, EVENTS, EVENTS_TYPED, JSON, KUBE_RS, KUBE_RS_DYNAMIC, LOOKUP, LOOKUP_BUSY, METADATA,
    NAMESPACE, OURS, PACKED, PEAK, PEAK_EACH, READ_COLD, READ_HOT, RELIST, RELIST_PEAK, SNAPSHOT, STEADY,
    SYNC, SYNC_AND_READ, SYNC_CPU_EACH,
};
use crate::bench::peers::{Limit, Target};

const fn ours(case: &'static str, limit: Limit) -> Target {
    Target { program: OURS, case, limit }
}

const fn part(case: &'static str, of: &'static str, at_most: f64) -> Target {
    ours(case, Limit::Part { of, at_most })
}

/// Returns a target for this library in the case `target`. The maximum is `at_most` on a machine on which
/// client-go has the figure `there` in `case`. On another machine, the maximum is larger or smaller by the
/// same factor as the figure of client-go.
const fn scaled(target: &'static str, at_most: f64, case: &'static str, there: f64) -> Target {
    ours(target, Limit::Scaled { at_most, by: CLIENT_GO, case, there })
}

pub(super) fn embedded(kind: Kind) -> Vec<Target> {
    let mut targets = match kind {
        Kind::Crd => custom(),
        _ => built_in(),
    };
    if kind == Kind::Pod {
        targets.extend(memory_of_pods());
    }
    targets
}

fn custom() -> Vec<Target> {
    vec![part(SYNC, CLIENT_GO_DYNAMIC, 1.0 / 60.0), part(SYNC, KUBE_RS_DYNAMIC, 1.0 / 20.0)]
}

fn built_in() -> Vec<Target> {
    vec![
        part(SYNC, CLIENT_GO, 1.0 / 10.0),
        part(SYNC_AND_READ, CLIENT_GO, 1.0 / 3.0),
        // In the cases `READ_HOT` and `READ_COLD`, client-go's figure is the time of `Get` of a
        // controller-runtime cache over client-go's informer.
        part(READ_HOT, CLIENT_GO, 1.0 / 50.0),
        part(READ_COLD, CLIENT_GO, 1.0),
        part(PEAK, CLIENT_GO, 1.0 / 6.0),
        part(PEAK, KUBE_RS, 1.0 / 15.0),
        Target { program: JSON, case: PEAK, limit: Limit::Part { of: CLIENT_GO, at_most: 1.0 / 4.0 } },
        Target { program: JSON, case: PEAK, limit: Limit::Part { of: KUBE_RS, at_most: 1.0 / 10.0 } },
        part(RELIST, CLIENT_GO, 1.0 / 20.0),
        ours(RELIST_PEAK, Limit::Plain(2.0)),
        ours(EVENTS, Limit::Times { of: CLIENT_GO, at_least: 16.0 }),
        ours(EVENTS_TYPED, Limit::Times { of: CLIENT_GO, at_least: 6.0 }),
        scaled(DELAY, 40.0, DELAY, 163.0),
        scaled(DELAY_P99, 100.0, DELAY_P99, 4_000.0),
        scaled(DELAY_OF_TEN, 40.0, DELAY_OF_TEN, 162.0),
        // The reference is 36 ms, the middle of the 28 to 44 ms that client-go took for `DELAY_OF_TEN_P99`
        // when this target was set.
        scaled(DELAY_OF_TEN_P99, 100.0, DELAY_OF_TEN_P99, 36_000.0),
        scaled(LOOKUP, 60.0, LOOKUP, 47.0),
        scaled(LOOKUP_BUSY, 120.0, LOOKUP, 47.0),
        scaled(NAMESPACE, 20.0, NAMESPACE, 25.0),
        scaled(SNAPSHOT, 100.0, SNAPSHOT, 1_040.0),
    ]
}

fn memory_of_pods() -> [Target; 4] {
    [(JSON, 5.0), (OURS, 3.0), (PACKED, 1.2), (METADATA, 0.8)].map(|(program, kilobytes)| Target {
        program,
        case: STEADY,
        limit: Limit::Plain(kilobytes),
    })
}

/// Returns the targets for runs on a real kube-apiserver. The time of an initial sync is compared with a
/// plain HTTP read of the same list, because no client can be faster than the server.
pub(super) fn real(kind: Kind) -> Vec<Target> {
    if kind == Kind::Crd {
        return vec![
            part(SYNC, DRAIN, 1.1),
            part(SYNC, CLIENT_GO_DYNAMIC, 1.0 / 5.0),
            ours(SYNC_CPU_EACH, Limit::Plain(15.0)),
            ours(PEAK_EACH, Limit::Plain(4.0)),
        ];
    }
    vec![
        part(SYNC, DRAIN_PROTOBUF, 1.1),
        Target { program: JSON, case: SYNC, limit: Limit::Part { of: DRAIN, at_most: 1.1 } },
        ours(SYNC_CPU_EACH, Limit::Plain(10.0)),
        Target { program: JSON, case: SYNC_CPU_EACH, limit: Limit::Plain(15.0) },
        ours(PEAK_EACH, Limit::Plain(4.0)),
        ours(DELAY, Limit::Case(ACKNOWLEDGED)),
        part(DELAY_P99, CLIENT_GO, 1.0),
        part(DELAY_P99, KUBE_RS, 1.0),
    ]
}
