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
    let mut life = ControllerLifecycle::new(Duration::from_secs(20));
    assert!(life.run());
    assert_eq!(life.start_sources(), SourceStart::Start);
    life.sources_started(true);
    assert!(life.start_reconciling());
    life
}

#[test]
fn requests_are_not_accepted_before_sources_synced_or_after_they_failed() {
    for delivered in [None, Some(false)] {
        let mut life = ControllerLifecycle::new(Duration::ZERO);
        assert!(life.sources_not_started() && life.run());
        assert_eq!(life.start_sources(), SourceStart::Start);
        delivered.into_iter().for_each(|delivered| life.sources_started(delivered));
        assert!(!life.start_reconciling() && !life.accepts_requests(), "{delivered:?}");
        assert_eq!(life.start_sources(), SourceStart::Failed, "not started again");
    }
}

#[test]
fn sources_of_the_warm_up_serve_the_run() {
    let mut life = ControllerLifecycle::new(Duration::ZERO);
    assert_eq!(life.start_sources(), SourceStart::Start);
    life.sources_started(true);
    assert!(!life.start_reconciling(), "not started");
    assert!(life.run());
    assert_eq!(life.start_sources(), SourceStart::Started);
    assert!(life.start_reconciling());
}

#[test]
fn controller_that_is_not_running_stops_at_once_and_a_running_one_drains() {
    let mut life = ControllerLifecycle::new(Duration::ZERO);
    life.run();
    life.stop(start());
    assert_eq!((life.phase(), life.next_deadline()), (ControllerPhase::Stopped, None));

    let (mut life, now) = (running(), start());
    life.stop(now);
    assert_eq!(life.phase(), ControllerPhase::Stopping);
    assert_eq!(life.next_deadline(), Some(now + Duration::from_secs(20)));
    life.stop(now + Duration::from_secs(9));
    assert_eq!(life.next_deadline(), Some(now + Duration::from_secs(20)), "the second stop has no effect");
    life.end();
    assert!(life.phase() == ControllerPhase::Stopped && !life.run(), "cannot be restarted");
}

#[test]
fn reconciles_that_outlast_the_drain_are_cancelled_and_dropped_after_a_grace_period() {
    let moment = Duration::from_nanos(1);
    let (mut life, now) = (running(), start());
    assert_eq!(life.tick(now), None, "not stopped");
    life.stop(now);
    let cancel = life.next_deadline().expect("the end of the drain");
    assert_eq!((life.tick(cancel - moment), life.next_deadline()), (None, Some(cancel)));
    assert_eq!(life.tick(cancel), Some(DrainStep::Cancel));
    let drop = life.next_deadline().expect("the end of the grace period");
    assert!(drop > cancel && life.phase() == ControllerPhase::Stopping);
    assert_eq!((life.tick(drop - moment), life.next_deadline()), (None, Some(drop)));
    assert_eq!(life.tick(drop), Some(DrainStep::Drop));
    assert_eq!((life.tick(drop), life.next_deadline()), (None, None));
}
