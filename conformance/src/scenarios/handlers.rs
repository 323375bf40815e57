use std::sync::Arc;
use std::time::Duration;

use informer::Object;
use informer::cache::{BufferPolicy, Event, HandlerOptions, filtered, on_event, on_event_async};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::bench::{Map, maps};
use crate::scenario::scenario;
use crate::watched::recorder;
use crate::{Bench, CallKind, Failure, InitialRead, Scenario, Watched};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(a_late_handler_receives_the_cached_objects_first),
        scenario!(handlers_added_during_changes_miss_no_event),
        scenario!(a_slow_handler_does_not_delay_others),
        scenario!(a_slow_handler_can_receive_merged_updates),
        scenario!(a_panicking_handler_does_not_affect_others),
        scenario!(a_removed_handler_receives_no_further_events),
        scenario!(a_resync_sends_no_requests),
        scenario!(a_filtered_handler_receives_adds_and_deletes_when_the_match_changes),
        scenario!(events_are_available_as_a_stream),
        scenario!(the_cache_is_never_older_than_handler_events),
    ]
}

async fn a_late_handler_receives_the_cached_objects_first(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 10).await?;
    let first = Watched::synced(bench.maps(InitialRead::List)).await?;
    bench.change("map-0", "1").await?;
    bench.settled(&first, &maps()).await?;
    let late = Watched::join(first.informer.clone(), HandlerOptions::default())?;
    late.registration.wait_for_sync(crate::watched::PATIENCE).await?;
    assert_eq!(late.seen().len(), 10);
    assert!(late.seen().iter().all(|seen| seen.what == CallKind::Initial));
    bench.change("map-1", "1").await?;
    bench.settled(&late, &maps()).await?;
    assert_eq!(late.story("map-1"), [CallKind::Initial, CallKind::Updated]);
    Ok(())
}

async fn handlers_added_during_changes_miss_no_event(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 10).await?;
    let first = Watched::synced(bench.maps(InitialRead::Stream)).await?;
    let mut late = Vec::new();
    for round in 0..12 {
        bench.change(&format!("map-{}", round % 10), &format!("{round}")).await?;
        late.push(Watched::join(first.informer.clone(), HandlerOptions::default())?);
        bench.create(&format!("new-{round}")).await?;
    }
    bench.settled(&first, &maps()).await?;
    for handler in &late {
        bench.settled(handler, &maps()).await?;
    }
    Ok(())
}

async fn a_slow_handler_does_not_delay_others(bench: Bench) -> Result<(), Failure> {
    let gate = Arc::new(Semaphore::new(0));
    let informer = bench.maps(InitialRead::List);
    let (slow_calls, permits) = (Arc::new(Mutex::new(Vec::new())), Arc::clone(&gate));
    let calls = Arc::clone(&slow_calls);
    let slow = informer.add_handler(on_event_async(move |event: Event<Map>| {
        let (calls, permits) = (Arc::clone(&calls), Arc::clone(&permits));
        async move {
            if let Ok(permit) = permits.acquire().await {
                permit.forget();
            }
            calls.lock().push(event.key().to_string());
        }
    }))?;
    let fast = Watched::synced(informer).await?;
    bench.create_many("map", 25).await?;
    bench.settled(&fast, &maps()).await?;
    assert!(slow_calls.lock().is_empty(), "the first call has not returned");
    gate.add_permits(25);
    while slow.state().calls < 25 {
        crate::poll::pause().await;
    }
    assert_eq!(slow_calls.lock().len(), 25, "all events were queued for it");
    Ok(())
}

async fn a_slow_handler_can_receive_merged_updates(bench: Bench) -> Result<(), Failure> {
    let gate = Arc::new(Semaphore::new(0));
    let informer = bench.maps(InitialRead::List);
    let told = Arc::new(Mutex::new(Vec::new()));
    let (calls, permits) = (Arc::clone(&told), Arc::clone(&gate));
    let options = HandlerOptions::default().buffer(BufferPolicy::Coalesce);
    let slow = informer.add_handler_with(
        options,
        on_event_async(move |event: Event<Map>| {
            let (calls, permits) = (Arc::clone(&calls), Arc::clone(&permits));
            async move {
                let _ = permits.acquire().await;
                calls
                    .lock()
                    .push((event.key().name().to_owned(), event.object().resource_version().to_string()));
            }
        }),
    )?;
    let fast = Watched::synced(informer).await?;
    bench.create("blocker").await?;
    bench.create("a").await?;
    let mut last = String::new();
    for round in 0..30 {
        last = super::sync::version(&bench.change("a", &round.to_string()).await?);
    }
    bench.settled(&fast, &maps()).await?;
    assert!(slow.state().depth <= 2, "one entry per key: {:?}", slow.state());
    gate.add_permits(1);
    while slow.state().depth > 0 || told.lock().last().is_none_or(|(_, version)| *version != last) {
        crate::poll::pause().await;
    }
    let of_a = told.lock().iter().filter(|(name, _)| name == "a").count();
    assert!(of_a <= 2, "{of_a} calls for 31 states");
    Ok(())
}

