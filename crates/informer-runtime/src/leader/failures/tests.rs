use std::time::Duration;

use http::StatusCode;
use serde_json::json;

use super::{Failure, FailureKind, LeaseFailures, Recovery};

const TOLERANCE: Duration = Duration::from_secs(10);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn failure(kind: FailureKind) -> Failure {
    Failure::new(kind, "the problem")
}

#[test]
fn first_failure_is_logged_at_once_and_the_others_at_growing_intervals() {
    let start = tokio::time::Instant::now().into_std();
    let mut failures = LeaseFailures::new(TOLERANCE);
    let logged: Vec<u64> = (0..1000)
        .filter(|second| failures.failed(failure(FailureKind::Forbidden), start + seconds(*second)))
        .collect();
    assert_eq!(logged, [0, 10, 30, 70, 150, 310, 610, 910]);
    assert_eq!(failures.total(), 1000);
}

#[test]
fn another_kind_of_failure_is_logged_at_once_but_only_once() {
    let start = tokio::time::Instant::now().into_std();
    let mut failures = LeaseFailures::new(TOLERANCE);
    let kinds = [FailureKind::Unreachable, FailureKind::Forbidden];
    let logged = (0..8).map(|second| {
        let kind = kinds[usize::from(second % 2 == 1)];
        failures.failed(failure(kind), start + seconds(second))
    });
    assert_eq!(logged.collect::<Vec<_>>(), [true, true, false, false, false, false, false, false]);
}

#[test]
fn success_ends_a_streak_and_the_next_failure_is_logged_again() {
    let start = tokio::time::Instant::now().into_std();
    let mut failures = LeaseFailures::new(TOLERANCE);
    assert_eq!(failures.succeeded(start), None);
    assert!(failures.failed(failure(FailureKind::NotFound), start));
    assert!(!failures.failed(failure(FailureKind::NotFound), start + seconds(2)));
    assert_eq!(failures.succeeded(start + seconds(4)), Some(Recovery { failures: 2, after: seconds(4) }));
    assert_eq!(failures.failing(start + seconds(5)), None);
    assert!(failures.failed(failure(FailureKind::NotFound), start + seconds(6)));
}

#[test]
fn rejection_makes_unready_at_once_and_unreachable_server_after_the_tolerance() {
    let start = tokio::time::Instant::now().into_std();
    let mut failures = LeaseFailures::new(TOLERANCE);
    failures.failed(failure(FailureKind::Unreachable), start);
    assert_eq!(failures.unready(start + seconds(9)), None);
    assert_eq!(
        failures.unready(start + seconds(10)).as_deref(),
        Some("failing for 10 s: the problem; check that the API server is running and reachable")
    );
    failures.succeeded(start + seconds(11));
    assert_eq!(failures.unready(start + seconds(11)), None);
    failures.failed(failure(FailureKind::Forbidden), start + seconds(12));
    assert!(failures.unready(start + seconds(12)).is_some_and(|why| why.starts_with("failing for 0 s")));
}

#[test]
fn status_codes_map_to_failure_kinds() {
    for (status, kind) in [
        (401, FailureKind::Forbidden),
        (403, FailureKind::Forbidden),
        (404, FailureKind::NotFound),
        (422, FailureKind::Rejected),
        (429, FailureKind::Unreachable),
        (503, FailureKind::Unreachable),
    ] {
        assert_eq!(FailureKind::of(StatusCode::from_u16(status).unwrap()), kind, "{status}");
    }
    let failure = Failure::of_status(StatusCode::FORBIDDEN, &json!({"message": "no"}));
    assert_eq!(
        failure.to_string(),
        "the server responded with 403: no; grant the permissions on leases of coordination.k8s.io"
    );
}
