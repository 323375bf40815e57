use std::time::Duration;

use informer::cache::SharedInformer;
use informer::cache::reflector::ReflectorConfig;
use informer::source::SourceErrorKind;

use crate::bench::{Map, maps};
use crate::scenario::scenario;
use crate::{Bench, CallKind, Failure, InitialRead, Scenario, Watched};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(a_cut_watch_resumes_without_a_list),
        scenario!(changes_during_a_cut_arrive_afterwards),
        scenario!(a_deletion_during_a_cut_arrives_with_its_last_state),
        scenario!(an_object_recreated_during_a_cut_is_reported_as_deleted_and_added),
        scenario!(an_informer_waits_for_an_unavailable_server),
        scenario!(a_sync_timeout_reports_an_unreachable_server),
        scenario!(cuts_in_the_middle_of_frames_lose_nothing),
        scenario!(a_truncated_list_does_not_change_the_cache),
        scenario!(cuts_in_quick_succession_lose_nothing),
        scenario!(many_informers_on_one_connection_survive_its_loss),
        scenario!(handlers_and_readers_work_while_the_server_is_down),
        scenario!(a_restart_of_the_server_loses_nothing).alone(),
        scenario!(a_restart_of_the_storage_backend_loses_nothing).alone(),
        scenario!(a_silent_connection_is_detected).slow(),
    ]
}

async fn a_cut_watch_resumes_without_a_list(bench: Bench) -> Result<(), Failure> {
    for way in [InitialRead::List, InitialRead::Stream] {
        let (cable, client) = bench.cable().await?;
        let watched = Watched::synced(bench.maps_by(&client, way)).await?;
        // An informer lists again if several attempts to watch are cut before they delivered an event. This
        // object gives the watch an event to deliver before it is cut.
        bench.create(&format!("before-{way:?}").to_lowercase()).await?;
        bench.settled(&watched, &maps()).await?;
        let requests = watched.informer.state().reflector;
        cable.cut();
        watched.until_state(|state| state.reflector.watches_opened > requests.watches_opened).await?;
        bench.create(&format!("after-{way:?}").to_lowercase()).await?;
        bench.settled(&watched, &maps()).await?;
        let state = watched.informer.state().reflector;
        assert_eq!(state.list_requests, requests.list_requests, "{way:?}");
        assert_eq!(state.relists.total(), 0, "{way:?}");
    }
    Ok(())
}

async fn changes_during_a_cut_arrive_afterwards(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    bench.create_many("map", 5).await?;
    let watched = Watched::synced(bench.maps_by(&client, InitialRead::Stream)).await?;
    cable.unplug().await;
    for value in ["1", "2", "3"] {
        bench.change("map-0", value).await?;
    }
    bench.create("new").await?;
    cable.plug();
    bench.settled(&watched, &maps()).await?;
    assert_eq!(
        watched.story("map-0"),
        [CallKind::Initial, CallKind::Updated, CallKind::Updated, CallKind::Updated],
        "the watch resumes and delivers every state"
    );
    Ok(())
}

async fn a_deletion_during_a_cut_arrives_with_its_last_state(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    bench.create("a").await?;
    let watched = Watched::synced(bench.maps_by(&client, InitialRead::List)).await?;
    cable.unplug().await;
    let last = super::sync::version(&bench.change("a", "last words").await?);
    bench.delete("a").await?;
    cable.plug();
    bench.settled(&watched, &maps()).await?;
    assert_eq!(watched.story("a"), [CallKind::Initial, CallKind::Updated, CallKind::Deleted]);
    assert_eq!(watched.seen()[1].version, last);
    Ok(())
}

async fn an_object_recreated_during_a_cut_is_reported_as_deleted_and_added(
    bench: Bench,
) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    bench.create("a").await?;
    let watched = Watched::synced(bench.maps_by(&client, InitialRead::List)).await?;
    cable.unplug().await;
    bench.delete("a").await?;
    bench.create("a").await?;
    cable.plug();
    bench.settled(&watched, &maps()).await?;
    assert_eq!(watched.story("a"), [CallKind::Initial, CallKind::Deleted, CallKind::Added]);
    let seen = watched.seen();
    assert_ne!(seen[0].uid, seen[2].uid);
    Ok(())
}

async fn an_informer_waits_for_an_unavailable_server(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    cable.unplug().await;
    bench.create("a").await?;
    let watched = Watched::start(bench.maps_by(&client, InitialRead::List))?;
    watched.until_state(|state| state.reflector.failures >= 2).await?;
    assert!(!watched.informer.has_synced());
    cable.plug();
    bench.settled(&watched, &maps()).await
}

async fn a_sync_timeout_reports_an_unreachable_server(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    cable.unplug().await;
    let watched = Watched::start(bench.maps_by(&client, InitialRead::List))?;
    watched
        .until_state(|state| {
            let last = state.reflector.last_error.as_ref();
            last.is_some_and(|error| error.kind() == SourceErrorKind::ConnectionRefused)
        })
        .await?;
    let error = watched.informer.wait_for_sync(Duration::from_millis(50)).await;
    let text = error.err().ok_or("the informer is synced without a server")?.to_string();
    assert!(text.contains("configmaps") && text.contains("refused"), "{text}");
    Ok(())
}

