//! The queue's state machine, driven without a clock, a lock or tasks.

use std::time::{Duration, Instant};

use informer_workqueue::Aging;
use informer_workqueue::proto::QueueState;
use tokio::time::Instant as TokioInstant;

const SECOND: Duration = Duration::from_secs(1);

/// Returns three numbers of keys: ready, waiting for a deadline, and in process (handed out and not
/// finished).
fn counts(queue: &QueueState<&'static str>) -> [usize; 3] {
    [queue.ready(), queue.waiting(), queue.processing()]
}

fn start() -> Instant {
    TokioInstant::now().into_std()
}

#[test]
fn counts_follow_each_key_from_its_delay_to_the_end_of_its_processing() {
    let start = start();
    let mut queue = QueueState::new(start);
    assert!(queue.is_empty() && !queue.is_finished());
    assert!(queue.add("late", Some(SECOND * 2), 0, start).unwrap().rearm);
    assert!(queue.add("soon", Some(SECOND), 0, start).unwrap().rearm);
    assert_eq!(
        queue.add("now", None, 0, start).map(|effect| (effect.pushed, effect.rearm)),
        Some((1, false))
    );
    assert_eq!((counts(&queue), queue.next_due()), ([1, 2, 0], Some(start + SECOND)));

    let (now, effect) = queue.take(start + SECOND);
    assert_eq!((now.as_ref().map(|handout| *handout.key()), effect.pushed), (Some("now"), 0));
    assert_eq!((counts(&queue), queue.next_due()), ([1, 1, 1], Some(start + SECOND * 2)));

    let (kept, effect) = queue.finish(now.unwrap(), Some((SECOND * 3, 0)), start + SECOND);
    assert_eq!((kept, effect.pushed, counts(&queue)), (true, 0, [1, 2, 0]));
    let (soon, _) = queue.take(start + SECOND);
    assert_eq!(soon.as_ref().map(|handout| *handout.key()), Some("soon"));
    let (kept, _) = queue.finish(soon.unwrap(), None, start + SECOND);
    assert_eq!((kept, counts(&queue), queue.is_empty()), (false, [0, 2, 0], false));
}

#[test]
fn shutdown_drops_waiting_keys_and_hands_out_ready_ones() {
    let start = start();
    let mut queue = QueueState::new(start);
    queue.add("due", Some(SECOND), 0, start);
    queue.add("late", Some(SECOND * 9), 0, start);
    queue.shut_down(start + SECOND);
    assert_eq!((counts(&queue), queue.next_due(), queue.is_finished()), ([1, 0, 0], None, false));
    assert_eq!(queue.add("other", None, 0, start + SECOND), None);
    let (due, _) = queue.take(start + SECOND);
    assert_eq!(due.as_ref().map(|handout| *handout.key()), Some("due"));
    queue.finish(due.unwrap(), None, start + SECOND);
    assert!(queue.is_finished() && queue.is_empty() && queue.take(start + SECOND * 9).0.is_none());
}

#[test]
fn higher_priorities_are_handed_out_first_with_their_priority() {
    let start = start();
    let mut queue = QueueState::with_priorities(Aging::default(), start);
    for (key, priority) in [("low", -1), ("normal", 0), ("high", 5)] {
        queue.add(key, None, priority, start);
    }
    let mut order = Vec::new();
    while let (Some(handout), _) = queue.take(start) {
        order.push((*handout.key(), handout.priority()));
        queue.finish(handout, None, start);
    }
    assert_eq!(order, [("high", 5), ("normal", 0), ("low", -1)]);
    assert!(queue.is_empty());
}
