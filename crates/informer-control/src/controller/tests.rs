use super::*;

#[test]
fn each_reconcile_end_has_its_requeue_decision() {
    let (second, none) = (Duration::from_secs(1), None);
    let failed = |terminal, priority| ReconcileEnd::Failed { terminal, priority };
    for (end, forget, requeue, priority) in [
        (ReconcileEnd::Succeeded(Outcome::Done), true, Requeue::Never, none),
        (ReconcileEnd::Succeeded(Outcome::requeue_after(Duration::ZERO)), true, Requeue::Never, none),
        (ReconcileEnd::Succeeded(Outcome::requeue_after(second)), true, Requeue::After(second), none),
        (
            ReconcileEnd::Succeeded(Outcome::requeue_after(second).with_priority(7)),
            true,
            Requeue::After(second),
            Some(7),
        ),
        (ReconcileEnd::Succeeded(Outcome::requeue()), false, Requeue::RateLimited, none),
        (
            ReconcileEnd::Succeeded(Outcome::requeue().with_priority(-3)),
            false,
            Requeue::RateLimited,
            Some(-3),
        ),
        (failed(false, Some(5)), false, Requeue::RateLimited, Some(5)),
        (failed(true, Some(5)), false, Requeue::Never, none),
        (ReconcileEnd::Panicked, false, Requeue::RateLimited, none),
        (ReconcileEnd::TimedOut, false, Requeue::RateLimited, none),
    ] {
        assert_eq!(RequeueDecision::of(end), RequeueDecision { forget, requeue, priority }, "{end:?}");
    }
}

fn start() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}

fn running() -> ControllerLifecycle {
    let mut lifecycle = ControllerLifecycle::new(Duration::from_secs(20));
    assert!(lifecycle.run());
    assert_eq!(lifecycle.start_sources(), SourceStart::Start);
    lifecycle.sources_started(true);
    assert!(lifecycle.start_reconciling());
    lifecycle
}

#[test]
fn requests_are_not_accepted_before_sources_synced_or_after_they_failed() {
    for delivered in [None, Some(false)] {
        let mut lifecycle = ControllerLifecycle::new(Duration::ZERO);
        assert!(lifecycle.sources_not_started() && lifecycle.run());
        assert_eq!(lifecycle.start_sources(), SourceStart::Start);
        delivered.into_iter().for_each(|delivered| lifecycle.sources_started(delivered));
        assert!(!lifecycle.start_reconciling() && !lifecycle.accepts_requests(), "{delivered:?}");
        assert_eq!(lifecycle.start_sources(), SourceStart::Failed, "not started again");
    }
}

#[test]
fn sources_of_the_warm_up_serve_the_run() {
    let mut lifecycle = ControllerLifecycle::new(Duration::ZERO);
    assert_eq!(lifecycle.start_sources(), SourceStart::Start);
    lifecycle.sources_started(true);
    assert!(!lifecycle.start_reconciling(), "not started");
    assert!(lifecycle.run());
    assert_eq!(lifecycle.start_sources(), SourceStart::Started);
    assert!(lifecycle.start_reconciling());
}

#[test]
fn controller_that_is_not_running_stops_at_once_and_a_running_one_drains() {
    let mut lifecycle = ControllerLifecycle::new(Duration::ZERO);
    lifecycle.run();
    lifecycle.stop(start());
    assert_eq!((lifecycle.phase(), lifecycle.next_deadline()), (ControllerPhase::Stopped, None));

    let (mut lifecycle, now) = (running(), start());
    lifecycle.stop(now);
    assert_eq!(lifecycle.phase(), ControllerPhase::Stopping);
    assert_eq!(lifecycle.next_deadline(), Some(now + Duration::from_secs(20)));
    lifecycle.stop(now + Duration::from_secs(9));
    assert_eq!(
        lifecycle.next_deadline(),
        Some(now + Duration::from_secs(20)),
        "the second stop has no effect"
    );
    lifecycle.end();
    assert!(lifecycle.phase() == ControllerPhase::Stopped && !lifecycle.run(), "cannot be restarted");
}

#[test]
fn reconciles_that_outlast_the_drain_are_cancelled_and_dropped_after_a_grace_period() {
    let moment = Duration::from_nanos(1);
    let (mut lifecycle, now) = (running(), start());
    assert_eq!(lifecycle.tick(now), None, "not stopped");
    lifecycle.stop(now);
    let cancel = lifecycle.next_deadline().expect("the end of the drain");
    assert_eq!((lifecycle.tick(cancel - moment), lifecycle.next_deadline()), (None, Some(cancel)));
    assert_eq!(lifecycle.tick(cancel), Some(DrainStep::Cancel));
    let drop = lifecycle.next_deadline().expect("the end of the grace period");
    assert!(drop > cancel && lifecycle.phase() == ControllerPhase::Stopping);
    assert_eq!((lifecycle.tick(drop - moment), lifecycle.next_deadline()), (None, Some(drop)));
    assert_eq!(lifecycle.tick(drop), Some(DrainStep::Drop));
    assert_eq!((lifecycle.tick(drop), lifecycle.next_deadline()), (None, None));
}
