use super::*;

#[test]
fn each_way_to_end_has_its_verdict() {
    let (second, none) = (Duration::from_secs(1), None);
    let failed = |terminal, priority| Ended::Failed { terminal, priority };
    for (ended, forget, again, priority) in [
        (Ended::Succeeded(Outcome::Done), true, Again::No, none),
        (Ended::Succeeded(Outcome::requeue_after(Duration::ZERO)), true, Again::No, none),
        (Ended::Succeeded(Outcome::requeue_after(second)), true, Again::After(second), none),
        (
            Ended::Succeeded(Outcome::requeue_after(second).with_priority(7)),
            true,
            Again::After(second),
            Some(7),
        ),
        (Ended::Succeeded(Outcome::requeue()), false, Again::RateLimited, none),
        (Ended::Succeeded(Outcome::requeue().with_priority(-3)), false, Again::RateLimited, Some(-3)),
        (failed(false, Some(5)), false, Again::RateLimited, Some(5)),
        (failed(true, Some(5)), false, Again::No, none),
        (Ended::Panicked, false, Again::RateLimited, none),
        (Ended::TimedOut, false, Again::RateLimited, none),
    ] {
        assert_eq!(Verdict::of(ended), Verdict { forget, again, priority }, "{ended:?}");
    }
}

fn start() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}

fn running() -> LifeState {
    let mut life = LifeState::new(Duration::from_secs(20));
    assert!(life.run());
    assert_eq!(life.feed(), Feeding::Start);
    life.fed(true);
    assert!(life.work());
    life
}

#[test]
fn nothing_is_worked_on_before_the_sources_have_delivered_or_where_they_failed() {
    for delivered in [None, Some(false)] {
        let mut life = LifeState::new(Duration::ZERO);
        assert!(life.is_unfed() && life.run());
        assert_eq!(life.feed(), Feeding::Start);
        delivered.into_iter().for_each(|delivered| life.fed(delivered));
        assert!(!life.work() && !life.takes_requests(), "{delivered:?}");
        assert_eq!(life.feed(), Feeding::Failed, "nobody starts them again");
    }
}

#[test]
fn sources_of_a_warm_up_serve_the_run() {
    let mut life = LifeState::new(Duration::ZERO);
    assert_eq!(life.feed(), Feeding::Start);
    life.fed(true);
    assert!(!life.work(), "it was not told to run");
    assert!(life.run());
    assert_eq!(life.feed(), Feeding::Started);
    assert!(life.work());
}

#[test]
fn a_controller_that_does_not_run_stops_at_once_and_one_that_does_drains() {
    let mut life = LifeState::new(Duration::ZERO);
    life.run();
    life.stop(start());
    assert_eq!((life.phase(), life.next_deadline()), (ControllerPhase::Stopped, None));

    let (mut life, now) = (running(), start());
    life.stop(now);
    assert_eq!(life.phase(), ControllerPhase::Stopping);
    assert_eq!(life.next_deadline(), Some(now + Duration::from_secs(20)));
    life.stop(now + Duration::from_secs(9));
    assert_eq!(life.next_deadline(), Some(now + Duration::from_secs(20)), "the second stop changes nothing");
    life.end();
    assert!(life.phase() == ControllerPhase::Stopped && !life.run(), "it has one life");
}

#[test]
fn reconciles_that_outlast_the_drain_are_cancelled_and_dropped_after_a_grace_period() {
    let moment = Duration::from_nanos(1);
    let (mut life, now) = (running(), start());
    assert_eq!(life.tick(now), None, "nothing was stopped");
    life.stop(now);
    let cancel = life.next_deadline().expect("the end of the drain");
    assert_eq!((life.tick(cancel - moment), life.next_deadline()), (None, Some(cancel)));
    assert_eq!(life.tick(cancel), Some(Drain::Cancel));
    let drop = life.next_deadline().expect("the end of the grace period");
    assert!(drop > cancel && life.phase() == ControllerPhase::Stopping);
    assert_eq!((life.tick(drop - moment), life.next_deadline()), (None, Some(drop)));
    assert_eq!(life.tick(drop), Some(Drain::Drop));
    assert_eq!((life.tick(drop), life.next_deadline()), (None, None));
}
