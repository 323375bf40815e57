use std::sync::Arc;

use futures_util::FutureExt;

use super::{Slot, Slots};

fn take(slots: &Slots) -> Arc<Slot> {
    Arc::new(slots.take().now_or_never().expect("a free slot"))
}

fn is_closed(slot: &Slot) -> bool {
    slot.closed().now_or_never().is_some()
}

#[test]
fn connection_that_waits_longest_for_its_peer_makes_room() {
    let slots = Slots::new(3);
    let [first, second, third] = std::array::from_fn(|_| take(&slots));
    // The first connection has just served a request, so the second connection is now the one that has waited
    // longest for its peer.
    drop(first.serve());
    let mut next = Box::pin(slots.take());
    assert!(next.as_mut().now_or_never().is_none(), "the slot is not free yet");
    assert!(!is_closed(&first) && is_closed(&second) && !is_closed(&third));
    drop(second);
    let _next = next.now_or_never().expect("a free slot");
    assert!(!is_closed(&first) && !is_closed(&third), "only one connection is closed");
}

#[test]
fn connection_that_is_served_is_not_closed() {
    let slots = Slots::new(2);
    let (first, second) = (take(&slots), take(&slots));
    let (served, also) = (first.serve(), second.serve());
    let mut next = Box::pin(slots.take());
    assert!(next.as_mut().now_or_never().is_none());
    assert!(!is_closed(&first) && !is_closed(&second));
    drop(also);
    assert!(next.as_mut().now_or_never().is_none());
    assert!(!is_closed(&first) && is_closed(&second), "its handler has ended");
    drop(second);
    let _next = next.now_or_never().expect("a free slot");
    drop(served);
    assert!(!is_closed(&first));
}

#[test]
fn free_slot_closes_no_connection() {
    let slots = Slots::new(2);
    let first = take(&slots);
    for _ in 0..10 {
        drop(take(&slots));
    }
    assert!(!is_closed(&first));
}

#[test]
fn closing_connection_frees_its_slot_in_any_state() {
    let slots = Slots::new(1);
    let first = take(&slots);
    let mut next = Box::pin(slots.take());
    assert!(next.as_mut().now_or_never().is_none());
    drop(first.serve());
    assert!(is_closed(&first));
    drop(first);
    let second = next.now_or_never().expect("a free slot");
    let mut next = Box::pin(slots.take());
    assert!(next.as_mut().now_or_never().is_none());
    assert!(is_closed(&second));
}

#[test]
fn connection_with_several_requests_is_not_closed_before_the_last_one_has_ended() {
    let slots = Slots::new(1);
    let first = take(&slots);
    let (one, other) = (first.serve(), first.serve());
    let mut next = Box::pin(slots.take());
    drop(one);
    assert!(next.as_mut().now_or_never().is_none() && !is_closed(&first));
    drop(other);
    assert!(next.as_mut().now_or_never().is_none() && is_closed(&first));
}
