use std::sync::Arc;

use proptest::prelude::*;

use super::{BufferPolicy, EventBatch, HandlerOptions, ListenerBuffer, ProcessorListener};
use crate::Event;
use crate::testing::{TestObject, object};

fn at(version: u32) -> Arc<TestObject> {
    Arc::new(object("a", u64::from(version)))
}

fn add(version: u32) -> Event<TestObject> {
    Event::Added { object: at(version), initial: false }
}

fn initial(version: u32) -> Event<TestObject> {
    Event::Added { object: at(version), initial: true }
}

fn update(old: u32, new: u32) -> Event<TestObject> {
    Event::Updated { old: at(old), new: at(new), resync: false }
}

fn resync(version: u32) -> Event<TestObject> {
    Event::Updated { old: at(version), new: at(version), resync: true }
}

fn delete(version: u32) -> Event<TestObject> {
    Event::Deleted { last: at(version), stale: false }
}

fn drain(buffer: &mut ListenerBuffer<TestObject>) -> Vec<String> {
    let next = || {
        let event = buffer.pop()?;
        buffer.finished();
        Some(event.to_string())
    };
    std::iter::from_fn(next).collect()
}

fn check(pending: impl Into<Box<[Event<TestObject>]>>, delivered: &[&str]) {
    let mut buffer = ListenerBuffer::new(BufferPolicy::Coalesce, usize::MAX);
    buffer.push(&Arc::new(EventBatch::new(pending)));
    assert_eq!(buffer.depth(), delivered.len());
    assert_eq!(drain(&mut buffer), delivered);
    assert_eq!(buffer.depth(), 0);
}

#[test]
fn coalesced_changes_merge_to_oldest_old_and_newest_new() {
    check([update(1, 2), update(2, 3), update(3, 4)], &["updated a @1 -> @4"]);
    check([add(1), update(1, 2)], &["added a @2"]);
    check([initial(1), update(1, 2)], &["added a @2 (initial)"]);
    check([update(1, 2), delete(3)], &["deleted a @3"]);
}

#[test]
fn a_coalesced_delete_and_recreation_stay_two_events() {
    check([delete(1), add(2)], &["deleted a @1", "added a @2"]);
    check([update(1, 2), delete(3), add(4), update(4, 5)], &["deleted a @3", "added a @5"]);
    check([delete(1), add(2), delete(3)], &["deleted a @1"]);
}

#[test]
fn an_object_created_and_deleted_before_delivery_is_not_announced() {
    check([add(1), delete(2)], &[]);
    check([add(1), delete(2), add(3)], &["added a @3"]);
}

#[test]
fn a_resync_is_merged_into_a_pending_change_and_replaced_by_a_later_one() {
    check([update(1, 2), resync(2)], &["updated a @1 -> @2"]);
    check([resync(1), update(1, 2)], &["updated a @1 -> @2"]);
    check([add(1), resync(1)], &["added a @1"]);
    check([resync(1), resync(1)], &["resync a @1"]);
}

#[test]
fn a_buffer_is_synced_when_every_initial_event_was_handled_or_canceled() {
    for policy in [BufferPolicy::Unbounded, BufferPolicy::Coalesce] {
        let mut buffer = ListenerBuffer::new(policy, usize::MAX);
        buffer.push(&Arc::new(EventBatch::new([initial(1)])));
        buffer.initial_complete();
        assert!(!buffer.is_synced());
        buffer.pop().unwrap();
        assert!(!buffer.is_synced(), "an event in flight is not handled yet");
        buffer.finished();
        assert!(buffer.is_synced());
    }
    let mut buffer = ListenerBuffer::new(BufferPolicy::Coalesce, usize::MAX);
    buffer.push(&Arc::new(EventBatch::new([initial(1), delete(2)])));
    buffer.initial_complete();
    assert!(buffer.is_synced(), "no initial event is pending");
}

#[test]
fn an_illegal_history_does_not_prevent_the_sync_of_a_coalescing_buffer() {
    let mut buffer = ListenerBuffer::new(BufferPolicy::Coalesce, usize::MAX);
    buffer.push(&Arc::new(EventBatch::new([initial(1), initial(2), add(3), initial(4)])));
    buffer.initial_complete();
    assert_eq!(drain(&mut buffer), ["added a @4 (initial)"]);
    assert!(buffer.is_synced());
}

#[test]
fn a_listener_is_synced_when_the_list_is_complete_and_handled_in_either_order() {
    for complete_first in [true, false] {
        let listener = ProcessorListener::new("one".to_owned(), &HandlerOptions::default());
        assert!(!listener.has_synced());
        listener.add(&Arc::new(EventBatch::new([initial(1), initial(2)])));
        if complete_first {
            listener.initial_complete();
        }
        for _ in 0..2 {
            assert!(!listener.has_synced());
            listener.pop().unwrap();
            listener.finished();
        }
        assert_eq!(listener.has_synced(), complete_first);
        listener.initial_complete();
        assert!(listener.has_synced());
    }
}