async fn cuts_in_the_middle_of_frames_lose_nothing(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    bench.create_many("map", 10).await?;
    // If several consecutive watches end within a second, the informer backs off.
    let mut config = ReflectorConfig::named("maps");
    config.backoff.initial = Duration::from_millis(10);
    config.backoff.cap = Duration::from_millis(100);
    let source = bench.source::<Map>(&client, InitialRead::List);
    let informer = SharedInformer::builder(source).reflector(config).build();
    let watched = Watched::synced(informer).await?;
    for round in 0_u32..6 {
        cable.cut_after(150 + 97 * round);
        for number in 0..10 {
            bench.change(&format!("map-{number}"), &format!("{round}")).await?;
        }
        bench.settled(&watched, &maps()).await?;
    }
    bench.settled(&watched, &maps()).await?;
    assert!(watched.informer.state().reflector.watches_opened > 1, "no watch was cut");
    Ok(())
}

async fn a_truncated_list_does_not_change_the_cache(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    bench.create_many("map", 200).await?;
    let mut watched = Watched::synced(bench.maps_by(&client, InitialRead::List)).await?;
    watched.stop().await;
    let seen = watched.seen().len();
    for number in 0..20 {
        bench.delete(&format!("map-{number}")).await?;
    }
    // The connection is cut in the middle of the list, which has 180 objects of at least 100 bytes each.
    cable.cut();
    cable.cut_after(15_000);
    watched.start_again();
    watched.until_state(|state| state.reflector.failures > 0).await?;
    assert_eq!((watched.seen().len(), watched.informer.indexer().len()), (seen, 200));
    bench.settled(&watched, &maps()).await?;
    let deleted = watched.seen().iter().filter(|seen| seen.what == CallKind::DeletedStale).count();
    assert_eq!(deleted, 20);
    Ok(())
}

async fn cuts_in_quick_succession_lose_nothing(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    bench.create_many("map", 10).await?;
    let watched = Watched::synced(bench.maps_by(&client, InitialRead::Stream)).await?;
    for round in 0..40 {
        bench.change(&format!("map-{}", round % 10), &round.to_string()).await?;
        if round % 4 == 0 {
            bench.delete(&format!("map-{}", round % 10)).await?;
            bench.create(&format!("map-{}", round % 10)).await?;
        }
        cable.cut();
    }
    bench.settled(&watched, &maps()).await
}

async fn many_informers_on_one_connection_survive_its_loss(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    bench.create_many("map", 5).await?;
    let mut informers = Vec::new();
    for number in 0..12 {
        let way = if number % 2 == 0 { InitialRead::List } else { InitialRead::Stream };
        informers.push(Watched::synced(bench.maps_by(&client, way)).await?);
    }
    cable.unplug().await;
    bench.change("map-1", "1").await?;
    bench.delete("map-2").await?;
    cable.plug();
    for watched in &informers {
        bench.settled(watched, &maps()).await?;
    }
    Ok(())
}

async fn handlers_and_readers_work_while_the_server_is_down(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    bench.create_many("map", 3).await?;
    let watched = Watched::synced(bench.maps_by(&client, InitialRead::List)).await?;
    cable.unplug().await;
    watched.until_state(|state| state.reflector.is_failing()).await?;
    let options = informer::cache::HandlerOptions::default().resync(Duration::from_secs(1));
    let late = Watched::join(watched.informer.clone(), options)?;
    late.until_seen(|seen| seen.iter().any(|seen| seen.what == CallKind::Resync)).await?;
    assert_eq!(watched.informer.indexer().len(), 3);
    assert!(watched.informer.has_synced(), "it stays synced while the server is down");
    cable.plug();
    bench.create("back").await?;
    bench.settled(&watched, &maps()).await
}

async fn a_restart_of_the_server_loses_nothing(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 20).await?;
    let (list, stream) = (
        Watched::synced(bench.maps(InitialRead::List)).await?,
        Watched::synced(bench.maps(InitialRead::Stream)).await?,
    );
    bench.change("map-0", "before").await?;
    bench.server.stop().await?;
    list.until_state(|state| state.reflector.is_failing()).await?;
    bench.server.start().await?;
    bench.change("map-1", "after").await?;
    bench.delete("map-2").await?;
    let fresh = Watched::synced(bench.maps(InitialRead::List)).await?;
    for watched in [&list, &stream, &fresh] {
        bench.settled(watched, &maps()).await?;
    }
    assert_eq!(list.story("map-1"), [CallKind::Initial, CallKind::Updated]);
    Ok(())
}

async fn a_restart_of_the_storage_backend_loses_nothing(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 20).await?;
    let mut informers = Vec::new();
    for way in [InitialRead::List, InitialRead::Stream] {
        informers.push(Watched::synced(bench.maps(way)).await?);
    }
    bench.server.restart_store().await?;
    // The restarted server accepts reads before it accepts writes, so the first write is retried.
    while bench.change("map-1", "after").await.is_err() {
        crate::poll::pause().await;
    }
    bench.delete("map-2").await?;
    bench.create("new").await?;
    for watched in &informers {
        bench.settled(watched, &maps()).await?;
        assert_eq!(watched.story("map-3"), [CallKind::Initial], "unchanged objects are not reported again");
    }
    Ok(())
}

async fn a_silent_connection_is_detected(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    let watched = Watched::synced(bench.maps_by(&client, InitialRead::List)).await?;
    cable.freeze();
    bench.create("unseen").await?;
    crate::poll::until(|| {
        let state = watched.informer.state().reflector;
        state.last_error.is_some() || state.watches_opened > 1
    })
    .await;
    cable.cut();
    cable.plug();
    bench.settled(&watched, &maps()).await
}