async fn a_panicking_handler_does_not_affect_others(bench: Bench) -> Result<(), Failure> {
    let informer = bench.maps(InitialRead::List);
    let fragile = informer.add_handler(on_event(|event: Event<Map>| {
        assert!(event.key().name() != "map-3", "this handler panics for map-3");
    }))?;
    let watched = Watched::synced(informer).await?;
    bench.create_many("map", 6).await?;
    bench.settled(&watched, &maps()).await?;
    while fragile.state().calls + fragile.state().panics < 6 {
        crate::poll::pause().await;
    }
    assert_eq!(fragile.state().panics, 1);
    Ok(())
}

async fn a_removed_handler_receives_no_further_events(bench: Bench) -> Result<(), Failure> {
    let watched = Watched::synced(bench.maps(InitialRead::List)).await?;
    let (handler, seen) = recorder();
    let registration = watched.informer.add_handler(handler)?;
    bench.create("before").await?;
    let mut told = seen.clone();
    told.wait_for(|seen| seen.len() == 1).await?;
    registration.remove_and_wait().await;
    bench.create("after").await?;
    bench.settled(&watched, &maps()).await?;
    assert_eq!(seen.borrow().len(), 1);
    assert_eq!(watched.informer.state().handlers.len(), 1, "only the other handler is left");
    Ok(())
}

async fn a_resync_sends_no_requests(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 4).await?;
    let quiet = Watched::synced(bench.maps(InitialRead::List)).await?;
    let options = HandlerOptions::default().resync(Duration::from_secs(1));
    let eager = Watched::join(quiet.informer.clone(), options)?;
    eager.until_seen(|seen| seen.iter().filter(|seen| seen.what == CallKind::Resync).count() >= 8).await?;
    assert!(quiet.seen().iter().all(|seen| seen.what == CallKind::Initial), "{:?}", quiet.seen());
    let state = quiet.informer.state().reflector;
    assert_eq!((state.list_requests, state.watches_opened), (1, 1));
    eager.replayed().map(drop)
}

async fn a_filtered_handler_receives_adds_and_deletes_when_the_match_changes(
    bench: Bench,
) -> Result<(), Failure> {
    let watched = Watched::synced(bench.maps(InitialRead::List)).await?;
    let (handler, seen) = recorder();
    let chosen = |map: &Map| map.labels().get("chosen").is_some();
    watched.informer.add_handler(filtered(chosen, handler))?;
    bench.create("a").await?;
    for labels in [json!({"chosen": "yes"}), json!({"chosen": "again"}), json!({"chosen": null})] {
        let patch = json!({"metadata": {"labels": labels}});
        bench.api.merge(&maps(), &bench.namespace, "a", &patch).await?;
    }
    let mut told = seen.clone();
    told.wait_for(|seen| seen.len() == 3).await?;
    let story: Vec<CallKind> = seen.borrow().iter().map(|seen| seen.what).collect();
    assert_eq!(story, [CallKind::Added, CallKind::Updated, CallKind::Deleted]);
    Ok(())
}

async fn events_are_available_as_a_stream(bench: Bench) -> Result<(), Failure> {
    bench.create("a").await?;
    let watched = Watched::synced(bench.maps(InitialRead::List)).await?;
    let mut events = watched.informer.events();
    assert!(matches!(events.next().await, Some(Event::Added { initial: true, .. })));
    bench.change("a", "1").await?;
    bench.delete("a").await?;
    assert!(matches!(events.next().await, Some(Event::Updated { .. })));
    let Some(Event::Deleted { last, stale }) = events.next().await else {
        return Err("expected a deletion".into());
    };
    assert!(!stale);
    assert_eq!(last.get()?.data.as_ref().and_then(|data| data.get("value")).map(String::as_str), Some("1"));
    Ok(())
}

async fn the_cache_is_never_older_than_handler_events(bench: Bench) -> Result<(), Failure> {
    let informer = bench.maps(InitialRead::List);
    let (cache, wrong) = (informer.indexer().clone(), Arc::new(Mutex::new(Vec::new())));
    let found = Arc::clone(&wrong);
    informer.add_handler(on_event(move |event: Event<Map>| {
        let held = cache.get(event.key());
        let newer = |held: &Map| !held.resource_version().is_older_than(event.object().resource_version());
        if !event.is_deleted() && !held.is_none_or(|held| newer(&held)) {
            found.lock().push(event.to_string());
        }
    }))?;
    let watched = Watched::synced(informer).await?;
    bench.create_many("map", 10).await?;
    for round in 0..30 {
        bench.change(&format!("map-{}", round % 10), &round.to_string()).await?;
    }
    bench.settled(&watched, &maps()).await?;
    assert!(wrong.lock().is_empty(), "the cache was older than the event: {:?}", wrong.lock());
    Ok(())
}