#[test]
fn a_listener_whose_initial_events_were_all_canceled_after_the_list_is_synced() {
    let listener =
        ProcessorListener::new("one".to_owned(), &HandlerOptions::new().buffer(BufferPolicy::Coalesce));
    listener.add(&Arc::new(EventBatch::new([initial(1)])));
    listener.initial_complete();
    assert!(!listener.has_synced());
    listener.add(&Arc::new(EventBatch::new([delete(2)])));
    assert!(listener.pop().is_none());
    assert!(listener.has_synced(), "no initial event is pending");
}

#[test]
fn a_closed_listener_ignores_new_events_and_drops_pending_ones() {
    let listener = ProcessorListener::new("one".to_owned(), &HandlerOptions::default());
    listener.add(&Arc::new(EventBatch::new([initial(1)])));
    listener.close();
    listener.add(&Arc::new(EventBatch::new([add(2)])));
    assert_eq!((listener.state().depth, listener.pop().is_none()), (0, true));
}

#[tokio::test(start_paused = true)]
async fn closing_a_listener_wakes_all_its_tasks() {
    let listener =
        Arc::new(ProcessorListener::<TestObject>::new("one".to_owned(), &HandlerOptions::default()));
    let run = || {
        let listener = Arc::clone(&listener);
        tokio::spawn(async move {
            let cancel = tokio_util::sync::CancellationToken::new();
            listener.run(&mut crate::handler::on_event(|_: Event<TestObject>| {}), &cancel).await;
        })
    };
    let runs: Vec<_> = (0..5).map(|_| run()).collect();
    tokio::task::yield_now().await;
    listener.close();
    for run in runs {
        run.await.unwrap();
    }
}

#[test]
fn the_high_water_mark_doubles_each_time_it_is_reached() {
    let mut buffer = ListenerBuffer::new(BufferPolicy::Unbounded, 2);
    let mut crossed = Vec::new();
    for version in 1..10 {
        buffer.push(&Arc::new(EventBatch::new([add(version)])));
        crossed.extend(buffer.high_water_crossed());
    }
    assert_eq!(crossed, [2, 4, 8]);
}

/// Generates a random history of events for three keys. For each key, the order is one that a pump can
/// return: an add, then updates, then a delete.
fn history() -> impl Strategy<Value = Vec<Event<TestObject>>> {
    prop::collection::vec((0..3_usize, any::<bool>()), 0..60).prop_map(|steps| {
        let mut held: [Option<Arc<TestObject>>; 3] = Default::default();
        let step = |(version, (key, remove)): (usize, (usize, bool))| {
            let new = Arc::new(object(["a", "b", "c"][key], version as u64 + 1));
            match (held[key].take(), remove) {
                (Some(last), true) => Event::Deleted { last, stale: false },
                (old, _) => {
                    held[key] = Some(Arc::clone(&new));
                    match old {
                        Some(old) => Event::Updated { old, new, resync: false },
                        None => Event::Added { object: new, initial: false },
                    }
                }
            }
        };
        steps.into_iter().enumerate().map(step).collect()
    })
}

/// A model of the cache, built only from the events that a handler received. Its method `take` panics if the
/// events of a key are not a legal history, for example if an update precedes the add.
#[derive(Default)]
struct View(std::collections::BTreeMap<String, Arc<TestObject>>);

impl View {
    fn take(&mut self, event: &Event<TestObject>) {
        let key = event.key().to_string();
        match event {
            Event::Added { object, .. } => {
                assert!(self.0.insert(key, Arc::clone(object)).is_none(), "{event}")
            }
            Event::Updated { old, new, .. } => {
                let before = self.0.insert(key, Arc::clone(new)).expect("an update follows an add");
                assert!(Arc::ptr_eq(&before, old), "`old` is the state announced last: {event}");
            }
            Event::Deleted { .. } => assert!(self.0.remove(&key).is_some(), "{event}"),
        }
    }
}

proptest! {
    #[test]
    fn a_handler_sees_a_legal_history_with_any_policy_and_pace(
        events in history(),
        pace in prop::collection::vec(0..4_usize, 60),
    ) {
        for policy in [BufferPolicy::Unbounded, BufferPolicy::Coalesce] {
            let mut buffer = ListenerBuffer::new(policy, usize::MAX);
            let (mut truth, mut told) = (View::default(), View::default());
            for (event, pops) in events.iter().zip(&pace) {
                truth.take(event);
                buffer.push(&Arc::new(EventBatch::new([event.clone()])));
                for _ in 0..*pops {
                    if let Some(event) = buffer.pop() {
                        told.take(&event);
                        buffer.finished();
                    }
                }
                if policy == BufferPolicy::Coalesce {
                    prop_assert!(buffer.depth() <= 2 * 3, "at most two events a key");
                }
            }
            while let Some(event) = buffer.pop() {
                told.take(&event);
                buffer.finished();
            }
            prop_assert_eq!(truth.0.keys().collect::<Vec<_>>(), told.0.keys().collect::<Vec<_>>());
            for (key, object) in &truth.0 {
                prop_assert!(Arc::ptr_eq(object, &told.0[key]));
            }
        }
    }
}
