use std::time::Duration;

use informer::Gvr;
use informer::cache::{SharedInformer, SharedInformerFactory, wait_for_cache_sync};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};

use crate::bench::{Map, maps};
use crate::scenario::scenario;
use crate::watched::PATIENCE;
use crate::{Bench, CallKind, Failure, InitialRead, Scenario, Watched};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(a_stopped_informer_keeps_its_cache_and_reports_differences_after_a_restart),
        scenario!(an_informer_runs_until_the_last_run_is_dropped),
        scenario!(a_factory_starts_waits_and_stops),
        scenario!(a_factory_shares_informers),
        scenario!(a_relist_reports_only_changes),
        scenario!(two_hundred_starts_and_stops_leak_nothing),
    ]
}

async fn a_stopped_informer_keeps_its_cache_and_reports_differences_after_a_restart(
    bench: Bench,
) -> Result<(), Failure> {
    bench.create_many("map", 6).await?;
    let mut watched = Watched::synced(bench.maps(InitialRead::List)).await?;
    watched.stop().await;
    assert!(watched.informer.is_stopped());
    bench.change("map-0", "1").await?;
    bench.delete("map-1").await?;
    bench.create("new").await?;
    assert_eq!(watched.informer.indexer().len(), 6, "the cache keeps its objects");
    watched.start_again();
    watched.informer.wait_for_sync(PATIENCE).await?;
    bench.settled(&watched, &maps()).await?;
    assert_eq!(watched.story("map-0"), [CallKind::Initial, CallKind::Updated]);
    assert_eq!(watched.story("map-1"), [CallKind::Initial, CallKind::DeletedStale]);
    assert_eq!(watched.story("map-2"), [CallKind::Initial], "unchanged objects are not reported again");
    assert_eq!(watched.seen().len(), 9, "{:?}", watched.seen());
    Ok(())
}

async fn an_informer_runs_until_the_last_run_is_dropped(bench: Bench) -> Result<(), Failure> {
    let informer = bench.maps(InitialRead::List);
    let (first, second) = (informer.start(), informer.start());
    informer.wait_for_sync(PATIENCE).await?;
    drop(first);
    assert!(!informer.is_stopped());
    bench.create("a").await?;
    informer.wait_until_for(PATIENCE, |cache| cache.len() == 1).await?;
    second.stop().await;
    assert!(informer.is_stopped());
    Ok(())
}

async fn a_factory_starts_waits_and_stops(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 3).await?;
    let factory = SharedInformerFactory::new(bench.client()).namespace(&*bench.namespace);
    let (maps, secrets) = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
    factory.start();
    factory.wait_for_cache_sync(PATIENCE).await?;
    assert_eq!(maps.indexer().len(), 3);
    wait_for_cache_sync([&maps as &dyn informer::cache::CacheSynced, &secrets], PATIENCE).await?;
    let services = factory.informer::<Service>();
    factory.start();
    services.wait_for_sync(PATIENCE).await?;
    assert_eq!(factory.states().len(), 3);
    factory.shutdown().await;
    assert!(maps.is_stopped() && secrets.is_stopped() && services.is_stopped());
    Ok(())
}

async fn a_factory_shares_informers(bench: Bench) -> Result<(), Failure> {
    let factory = SharedInformerFactory::new(bench.client()).namespace(&*bench.namespace);
    let (one, two) = (factory.informer::<ConfigMap>(), factory.informer::<ConfigMap>());
    factory.start();
    factory.wait_for_cache_sync(PATIENCE).await?;
    bench.create("a").await?;
    two.wait_until_for(PATIENCE, |cache| cache.len() == 1).await?;
    assert_eq!(one.indexer().len(), 1);
    assert_eq!(one.state().reflector.watches_opened, two.state().reflector.watches_opened);
    let generic = factory
        .existing(&Gvr::new("", "v1", "configmaps"))?
        .ok_or("the factory has no informer of this kind")?;
    assert!(generic.lister().get(&bench.key("a")).is_some());
    factory.shutdown().await;
    Ok(())
}

async fn a_relist_reports_only_changes(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 50).await?;
    let mut watched = Watched::synced(bench.maps(InitialRead::Stream)).await?;
    let before: Vec<_> = watched.informer.indexer().list();
    for _ in 0..3 {
        watched.stop().await;
        watched.start_again();
        watched.informer.wait_for_sync(PATIENCE).await?;
    }
    assert_eq!(watched.seen().len(), 50, "no events without changes");
    let after = watched.informer.indexer();
    let same = before.iter().all(|old| {
        after.get(informer::Object::key(&**old)).is_some_and(|new| std::sync::Arc::ptr_eq(&new, old))
    });
    assert!(same, "unchanged objects are the same allocation");
    Ok(())
}

async fn two_hundred_starts_and_stops_leak_nothing(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    let informer: SharedInformer<Map> = bench.maps_by(&client, InitialRead::List);
    for _ in 0..200 {
        let run = informer.start();
        tokio::time::timeout(Duration::from_micros(200), informer.wait_for_sync(PATIENCE)).await.ok();
        run.stop().await;
    }
    let watched = Watched::synced(informer).await?;
    bench.create("a").await?;
    bench.settled(&watched, &maps()).await?;
    // A stopped informer closes the HTTP/1.1 connections of its pending requests, which are the list and the
    // request for `/version`.
    assert!(cable.connections() < 450, "{} connections for 200 starts", cable.connections());
    Ok(())
}
