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
